//! What it would bring to know where walls stand: a trained arm beside itself, asked for memories from
//! which the goal can be seen in a straight line as long as there are any. Sound tells rooms apart at best as well as
//! that, so this bounds what it can add to poses.
//!
//! ```sh
//! cargo run --release -p far --example known_walls -- runs/apartment-v1/arms/far-meta cuda
//! ```

use far_eval::{Arm, Evaluation, Interval, Probes};
use far_memory::{
    Error as MemoryError, MemoryId, Pool, Recall, RecallPolicy, RecallQuery, Scratch, Snapshot,
};
use far_tensor::{Device, Precision};
use far_train::{ArmTraining, CueRegistry, SavedRun, TrainingLoop, Workshop};
use far_world::Sight;
use std::collections::HashMap;
use std::error::Error;
use std::path::Path;

/// A way out is known by where it begins and ends, bit by bit, and by its length.
type Way = ([u32; 3], [u32; 3], usize);

/// Another policy, among memories that see the goal.
struct KnownWalls {
    arm: Arm,
    sights: HashMap<Way, Sight>,
}

impl RecallPolicy for KnownWalls {
    fn id(&self) -> &str {
        "known-walls"
    }

    fn recall(
        &self,
        snapshot: &Snapshot,
        query: &RecallQuery,
        slots: usize,
        scratch: &mut Scratch,
        recall: &mut Recall,
    ) -> Result<(), MemoryError> {
        let inner = self.arm.as_policy().expect("an arm that recalls");
        let last = snapshot.len().saturating_sub(1);
        let way = way(snapshot.position(0), snapshot.position(last), snapshot.len());
        let Some(sight) = self.sights.get(&way) else {
            return inner.recall(snapshot, query, slots, scratch, recall);
        };
        let goal = query.goal().position;
        let view = snapshot.pool(&query.pool, query.pool_cap)?;
        let clear = view.iter().filter(|id| !sight.is_blocked(snapshot.position(id.index()), goal));
        let clear: Vec<MemoryId> = clear.collect();
        if clear.len() < slots {
            return inner.recall(snapshot, query, slots, scratch, recall);
        }
        let query = query.clone().with_pool(Pool::ids(clear));
        inner.recall(snapshot, &query, slots, scratch, recall)
    }
}

fn way(first: [f32; 3], last: [f32; 3], length: usize) -> Way {
    (first.map(f32::to_bits), last.map(f32::to_bits), length)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let run = arguments.next().ok_or("give the folder of a run that far train made")?;
    let device = match arguments.next().as_deref() {
        Some("cuda") => Device::cuda(0, Precision::Bf16)?,
        _ => Device::cpu(),
    };
    let saved = SavedRun::read(Path::new(&run))?;
    let (config, cues) = (&saved.config, CueRegistry::of(&saved.config));
    let workshop = Workshop::open_to_judge(config, &cues, &saved.folder, &device, &mut |_| {})?;
    let mut training = ArmTraining::new(&workshop)?;
    training.load(&saved.checkpoint)?;
    let dataset = workshop.data().dataset();
    let mut sights = HashMap::new();
    for id in workshop.judged_episodes() {
        let episode = workshop.data().episode(*id)?;
        let explored = &episode.poses()[..episode.boundary()];
        let (Some(first), Some(last)) = (explored.first(), explored.last()) else { continue };
        if let Some(sight) = Sight::of_episode(dataset.description(), *id)? {
            sights.insert(way(first.position, last.position, explored.len()), sight);
        }
    }
    let id = &saved.config.arm.id;
    let known = KnownWalls { arm: training.arm(id)?, sights };
    let arms = [training.arm(id)?, Arm::policy("known-walls", Box::new(known))];
    let judge = training.joint().model().average()?;
    let evaluation = Evaluation {
        dataset: workshop.data(),
        episodes: workshop.judged_episodes(),
        judge: judge.as_ref(),
        arms: &arms,
        plan: &saved.config.evaluation_plan(),
        lpips: None,
        probes: Probes::default(),
        device: &device.to_string(),
    };
    let (results, _) = evaluation.run(&mut |_| {})?;
    let shown = |metric: &&String| metric.contains("psnr") || *metric == "recall_quality";
    for metric in results.arms[id].keys().filter(shown) {
        let Interval { mean, lo, hi, .. } = results.paired["known-walls"][id][metric];
        let own = results.arms[id][metric].mean;
        println!("{metric:<20} {id} {own:7.3}, with known walls {mean:+7.3} [{lo:+.3}, {hi:+.3}]");
    }
    Ok(())
}
