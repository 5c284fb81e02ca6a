//! About how long the steps of a run will take, from the work in them and the speed of the device.

use crate::config::Arm;
use crate::{Result, TrainConfig};
use far_model::LatentShape;
use far_tensor::{Device, Tape, Tensor};
use std::time::{Duration, Instant};

/// A forward and a backward pass in forward passes.
const LEARNING: f64 = 3.0;
/// Share of the rate of a matrix product that whole steps reach.
const EFFICIENCY: f64 = 0.5;
/// Time that the measurement takes, and its rows.
const MEASURED: Duration = Duration::from_millis(200);
const ROWS: usize = 2048;

/// Seconds that all steps of a run with these companions take on a device, preparation and evaluations aside.
///
/// # Errors
/// If the device refuses the matrix product by which it is measured.
pub fn training_seconds(
    config: &TrainConfig,
    companions: &[(String, TrainConfig)],
    shape: LatentShape,
    device: &Device,
) -> Result<f64> {
    let work = training_work(config, companions, shape)?;
    Ok(work / (EFFICIENCY * product_rate(config.world_model.width, device)?))
}

/// Floating-point operations of all steps.
fn training_work(
    config: &TrainConfig,
    companions: &[(String, TrainConfig)],
    shape: LatentShape,
) -> Result<f64> {
    let (training, retriever) = (&config.training, &config.retriever);
    let steps = training.steps as f64;
    let batch = f64::from(config.data.batch);
    let predicted = LEARNING * batch * forward_work(config, shape, training.slots);
    let queries =
        if retriever.queries == 0 { batch } else { (retriever.queries as f64).min(batch) };
    // The credit of each retriever that learns is measured for its own candidates.
    let mut candidates = 0;
    for learner in std::iter::once(config).chain(companions.iter().map(|(_, config)| config)) {
        if matches!(learner.arm.arm()?, Arm::Far(arm) if arm.learns()) {
            let own = &learner.retriever;
            candidates += training.slots + own.chunk_size + own.extra_candidates;
        }
    }
    let passes = queries * (candidates * config.utility.levels) as f64;
    let credited =
        passes * forward_work(config, shape, 1) * retriever.updates(training.steps) as f64;
    Ok(steps * predicted + credited)
}

/// Operations of one prediction that reads so many memories: linear layers of all tokens, and
/// attention, by turns inside a frame and over all.
fn forward_work(config: &TrainConfig, shape: LatentShape, slots: usize) -> f64 {
    let (width, depth) = (config.world_model.width as f64, config.world_model.depth as f64);
    let frame = shape.tokens() as f64;
    let recalled = slots as f64 * config.world_model.frames_per_memory() as f64;
    let tokens = (2.0 + recalled) * frame;
    let linear = 24.0 * width * width;
    let attention = 4.0 * width * (frame + tokens) / 2.0;
    depth * tokens * (linear + attention)
}

/// Operations per second of a product of the network's width.
fn product_rate(width: usize, device: &Device) -> Result<f64> {
    let width = width.min(1024);
    let input = Tensor::from_slice(&vec![0.5; ROWS * width], [ROWS, width])?;
    let weight = Tensor::from_slice(&vec![0.5; 4 * width * width], [width, 4 * width])?;
    let multiply = || -> Result<()> {
        device.run(|| Tape::inference(device).linear(&input, &weight, None))?;
        Ok(device.synchronize()?)
    };
    multiply()?;
    let (begun, mut products) = (Instant::now(), 0.0);
    while begun.elapsed() < MEASURED {
        multiply()?;
        products += 1.0;
    }
    let operations = 2.0 * ROWS as f64 * (4 * width * width) as f64;
    Ok(products * operations / begun.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_grows_with_steps_batches_and_learned_recall() {
        let beside = |sets: &[&str], companions: &[&str]| {
            let config = TrainConfig::resolve("quick", sets).expect("a configuration");
            let companions = companions.iter().map(|set| {
                (String::new(), TrainConfig::resolve("quick", &[set]).expect("a configuration"))
            });
            let shape = config.tokenizer.patch_pca.shape();
            training_work(&config, &companions.collect::<Vec<_>>(), shape).expect("an arm")
        };
        let work = |sets: &[&str]| beside(sets, &[]);
        let plain = work(&["arm.id=random"]);
        assert!(work(&[]) > plain, "retrievers learn from predictions");
        let credit = work(&[]) - plain;
        let found = beside(&[], &["arm.id=far-meta", "arm.id=far-vision"]) - plain;
        assert!((found / credit - 3.0).abs() < 1e-9, "each is credited: {found} {credit}");
        assert!(beside(&[], &["retriever.extra_candidates=9"]) - plain > 2.0 * credit);
        let twice = work(&["arm.id=random", "training.steps=1200"]);
        assert!((twice / plain - 2.0).abs() < 1e-9, "{twice} {plain}");
        let longer = work(&["arm.id=random", "training.slots=6"]);
        assert!(longer > plain);
        let both_views = ["arm.id=random", "world_model.earlier_view=1.5"];
        assert_eq!(work(&both_views), longer, "three memories of two frames each");
    }
}
