//! What a learned arm could recall if its credit were perfect: a fresh retriever is taught, instead of by a
//! world model, by which memories show what has changed as it is now. What it then misses in kitchens it
//! never saw, its cues cannot tell.
//!
//! ```sh
//! cargo run --release -p far --example known_states -- runs/kitchen/arms/far-meta
//! ```

use far_data::{ChangeKind, Split};
use far_memory::{MemoryId, Pool, Recall, RecallPolicy, RecallQuery, Scratch};
use far_model::{
    CandidateBatch, CandidatePools, DistillationTarget, EncodedEpisode, Present, RetrieverBatch,
    RetrieverTrainingConfig, TrainableRetriever, candidate_distillation, embed_queries,
};
use far_tensor::{ArenaBuilder, Device, Random, Trained};
use far_train::{ArmTraining, CueRegistry, SavedRun, Workshop};
use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

/// Updates, and questions of each.
const UPDATES: u64 = 800;
const TOGETHER: usize = 16;
/// Nats by which a memory is worth more that shows all that changed: it is next to certain.
const WORTH: f32 = 10.0;

/// A view that shows something changed, one generated frame ahead.
struct Question {
    episode: Arc<EncodedEpisode>,
    query: RecallQuery,
    kind: ChangeKind,
    /// For each thing that changed, the memories that show it as it is now.
    witnesses: Vec<Vec<usize>>,
}

/// The changed views of some episodes, each viewpoint of a return once.
fn questions(workshop: &Workshop, episodes: &[u32]) -> Result<Vec<Question>, Box<dyn Error>> {
    let (data, stride) = (workshop.data(), workshop.config().evaluation.stride as usize);
    let mut found = Vec::new();
    for id in episodes {
        let (recorded, episode) = (data.dataset().episode(*id)?, data.episode(*id)?);
        let mut viewpoints = BTreeSet::new();
        for goal in recorded.boundary() + stride..recorded.len() {
            let changed = recorded.is_changed(goal) && recorded.pose_key(goal) >= 0;
            if !changed || !viewpoints.insert(recorded.pose_key(goal)) {
                continue;
            }
            let Some(change) = recorded.change(goal)? else { continue };
            let frame = goal - stride;
            let mut query = [episode.recall_query(frame, goal, Pool::All)];
            let present = Present { episode: &episode, frame, latent: episode.latent(frame) };
            embed_queries(data.encoders(), &workshop.scale(), &[present], &mut query)?;
            let ([query], witnesses) = (query, recorded.witnesses(goal));
            let (episode, kind) = (episode.clone(), change.kind);
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

/// The share of questions of a kind for which the recalled memories show all that changed.
fn recalled(
    policy: &dyn RecallPolicy,
    questions: &[Question],
    kind: ChangeKind,
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
    let training = ArmTraining::new(&workshop)?;
    let fresh = training.joint().retrievers().first().ok_or("the run's arm does not learn")?;
    let dataset = workshop.data().dataset();
    let rule = config.data.split_rule.unwrap_or(dataset.description().splits[0]);
    let known = questions(&workshop, &dataset.select(rule, Split::Train)?)?;
    let unknown = questions(&workshop, &dataset.select(rule, Split::Test)?)?;

    let mut builder = ArenaBuilder::new("known states");
    let learning = RetrieverTrainingConfig::default();
    let retriever =
        TrainableRetriever::new(&mut builder, fresh.policy().config().clone(), learning)?;
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
    let surfaces = unknown.iter().filter(|question| question.kind == ChangeKind::Surface).count();
    let containers = unknown.len() - surfaces;
    println!(
        "{} changed views learned from, {surfaces} surfaces and {containers} containers judged",
        known.len()
    );
    let learned = retriever.export(&trained.parameters)?;
    let rules = ["nearest-pose", "worldmem", "temporal"];
    let mut policies: Vec<(&str, Box<dyn RecallPolicy>)> =
        vec![("known-states", Box::new(learned))];
    for id in rules {
        policies.push((id, workshop.rule(id)?.build()?));
    }
    for (name, policy) in policies {
        for slots in [3, 8] {
            let [surface, container] = [ChangeKind::Surface, ChangeKind::Container]
                .map(|kind| recalled(policy.as_ref(), &unknown, kind, slots));
            let (surface, container) = (surface?, container?);
            println!(
                "{name:<14} {slots} memories: surfaces {surface:3.0} %, containers {container:3.0} %"
            );
        }
    }
    Ok(())
}
