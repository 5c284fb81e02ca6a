//! `far train --check`: what a run would be, before it is one.

use crate::commands::beside::Companion;
use far_train::{
    Bytes, Existing, Result, RunCheck, RunFolder, TrainConfig, check_prepared, training_seconds,
};
use std::fmt;
use std::path::{Path, PathBuf};

/// Numbers of a checkpoint for every parameter: value, two moments and the average.
const SAVED: f64 = 4.0;

/// What a run would be.
pub struct Forecast {
    config: TrainConfig,
    device: String,
    checked: RunCheck,
    seconds: f64,
    out: PathBuf,
    existing: Existing,
    resumed: Option<u64>,
}

impl Forecast {
    /// Checks everything that can stop a run, and measures the device.
    ///
    /// # Errors
    /// The first thing that would stop it.
    pub fn new(
        config: &TrainConfig,
        companions: &[Companion],
        out: &Path,
        existing: Existing,
        prepared: Option<&Path>,
    ) -> Result<Self> {
        let device = config.compute.open()?;
        let resumed = RunFolder::look(out, config, existing)?;
        prepared.map_or(Ok(()), check_prepared)?;
        let checked = RunCheck::new(config, companions, &device)?;
        let seconds = training_seconds(config, companions, checked.shape, &device)?;
        let (device, config, out) = (device.to_string(), config.clone(), out.to_path_buf());
        Ok(Self { config, device, checked, seconds, out, existing, resumed })
    }

    fn checkpoint(&self) -> f64 {
        4.0 * SAVED * self.checked.parameters.total() as f64
    }

    /// Seconds of the steps that are left.
    fn seconds_left(&self) -> f64 {
        let steps = self.config.training.steps;
        let left = steps.saturating_sub(self.resumed.unwrap_or(0));
        self.seconds * left as f64 / steps as f64
    }

    /// The same as one JSON object.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "run": self.out, "data": self.config.data.folder, "device": self.device,
            "arm": self.config.arm.id, "episodes": self.checked.episodes,
            "clips": self.checked.clips, "parameters": self.checked.parameters.total(),
            "memory_bytes": self.checked.memory.total(), "seconds": self.seconds_left(),
            "steps": self.config.training.steps, "resumes_from": self.resumed,
            "checkpoint_bytes": self.checkpoint(),
        })
    }
}

impl fmt::Display for Forecast {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { config, checked, .. } = self;
        let training = &config.training;
        let (episodes, clips) = (checked.episodes, checked.clips);
        let split = config.evaluation.split.name();
        let folder = config.data.folder.display();
        writeln!(
            formatter,
            "data         {episodes} training episodes, {clips} {split} clips: {folder}"
        )?;
        writeln!(formatter, "arm          {} on {}", config.arm.id, self.device)?;
        let parameters = checked.parameters.to_string().replace('\n', "\n             ");
        writeln!(formatter, "world model  {parameters}")?;
        let memory = Bytes(checked.memory.total());
        writeln!(formatter, "memory       about {memory} or more")?;
        let time = minutes(self.seconds_left());
        let steps = training.steps;
        match self.resumed {
            Some(step) if step >= steps => {
                writeln!(formatter, "time         none: all {steps} steps were made")?;
            }
            Some(step) => {
                writeln!(formatter, "time         about {time} for steps {step} to {steps}")?;
            }
            None => writeln!(
                formatter,
                "time         about {time} for {steps} steps, besides preparation and evaluations"
            )?,
        }
        let kept = training.keep_checkpoints;
        let checkpoint = Bytes(self.checkpoint());
        write!(
            formatter,
            "writes       {}: {kept} checkpoints of {checkpoint} each, configuration, metrics, \
             tokenizer and encoders",
            self.out.display()
        )?;
        if self.existing == Existing::Discard && self.out.exists() {
            write!(formatter, "; --fresh deletes the run that is there")?;
        }
        Ok(())
    }
}

/// A duration in the unit that people think in.
fn minutes(seconds: f64) -> String {
    match seconds {
        short if short < 100.0 => format!("{short:.0} s"),
        some if some < 6000.0 => format!("{:.0} min", some / 60.0),
        long if long < 360_000.0 => format!("{:.0} h", long / 3600.0),
        days => format!("{:.0} days", days / 86_400.0),
    }
}
