//! `--device` and `--precision`, for every verb that runs a world model.

use clap::Args;
use far_train::{ComputeConfig, ComputePrecision};

/// Where the world model runs. Tokenizer, encoders, retriever and memory always run on the CPU.
#[derive(Args, Clone, Debug, Default)]
pub struct ComputeArguments {
    /// auto (a GPU if there is one), cpu, cuda or cuda:1; the configuration's unless told.
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// How a GPU rounds: bf16, tf32 or f32; the configuration's unless told.
    #[arg(long, value_name = "PRECISION")]
    precision: Option<ComputePrecision>,
}

impl ComputeArguments {
    /// The same as overlays of a configuration.
    pub fn sets(&self) -> Vec<String> {
        let device = self.device.as_ref().map(|device| format!("compute.device={device:?}"));
        let precision = self.precision.map(|precision| format!("compute.precision={precision}"));
        device.into_iter().chain(precision).collect()
    }

    /// The same over the settings of a configuration.
    ///
    /// # Errors
    /// If there is no such device.
    pub fn over(&self, below: &ComputeConfig) -> far_train::Result<ComputeConfig> {
        let compute = ComputeConfig {
            device: self.device.clone().unwrap_or_else(|| below.device.clone()),
            precision: self.precision.unwrap_or(below.precision),
        };
        compute.check()?;
        Ok(compute)
    }
}
