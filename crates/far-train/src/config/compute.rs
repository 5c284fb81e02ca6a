//! `[compute]`: where the world model runs, and how exactly.
//!
//! It does not change what is learned: a run may resume on another device, so this section is not
//! compared when it does.

use far_tensor::{Device, DeviceChoice, Precision};
use serde::{Deserialize, Serialize};

/// The device of the world model, tokenizer and encoders. The retriever and the memory run on the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComputeConfig {
    /// `auto`, `cpu`, `cuda` or `cuda:1`.
    #[serde(with = "text")]
    pub device: DeviceChoice,
    /// How numbers are rounded on a GPU; the CPU always computes in f32.
    #[serde(with = "text")]
    pub precision: Precision,
}

impl ComputeConfig {
    /// Opens the device. `auto` is a GPU where there is one, else the CPU.
    ///
    /// # Errors
    /// If a GPU was asked for and cannot be used.
    pub fn open(&self) -> crate::Result<Device> {
        Ok(self.device.open(self.precision)?)
    }
}

/// Values that stand in a configuration as people write them.
mod text {
    use serde::{Deserialize, Deserializer, Serializer, de};
    use std::fmt::Display;
    use std::str::FromStr;

    pub fn serialize<S: Serializer>(value: &impl Display, into: S) -> Result<S::Ok, S::Error> {
        into.collect_str(value)
    }

    pub fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
    where
        T: FromStr<Err = String>,
        D: Deserializer<'de>,
    {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}
