//! `--device` and `--precision`, for every verb that runs a world model.

use clap::Args;
use far_tensor::{DeviceChoice, Precision};
use far_train::ComputeConfig;

/// Where the world model, tokenizer and encoders run. The retriever and the memory run on the CPU.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct ComputeArguments {
    /// Device: auto (a GPU if there is one), cpu, cuda or cuda:1 (default: the configuration's).
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceChoice>,
    /// Precision on a GPU: bf16, tf32 or f32 (default: the configuration's).
    #[arg(long, value_name = "PRECISION")]
    precision: Option<Precision>,
}

impl ComputeArguments {
    /// These arguments as overrides of a configuration.
    pub fn sets(&self) -> Vec<String> {
        let device = self.device.map(|device| format!("compute.device=\"{device}\""));
        let precision =
            self.precision.map(|precision| format!("compute.precision=\"{precision}\""));
        device.into_iter().chain(precision).collect()
    }

    /// These arguments, with the settings of a configuration as defaults.
    pub fn over(&self, below: &ComputeConfig) -> ComputeConfig {
        ComputeConfig {
            device: self.device.unwrap_or(below.device),
            precision: self.precision.unwrap_or(below.precision),
        }
    }
}
