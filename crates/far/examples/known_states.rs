//! What a learned arm could recall if its credit were perfect: a fresh retriever is taught, instead of by a
//! world model, by which memories show what has changed as it is now or tell a pair of histories apart, or,
//! in corridors, show the second agent's last crossing. What it then misses in episodes it never saw, its cues cannot tell.
//!
//! ```sh
//! cargo run --release -p far --example known_states -- runs/kitchen/arms/far-meta
//! ```

use far_data::{ChangeKind, Dataset, Divergence, Episode, Signal, Split, last_crossing};
use far_memory::{MemoryId, Pool, Recall, RecallPolicy, RecallQuery, Scratch};
use far_model::{
    CandidateBatch, CandidatePools, DistillationTarget, EncodedEpisode, Present, RetrieverBatch,
    RetrieverTrainingConfig, TrainableRetriever, candidate_distillation, embed_queries,
};
use far_tensor::{ArenaBuilder, Device, Random, Trained};
use far_train::{ArmTraining, CueRegistry, SavedRun, TrainingLoop, Workshop};
use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

/// Updates, and questions of each.
const UPDATES: u64 = 800;
const TOGETHER: usize = 16;
/// Nats by which a memory is worth more that shows all that changed: it is next to certain.
const WORTH: f32 = 10.0;

/// A view that only some memories tell of.
struct Question {
    episode: Arc<EncodedEpisode>,
    query: RecallQuery,
    kind: &'static str,
    /// For each thing to be known, the memories that show it.
    witnesses: Vec<Vec<usize>>,
}

/// What is asked of an episode: present, goal, kind and witnesses.
type Asked = (usize, usize, &'static str, Vec<Vec<usize>>);

/// The changed views, each viewpoint of a return once, `stride` frames ahead.
fn changed_views(episode: &Episode, stride: usize) -> Result<Vec<Asked>, Box<dyn Error>> {
    let (mut viewpoints, mut found) = (BTreeSet::new(), Vec::new());
    for goal in episode.boundary() + stride..episode.len() {
        let changed = episode.is_changed(goal) && episode.pose_key(goal) >= 0;
        if !changed || !viewpoints.insert(episode.pose_key(goal)) {
            continue;
        }
        let Some(change) = episode.change(goal)? else { continue };
        let kind = match change.kind {
            ChangeKind::Surface => "surfaces",
            ChangeKind::Container => "containers",
        };
        found.push((goal - stride, goal, kind, episode.witnesses(goal)));
    }
    Ok(found)
}

/// The reveal of a counterfactual pair, which only memories of the deed tell; nothing where it has none.
fn histories(dataset: &Dataset, episode: &Episode) -> Result<Vec<Asked>, Box<dyn Error>> {
    let Some(pair) = dataset.summary(episode.id())?.facts.pair else {
        return Ok(Vec::new());
    };
    let other = dataset.episode(pair.episode)?;
    let divergence = Divergence::of(episode, &other);
    let asked = divergence.into_iter().map(|Divergence { current, goal, remembered }| {
        (current, goal, "histories", vec![remembered])
    });
    Ok(asked.collect())
}

/// Both ends of a corridor, from where the return begins; nothing where nobody crossed.
fn crossings(episode: &Episode) -> Vec<Asked> {
    let witnesses = last_crossing(episode, episode.boundary());
    if witnesses.is_empty() {
        return Vec::new();
    }
    let mut viewpoints = BTreeSet::new();
    let goals = episode.boundary() + 1..episode.len();
    let ends = goals
        .filter(|goal| episode.pose_key(*goal) >= 0 && viewpoints.insert(episode.pose_key(*goal)));
    ends.map(|goal| (episode.boundary(), goal, "crossings", vec![witnesses.clone()])).collect()
}

/// The questions about some episodes.
fn questions(workshop: &Workshop, episodes: &[u32]) -> Result<Vec<Question>, Box<dyn Error>> {
    let (data, stride) = (workshop.data(), workshop.config().evaluation.stride as usize);
    let mut found = Vec::new();
    for id in episodes {
        let (recorded, episode) = (data.dataset().episode(*id)?, data.episode(*id)?);
        let asked = if recorded.description().has(Signal::Agent) {
            crossings(&recorded)
        } else {
            let mut asked = changed_views(&recorded, stride)?;
            asked.extend(histories(data.dataset(), &recorded)?);
            asked
        };
        for (frame, goal, kind, witnesses) in asked {
            let mut query = [episode.recall_query(frame, goal, Pool::All)];
            let present = Present { episode: &episode, frame, goal, latent: episode.latent(frame) };
            embed_queries(data.encoders(), &workshop.scale(), &[present], &mut query)?;
            let ([query], episode) = (query, episode.clone());
            found.push(Question { episode, query, kind, witnesses });
        }
    }
    Ok(found)
}

/// All memories as candidates, and what each is worth.
fn candidates(question: &Question) -> (CandidatePools, Vec<f32>) {
    let places: Vec<usize> = (0..question.episode.boundary()).collect();
    let share = WORTH / question.witnesses.len().max(1) as f32;
    let worth = |memory: &usize| {
        share * question.witnesses.iter().filter(|frames| frames.contains(memory)).count() as f32
    };
    let worth = places.iter().map(worth).collect();
    let ids = places.iter().map(|place| MemoryId::from(*place)).collect();
    let pools = CandidatePools { ids, positions: places.clone(), global: places, local: vec![] };
    (pools, worth)
}

/// The share of questions of a kind for which the recalled memories show everything.
fn recalled(
    policy: &dyn RecallPolicy,
    questions: &[Question],
    kind: &str,
    slots: usize,
) -> Result<f64, Box<dyn Error>> {
    let (mut scratch, mut recall) = (Scratch::new(), Recall::new());
    let (mut right, mut all) = (0, 0);
    for question in questions.iter().filter(|question| question.kind == kind) {
        let memory = question.episode.memory();
        policy.recall(memory, &question.query, slots, &mut scratch, &mut recall)?;
        let seen = |frames: &Vec<usize>| recall.ids().any(|id| frames.contains(&id.index()));
        right += usize::from(question.witnesses.iter().all(seen));
        all += 1;
    }
    Ok(100.0 * right as f64 / f64::from(all.max(1)))
}

fn main() -> Result<(), Box<dyn Error>> {
    let run = std::env::args().nth(1).ok_or("give the folder of a run that far train made")?;
    let saved = SavedRun::read(Path::new(&run))?;
    let (config, cues, device) = (&saved.config, CueRegistry::of(&saved.config)?, Device::cpu());
    let workshop = Workshop::open_to_judge(config, &cues, &saved.folder, &device, &mut |_| {})?;
    let mut training = ArmTraining::new(&workshop)?;
    training.load(&saved.checkpoint)?;
    let own = training.joint().retrievers().first().ok_or("the run's arm does not learn")?;
    let dataset = workshop.data().dataset();
    let rule = config.data.split_rule.unwrap_or(dataset.description().splits[0]);
    let known = questions(&workshop, &dataset.select(rule, Split::Train)?)?;
    let unknown = questions(&workshop, &dataset.select(rule, Split::Test)?)?;

    let mut builder = ArenaBuilder::new("known states");
    let learning = RetrieverTrainingConfig::default();
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
    let rules = ["nearest-pose", "worldmem", "temporal"];
    let mut policies: Vec<(&str, Box<dyn RecallPolicy>)> =
        vec![("known-states", Box::new(learned)), ("as trained", training.policy()?)];
    for id in rules {
        policies.push((id, workshop.rule(id)?.build()?));
    }
    for (name, policy) in policies {
        for slots in [3, 6, 8] {
            print!("{name:<14} {slots} memories:");
            for kind in &kinds {
                let share = recalled(policy.as_ref(), &unknown, kind, slots)?;
                print!(" {kind} {share:3.0} %");
            }
            println!();
        }
    }
    Ok(())
}
