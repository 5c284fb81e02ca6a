//! A walk kept in a store: every run appends to the same store and recalls from all runs.
//!
//! ```text
//! cargo run --release -p far-memory --example remember -- /tmp/walk.memory
//! ```
//! Kill it at any moment and run it again: no record that was reported as durable is lost.

use far_memory::policy::PolicyConfig;
use far_memory::store::Store;
use far_memory::{Cue, Observation, Payload, Pose, Recall, RecallQuery, Schema, Scratch};
use std::error::Error;

/// Steps of one walk, and the number of steps between two syncs.
const STEPS: usize = 600;
const STEPS_PER_SYNC: usize = 30;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: remember FOLDER")?;
    let schema = Schema::new(vec![Cue::metadata("meta"), Cue::key("vision", 64)])?;

    let mut store = Store::open_or_create(&path, &schema)?;
    let recovery = store.recovery();
    println!(
        "opened with {} records, cut {} bytes of an unfinished write",
        recovery.records, recovery.torn_bytes
    );

    for _ in 0..STEPS {
        let step = store.len();
        let pose = pose_at(step);
        let frame = format!("frame {step}");
        let key = embedding(&pose);
        let observation = Observation::new(step as f64 / 30.0, pose)
            .with_key("vision", &key)
            .with_bytes(frame.as_bytes());
        store.append(&observation)?;
        if store.len().is_multiple_of(STEPS_PER_SYNC) {
            let safe = store.sync()?;
            println!("{safe} records are durable");
        }
    }
    store.close()?;

    // Opened again, as another program would.
    let store = Store::open(&path)?;
    let snapshot = store.snapshot();
    let policy = PolicyConfig::from_id("nearest-pose")?.build()?;
    let (here, goal) = (pose_at(snapshot.len()), pose_at(snapshot.len() + 3));
    let query = RecallQuery::new(snapshot.len() as f64 / 30.0, here, goal)
        .with_key("vision", &embedding(&here));
    let (mut scratch, mut recall) = (Scratch::new(), Recall::new());
    policy.recall(&snapshot, &query, 4, &mut scratch, &mut recall)?;
    for chosen in recall.iter() {
        let pose = snapshot.pose(chosen.id.index()).expect("all were stored with a pose");
        let frame = match snapshot.payload(chosen.id) {
            Payload::Bytes(bytes) => String::from_utf8_lossy(bytes),
            _ => "no frame".into(),
        };
        let distance = pose.distance(&goal);
        println!("recalled {frame:?}, {distance:.2} m from the goal, score {:.3}", chosen.score);
    }
    Ok(())
}

/// A walk around a square of 10 meters, looking ahead.
fn pose_at(step: usize) -> Pose {
    let (side, along) = (step / 100 % 4, (step % 100) as f32 / 10.0);
    let (position, quarter) = match side {
        0 => ([along, 0.0, 1.6], 0.0),
        1 => ([10.0, along, 1.6], 1.0),
        2 => ([10.0 - along, 10.0, 1.6], 2.0),
        _ => ([0.0, 10.0 - along, 1.6], 3.0),
    };
    Pose::from_yaw_pitch(position, quarter * std::f32::consts::FRAC_PI_2, 0.0)
}

/// Stand-in for an encoder: any smooth function of the pose works here.
fn embedding(pose: &Pose) -> [f32; 64] {
    let [x, y, _] = pose.position;
    std::array::from_fn(|axis| ((axis + 1) as f32 * 0.1 * x + axis as f32 * 0.2 * y).sin() + 0.01)
}
