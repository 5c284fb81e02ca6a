//! `far bench agreement`: the same training on a device and on the CPU, step by step.

use super::engine::EngineArguments;
use super::network_shape::NetworkShape;
use super::training_network::TrainingNetwork;
use crate::hint::Hint;
use crate::progress;
use clap::Args;
use far_tensor::{Checkpoint, CheckpointWriter, Device};
use serde_json::json;

/// What to compare.
#[derive(Args)]
pub struct Arguments {
    /// Size of the network and of the batch.
    #[arg(long, value_enum, default_value_t = NetworkShape::Small)]
    shape: NetworkShape,
    #[command(flatten)]
    engine: EngineArguments,
    /// Steps of training on each side.
    #[arg(long, default_value_t = 200)]
    steps: usize,
}

/// Trains twice from the same seed, then moves a checkpoint from the device to the CPU and compares
/// one more step.
///
/// # Errors
/// If the device cannot be used or a loss is not finite.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.steps == 0 {
        return Err(Hint::error("there is nothing to compare", "give --steps 1 or more"));
    }
    let engine = arguments.engine.open()?;
    let sizes = arguments.shape.sizes();
    let host = Device::cpu();
    let mut here = TrainingNetwork::new(sizes, &engine.device)?;
    let mut there = TrainingNetwork::new(sizes, &host)?;
    let bar = progress::bar(arguments.steps as u64, "steps");
    let (mut worst, mut worst_step, mut last) = (0.0_f64, 0, [0.0_f32; 2]);
    for step in 0..arguments.steps {
        last = [engine.device.run(|| here.step())?, there.step()?];
        let difference = relative(last);
        if difference > worst {
            (worst, worst_step) = (difference, step);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("moved.safetensors");
    here.trained.save("", CheckpointWriter::new()).save(&path)?;
    there.trained.load("", &mut Checkpoint::open(&path)?)?;
    let moved = relative([engine.device.run(|| here.step())?, there.step()?]);
    let mut line = engine.line(&arguments.shape.name());
    line["steps"] = json!(arguments.steps);
    line["largest_difference"] = json!(worst);
    line["largest_at_step"] = json!(worst_step);
    line["last_losses"] = json!(last);
    line["after_moving"] = json!(moved);
    if arguments.engine.json {
        println!("{line}");
        return Ok(());
    }
    println!(
        "{} steps of training, shape {}, {} on {}, beside f32 on {host}",
        arguments.steps,
        arguments.shape.name(),
        engine.precision,
        engine.device
    );
    println!("  largest relative difference of the loss  {worst:.2e}, at step {worst_step}");
    println!("  last losses                              {} and {}", last[0], last[1]);
    println!("  one step after moving a checkpoint       {moved:.2e}");
    Ok(())
}

/// How far a loss is from that of the CPU, in units of the latter.
fn relative([found, expected]: [f32; 2]) -> f64 {
    (f64::from(found) - f64::from(expected)).abs() / f64::from(expected).abs().max(1e-12)
}
