//! Chooses the constants of hand-designed rules on the villages that a finished `far demo` judged:
//!
//! ```sh
//! far demo --seed 1 --out runs/validation
//! cargo run --release -p far-train --example rival_constants -- runs/validation
//! ```
//!
//! Judge rules with them on villages of other seeds.

use far_eval::{Arm, Evaluation, EvaluationPlan, Probes};
use far_tensor::Device;
use far_train::{ArmConfig, ArmTraining, SavedRun, TrainingLoop, Workshop};
use std::error::Error;
use std::path::Path;

/// A rule, one of its settings as TOML, and the values that are tried.
const TRIED: [(&str, &str, &[f32]); 3] = [
    ("worldmem", "view.radius", &[8.0, 16.0, 30.0, 60.0]),
    ("worldmem", "time_weight", &[0.0, 0.05, 0.2]),
    ("nearest-pose", "meters_per_radian", &[0.5, 1.0, 2.0, 4.0, 8.0]),
];

fn main() -> Result<(), Box<dyn Error>> {
    let out = std::env::args().nth(1).ok_or("give the folder of a finished far demo")?;
    let run = Path::new(&out).join("common");
    let config = SavedRun::read(&run)?.config;
    let device = Device::cpu();
    let workshop = Workshop::open(&config, &run, &device, &mut |_| {})?;
    let mut training = ArmTraining::with_companions(&workshop, &["far-meta"])?;
    let checkpoints = std::fs::read_dir(run.join("checkpoints"))?;
    let newest = checkpoints.filter_map(|entry| Some(entry.ok()?.path())).max();
    training.load(&newest.ok_or("there is no checkpoint")?)?;

    let mut arms = Vec::new();
    for (id, setting, values) in TRIED {
        for value in values {
            let settings = format!("{setting} = {value:?}").parse()?;
            let named = ArmConfig { id: id.to_owned(), settings, ..config.arm.clone() };
            let rule = named.with_settings(workshop.rule(id)?)?;
            arms.push(Arm::policy(format!("{id}, {setting} = {value}"), rule.build()?));
        }
    }
    let judge = training.joint().model().average()?;
    let evaluation = Evaluation {
        dataset: workshop.data(),
        episodes: workshop.judged_episodes(),
        judge: judge.as_ref(),
        arms: &arms,
        plan: &EvaluationPlan { steps: Some(0), ..config.evaluation_plan() },
        lpips: None,
        probes: Probes::default(),
        device: "cpu",
    };
    let (results, _) = evaluation.run(&mut |_| {})?;
    for arm in &arms {
        let quality = results.arms[arm.id()]["recall_quality"];
        let far_eval::Interval { mean, lo, hi, .. } = quality;
        println!("{:<40} recall quality {mean:5.2} [{lo:5.2}, {hi:5.2}]", arm.id());
    }
    Ok(())
}
