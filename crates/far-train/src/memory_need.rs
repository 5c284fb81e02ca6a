//! How much memory a run takes, found out before it takes any.

use crate::{Error, Result, TrainConfig};
use far_model::LatentShape;
use far_tensor::Device;
use std::fmt;

/// Numbers kept for every parameter: value, gradient, two moments and the moving average.
const STATE: f64 = 5.0;
/// Numbers kept for every token and unit of width of a block that learns: inputs of two norms, three
/// projections, what attention gives, and four hidden units twice. A little less than measured, so that
/// nothing is refused that would have run.
const LEARNED: f64 = 14.0;
/// The same for a block that only predicts: the largest that lives at once, in one block.
const PREDICTED: f64 = 12.0;
/// Frames that every prediction reads besides what is recalled: the present and the one to come.
const FRAMES: f64 = 2.0;
const BYTES: f64 = 4.0;

/// The memory that a run takes, in bytes, in its parts. A lower bound by a factor of two or less.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryNeed {
    /// Parameters of the world model with gradients, moments and average.
    pub parameters: f64,
    /// What one part of a batch leaves for its backward pass.
    pub step: f64,
    /// What one group of clips takes while it is predicted.
    pub evaluation: f64,
}

impl MemoryNeed {
    /// The memory of a configuration whose world model has so many parameters.
    pub fn new(config: &TrainConfig, parameters: usize, shape: LatentShape) -> Self {
        let (training, evaluation) = (&config.training, &config.evaluation);
        let part = f64::from(config.data.batch) / training.micro_batches as f64;
        let depth = config.world_model.depth as f64;
        Self {
            parameters: BYTES * STATE * parameters as f64,
            step: LEARNED * depth * part * frames(config, shape, training.slots),
            evaluation: judged(config, shape, evaluation.slots, evaluation.batch),
        }
    }

    /// The most that is needed at one time.
    pub fn total(&self) -> f64 {
        self.parameters + self.step.max(self.evaluation)
    }

    /// Refuses what does not fit into the machine's memory. A GPU reports itself what does not fit into
    /// its own, but parameters begin on the machine.
    ///
    /// # Errors
    /// [`Error::TooLarge`] with the settings that ask for most.
    pub fn check(&self, config: &TrainConfig, device: &Device) -> Result<()> {
        let Some(present) = machine_memory() else { return Ok(()) };
        let needed = if device.is_cuda() { self.parameters } else { self.total() };
        if needed <= present {
            return Ok(());
        }
        let model = config.world_model;
        let mut advice = "lower them";
        let settings = if self.parameters >= self.step.max(self.evaluation) {
            format!("world_model.width = {} and world_model.depth = {}", model.width, model.depth)
        } else if self.step >= self.evaluation {
            let (batch, slots) = (config.data.batch, config.training.slots);
            advice = "lower them, or compute a batch in more parts with training.micro_batches";
            format!("data.batch = {batch} and training.slots = {slots}")
        } else {
            let section = &config.evaluation;
            let (batch, slots) = (section.batch, section.slots);
            format!("evaluation.slots = {slots} and evaluation.batch = {batch}")
        };
        Err(Error::TooLarge { settings, needed: Bytes(needed), present: Bytes(present), advice })
    }
}

/// Refuses an evaluation that does not fit into the memory of a device, before anything is loaded.
///
/// # Errors
/// [`Error::TooLarge`].
pub(crate) fn check_judgment(
    config: &TrainConfig,
    shape: LatentShape,
    slots: usize,
    batch: usize,
    device: &Device,
) -> Result<()> {
    let needed = judged(config, shape, slots, batch);
    match machine_memory() {
        Some(present) if needed > present && !device.is_cuda() => {
            let settings = format!("{slots} memories per prediction (--slots) for {batch} clips");
            let (needed, present) = (Bytes(needed), Bytes(present));
            Err(Error::TooLarge { settings, needed, present, advice: "give fewer --slots" })
        }
        _ => Ok(()),
    }
}

/// Bytes of one number per token and unit of width of an example that reads so many memories.
fn frames(config: &TrainConfig, shape: LatentShape, slots: usize) -> f64 {
    let recalled = slots as f64 * config.world_model.frames_per_memory() as f64;
    let tokens = (FRAMES + recalled) * shape.tokens() as f64;
    BYTES * tokens * config.world_model.width as f64
}

fn judged(config: &TrainConfig, shape: LatentShape, slots: usize, batch: usize) -> f64 {
    PREDICTED * batch as f64 * frames(config, shape, slots)
}

/// The machine's memory, or what this process may use of it.
fn machine_memory() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    let limit = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let limit = limit.and_then(|text| text.trim().parse::<f64>().ok()).unwrap_or(f64::INFINITY);
    Some((1024.0 * kilobytes).min(limit))
}

/// A number of bytes as people read it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bytes(pub f64);

impl fmt::Display for Bytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
        let mut value = self.0;
        let mut unit = 0;
        while value >= 1000.0 && unit + 1 < units.len() {
            (value, unit) = (value / 1000.0, unit + 1);
        }
        let digits = if value >= 100.0 || unit == 0 { 0 } else { 1 };
        write!(formatter, "{value:.digits$} {}", units[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(sets: &[&str]) -> (TrainConfig, MemoryNeed) {
        let config = TrainConfig::resolve("quick", sets).expect("a configuration");
        let shape = config.tokenizer.patch_pca.shape();
        let need = MemoryNeed::new(&config, 500_000, shape);
        (config, need)
    }

    #[test]
    fn small_runs_pass_and_absurd_ones_are_refused_by_name() {
        let cpu = Device::cpu();
        let (config, small) = need(&[]);
        assert!(small.total() < 1e9, "{}", Bytes(small.total()));
        small.check(&config, &cpu).expect("it fits");
        for (set, named) in [
            ("training.slots=100000", "training.slots = 100000"),
            ("data.batch=1000000", "data.batch = 1000000"),
            ("evaluation.slots=1000000", "evaluation.slots = 1000000"),
        ] {
            let (config, need) = need(&[set]);
            if machine_memory().is_some() {
                let refused = need.check(&config, &cpu).expect_err(set).to_string();
                assert!(refused.contains(named) && refused.contains("of memory"), "{refused}");
            }
        }
    }

    #[test]
    fn bytes_are_written_with_their_unit() {
        let written = [12.0, 1500.0, 312e12, 24.4e9].map(|bytes| Bytes(bytes).to_string());
        assert_eq!(written, ["12 B", "1.5 kB", "312 TB", "24.4 GB"]);
    }
}
