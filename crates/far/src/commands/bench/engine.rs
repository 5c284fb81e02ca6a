//! Where a network is measured: the device, how precisely it computes, and where its time goes.

use super::kernel_table::KernelTable;
use crate::hint::Hint;
use clap::Args;
use far_tensor::{Device, DeviceChoice, Error, Precision};
use serde_json::{Value, json};
use std::time::Instant;

/// The options of every measurement of a network.
#[derive(Args)]
pub struct EngineArguments {
    /// Where to run: auto, cpu, cuda or cuda:N.
    #[arg(long, default_value_t)]
    device: DeviceChoice,
    /// How precisely a GPU computes: bf16 (default), tf32 or f32; the CPU computes in
    /// f32.
    #[arg(long, visible_alias = "precision")]
    dtype: Option<Precision>,
    /// Threads of the CPU.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Also time every kernel of a GPU or operation of the CPU, in runs of their own.
    #[arg(long)]
    pub profile: bool,
    /// Print JSON lines instead of tables.
    #[arg(long)]
    pub json: bool,
}

impl EngineArguments {
    /// Opens the device.
    ///
    /// # Errors
    /// If a GPU was asked for and cannot be used, or the CPU cannot compute as asked.
    pub fn open(&self) -> anyhow::Result<Engine> {
        let start = Instant::now();
        let device = match self.device.open(self.dtype.unwrap_or_default()) {
            Ok(device) if device.is_cuda() => device,
            Ok(_) => Device::with_threads(self.threads.max(1)),
            Err(error @ Error::NoCuda { remedy, .. }) => {
                return Err(Hint::error(error.to_string(), remedy));
            }
            Err(error) => return Err(error.into()),
        };
        if let (false, Some(dtype @ (Precision::Bf16 | Precision::Tf32))) =
            (device.is_cuda(), self.dtype)
        {
            let hint = "leave --dtype out, or run on a GPU with --device cuda";
            return Err(Hint::error(format!("the CPU does not compute in {dtype}"), hint));
        }
        let precision =
            if device.is_cuda() { self.dtype.unwrap_or_default() } else { Precision::F32 };
        let device = device.profiled();
        let engine = Engine { device, precision, open_s: start.elapsed().as_secs_f64() };
        engine.pause();
        Ok(engine)
    }
}

/// An open device.
pub struct Engine {
    /// The device; its profile is paused outside of [`Engine::profiled`].
    pub device: Device,
    /// How precisely it computes.
    pub precision: Precision,
    open_s: f64,
}

impl Engine {
    /// Bytes of a number of an activation.
    pub fn number_bytes(&self) -> f64 {
        if self.precision == Precision::Bf16 { 2.0 } else { 4.0 }
    }

    /// The first fields of every result.
    pub fn line(&self, shape: &str) -> Value {
        let device = &self.device;
        let mut line = json!({
            "engine": "far",
            "device": if device.is_cuda() { "cuda" } else { "cpu" },
            "machine": device.to_string(),
            "dtype": self.precision.name(),
            "shape": shape,
            "open_s": self.open_s,
        });
        if !device.is_cuda() {
            line["threads"] = json!(device.threads());
        }
        line
    }

    /// Runs `work` `runs` times while every kernel is timed.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn profiled<T>(
        &self,
        runs: usize,
        mut work: impl FnMut() -> anyhow::Result<T>,
    ) -> anyhow::Result<KernelTable> {
        let Some(profile) = self.device.profile() else { return Ok(KernelTable::default()) };
        profile.take();
        profile.resume();
        let outcome = (0..runs).try_for_each(|_| work().map(drop));
        self.pause();
        outcome.map(|()| KernelTable::new(profile.take(), runs))
    }

    fn pause(&self) {
        if let Some(profile) = self.device.profile() {
            profile.pause();
        }
    }

    /// Writes down what tensors held on a GPU: the most since the peak was last forgotten, what stays between
    /// runs, and what was taken from the GPU for them.
    pub fn note_memory(&self, line: &mut Value) {
        if let Some(memory) = self.device.memory() {
            line["peak_bytes"] = json!(memory.peak);
            line["kept_bytes"] = json!(memory.in_use);
            line["reserved_bytes"] = json!(memory.reserved);
        }
    }
}

/// The line of a table about what [`Engine::note_memory`] wrote down; none on a CPU.
pub fn memory_line(line: &Value) -> Option<String> {
    let gigabytes = |key: &str| line[key].as_f64().map(|bytes| bytes / 1e9);
    let (peak, kept) = (gigabytes("peak_bytes")?, gigabytes("kept_bytes")?);
    let reserved = gigabytes("reserved_bytes")?;
    let label = "most memory held";
    Some(format!(
        "  {label:<18}{peak:>9.3} GB: {kept:.3} that stays, {:.3} while it runs; {reserved:.3} taken from the GPU",
        peak - kept
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_told_in_its_parts() {
        let mut line = json!({ "peak_bytes": 16_396_000_000u64, "kept_bytes": 2_100_000_000u64 });
        assert_eq!(memory_line(&line), None, "nothing is told by halves");
        line["reserved_bytes"] = json!(17_000_000_000u64);
        let expected = "  most memory held     16.396 GB: 2.100 that stays, 14.296 while it runs; 17.000 taken from the GPU";
        assert_eq!(memory_line(&line).as_deref(), Some(expected));
        assert_eq!(memory_line(&json!({})), None);
    }
}
