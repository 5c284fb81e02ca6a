//! `[compute]`: where the world model runs, and how exactly.
//!
//! It says nothing about what is learned: a run may go on on another device, so this section is
//! not compared when one does.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The device of the world model. Tokenizer, encoders, retriever and memory always run on the CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComputeConfig {
    /// `auto`, `cpu`, `cuda` or `cuda:1`.
    pub device: String,
    /// How numbers are rounded on a GPU; the CPU always computes in f32.
    pub precision: ComputePrecision,
}

/// How a GPU rounds. Parameters and optimizer are f32 in every mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ComputePrecision {
    /// Activations and matrix products in bf16.
    Bf16,
    /// f32 with matrix products in tf32.
    Tf32,
    /// f32 throughout.
    F32,
}

impl FromStr for ComputePrecision {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Bf16, Self::Tf32, Self::F32];
        let found = all.into_iter().find(|precision| precision.to_string() == text);
        found.ok_or_else(|| format!("`{text}` is none of bf16, tf32, f32"))
    }
}

impl fmt::Display for ComputePrecision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Bf16 => "bf16",
            Self::Tf32 => "tf32",
            Self::F32 => "f32",
        })
    }
}

impl ComputeConfig {
    /// Checks the device's name; whether there is such a device is seen when it is opened.
    ///
    /// # Errors
    /// If it is no name of a device.
    pub fn check(&self) -> crate::Result<()> {
        let index = self.device.strip_prefix("cuda:").map(str::parse::<usize>);
        if matches!(self.device.as_str(), "auto" | "cpu" | "cuda") || matches!(index, Some(Ok(_))) {
            return Ok(());
        }
        let reason = format!("`{}` is none of auto, cpu, cuda, cuda:0, cuda:1, …", self.device);
        Err(crate::Error::setting("compute.device", reason))
    }
}
