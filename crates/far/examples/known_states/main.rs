//! What a learned arm could recall if its credit were perfect: a fresh retriever is taught, instead of by a
//! world model, by which memories show what is asked for. In kitchens that is what has changed, as it is now,
//! and what tells a pair of histories apart; in corridors the second agent's last crossing; elsewhere the
//! faces of the goal's view, apart by whether a wall stands before it. What it then misses in episodes it
//! never saw, its cues cannot tell, and a cue that its gate does not trust has nothing to add.
//!
//! ```sh
//! cargo run --release -p far --example known_states -- runs/kitchen/arms/far-meta
//! cargo run --release -p far --example known_states -- runs/apartment-v1/arms/far-multi at-goal
//! ```
//!
//! With `at-goal`, key cues ask by what is seen and heard at the goal itself, which nobody knows in time:
//! no encoder can foresee more.

mod question;

use far_data::Split;
use far_eval::Interval;
use far_memory::{MemoryId, Recall, RecallPolicy, Scratch};
use far_model::{
    CandidateBatch, CandidatePools, DistillationTarget, METADATA_CUE, RetrieverBatch,
    RetrieverTrainingConfig, TrainableRetriever, candidate_distillation,
};
use far_tensor::{ArenaBuilder, Device, Random, Trained};
use far_train::{ArmTraining, CueRegistry, SavedRun, TrainingLoop, Workshop};
use question::{AsksFrom, Question, questions};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::Path;

/// Updates, and questions of each.
const UPDATES: u64 = 800;
const TOGETHER: usize = 16;
/// Nats by which a memory is worth more that shows all that is asked for: it is next to certain.
const WORTH: f32 = 10.0;

/// All memories as candidates, and what each is worth.
fn candidates(question: &Question) -> (CandidatePools, Vec<f32>) {
    let places: Vec<usize> = (0..question.episode.boundary()).collect();
    let share = WORTH / question.witnesses.len().max(1) as f32;
    let mut worth = vec![0.0; places.len()];
    question.witnesses.iter().flatten().for_each(|memory| worth[*memory] += share);
    let ids = places.iter().map(|place| MemoryId::from(*place)).collect();
    let pools = CandidatePools { ids, positions: places.clone(), global: places, local: vec![] };
    (pools, worth)
}

/// How much of what the questions of a kind ask for the recalled memories show, in percent.
fn shown(
    policy: &dyn RecallPolicy,
    questions: &[Question],
    kind: &str,
    slots: usize,
) -> Result<f64, Box<dyn Error>> {
    let (mut scratch, mut recall) = (Scratch::new(), Recall::new());
    let (mut sum, mut all) = (0.0, 0);
    for question in questions.iter().filter(|question| question.kind == kind) {
        let memory = question.episode.memory();
        policy.recall(memory, &question.query, slots, &mut scratch, &mut recall)?;
        sum += question.shown(&recall);
        all += 1;
    }
    Ok(100.0 * sum / f64::from(all.max(1)))
}

/// Prints the mean weight of each key cue by kind and, for two kinds, how much larger that of the first
/// is than that of the second within an episode, with its interval.
fn print_weights(
    policy: &dyn RecallPolicy,
    questions: &[Question],
    kinds: &BTreeSet<&str>,
    seed: u64,
) -> Result<(), Box<dyn Error>> {
    let (mut scratch, mut recall) = (Scratch::new(), Recall::new());
    let mut weights: BTreeMap<(String, &str, u32), Vec<f64>> = BTreeMap::new();
    for question in questions {
        policy.recall(question.episode.memory(), &question.query, 1, &mut scratch, &mut recall)?;
        for (cue, weight) in recall.cues().iter().zip(recall.weights()) {
            let place = (cue.clone(), question.kind, question.episode.id());
            weights.entry(place).or_default().push(f64::from(*weight));
        }
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let cues: BTreeSet<&String> = weights.keys().map(|(cue, ..)| cue).collect();
    for cue in cues.into_iter().filter(|cue| *cue != METADATA_CUE) {
        print!("weight of {cue}:");
        for kind in kinds {
            let own = weights.iter().filter(|((each, of, _), _)| each == cue && of == kind);
            let own: Vec<f64> = own.flat_map(|(_, values)| values).copied().collect();
            print!(" {kind} {:.3}", mean(&own));
        }
        if let [first, second] = kinds.iter().copied().collect::<Vec<_>>()[..] {
            let of = |kind, id| weights.get(&(cue.clone(), kind, id)).map(|values| mean(values));
            let ids: BTreeSet<u32> = weights.keys().map(|(.., id)| *id).collect();
            let rises = ids.into_iter().filter_map(|id| Some(of(first, id)? - of(second, id)?));
            let Interval { mean, lo, hi } = Interval::of(&rises.collect::<Vec<_>>(), seed);
            print!(", difference {mean:+.3} ({lo:+.3} to {hi:+.3})");
        }
        println!();
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let run = arguments.next().ok_or("give the folder of a run that far train made")?;
    let asks_from = match arguments.next().as_deref() {
        None => AsksFrom::Present,
        Some("at-goal") => AsksFrom::Goal,
        Some(other) => return Err(format!("`{other}` is not known; `at-goal` is").into()),
    };
    let saved = SavedRun::read(Path::new(&run))?;
    let (config, cues, device) = (&saved.config, CueRegistry::of(&saved.config), Device::cpu());
    let workshop = Workshop::open_to_judge(config, &cues, &saved.folder, &device, &mut |_| {})?;
    let mut training = ArmTraining::new(&workshop)?;
    training.load(&saved.checkpoint)?;
    let own = training.joint().retrievers().first().ok_or("the run's arm does not learn")?;
    let dataset = workshop.data().dataset();
    let rule = config.data.split_rule.unwrap_or(dataset.description().splits[0]);
    let known = questions(&workshop, &dataset.select(rule, Split::Train)?, asks_from)?;
    let unknown = questions(&workshop, &dataset.select(rule, Split::Test)?, asks_from)?;

    let mut builder = ArenaBuilder::new("known states");
    let learning = RetrieverTrainingConfig {
        weighting: config.arm.weights,
        gate_rate: config.retriever.gate_rate_factor,
        ..RetrieverTrainingConfig::default()
    };
    let retriever = TrainableRetriever::new(&mut builder, own.policy().config().clone(), learning)?;
    let optimizer = config.training.retriever_optimizer(&config.retriever);
    let mut trained = Trained::new(builder.build(config.training.seed), optimizer);
    for update in 0..UPDATES {
        let mut random = Random::stream(config.training.seed, "known states", update);
        let drawn: Vec<&Question> =
            (0..TOGETHER).map(|_| &known[random.below(known.len())]).collect();
        let examples: Vec<_> =
            drawn.iter().map(|question| (&question.query, question.episode.memory())).collect();
        let batch = RetrieverBatch::new(retriever.config(), &examples)?;
        let (pools, worth): (Vec<_>, Vec<_>) =
            drawn.iter().map(|question| candidates(question)).unzip();
        let taught = CandidateBatch::new(batch.mask(), &pools, &worth)?;
        trained.step(&device, 1, |tape, parameters, _| {
            let scores = retriever.scores(tape, parameters, &batch)?;
            candidate_distillation(tape, &scores.fused, &taught, DistillationTarget::UtilityOnly)
        })?;
    }
    let kinds: BTreeSet<&str> = unknown.iter().map(|question| question.kind).collect();
    print!("{} views learned from, judged:", known.len());
    for kind in &kinds {
        print!(" {} {kind}", unknown.iter().filter(|question| question.kind == *kind).count());
    }
    println!();
    let learned = retriever.export(&trained.parameters)?;
    print_weights(&learned, &unknown, &kinds, config.training.seed)?;
    let rules = ["nearest-pose", "worldmem", "temporal", "random"];
    let mut policies: Vec<(&str, Box<dyn RecallPolicy>)> =
        vec![("known-states", Box::new(learned)), ("as trained", training.policy()?)];
    for id in rules {
        policies.push((id, workshop.rule(id)?.build()?));
    }
    for (name, policy) in policies {
        for slots in [3, 6, 8] {
            print!("{name:<14} {slots} memories:");
            for kind in &kinds {
                let share = shown(policy.as_ref(), &unknown, kind, slots)?;
                print!(" {kind} {share:3.0} %");
            }
            println!();
        }
    }
    Ok(())
}
