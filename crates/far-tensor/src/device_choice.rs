//! A device by name: `auto`, `cpu`, `cuda`, `cuda:1`.

use crate::cuda::Precision;
use crate::{Device, Error, Result};
use std::fmt;
use std::str::FromStr;

/// Which device to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The first usable GPU, otherwise the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The GPU with this number.
    Cuda(usize),
}

impl DeviceChoice {
    /// Opens the device; the precision applies to a GPU.
    ///
    /// # Errors
    /// If a GPU was requested and cannot be used.
    pub fn open(self, precision: Precision) -> Result<Device> {
        match self {
            Self::Cpu => Ok(Device::cpu()),
            Self::Cuda(ordinal) => Device::cuda(ordinal, precision),
            Self::Auto => match Device::cuda(0, precision) {
                Err(Error::NoCuda { .. }) => Ok(Device::cpu()),
                opened => opened,
            },
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => formatter.write_str("auto"),
            Self::Cpu => formatter.write_str("cpu"),
            Self::Cuda(0) => formatter.write_str("cuda"),
            Self::Cuda(ordinal) => write!(formatter, "cuda:{ordinal}"),
        }
    }
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        match name {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            _ => {
                let number = name.strip_prefix("cuda:").and_then(|number| number.parse().ok());
                let wrong = || format!("`{name}` is none of auto, cpu, cuda and cuda:N");
                number.map(Self::Cuda).ok_or_else(wrong)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for name in ["auto", "cpu", "cuda", "cuda:3"] {
            assert_eq!(name.parse::<DeviceChoice>().unwrap().to_string(), name);
        }
        for name in ["gpu", "cuda:", "cuda:x", "cuda:-1", ""] {
            let problem = name.parse::<DeviceChoice>().unwrap_err();
            assert!(problem.contains("none of auto"), "{problem}");
        }
    }

    #[test]
    fn without_a_gpu_auto_is_the_cpu_and_cuda_says_what_is_missing() {
        match DeviceChoice::Cuda(0).open(Precision::F32) {
            Ok(device) => assert!(device.is_cuda()),
            Err(error) => {
                assert!(matches!(error, Error::NoCuda { .. }), "{error}");
                assert!(!DeviceChoice::Auto.open(Precision::F32).unwrap().is_cuda());
            }
        }
    }
}
