//! Any bytes as a frozen encoder: an error or keys of length one, never a panic.
#![no_main]

use far_model::{CueEncoder, KeyEncoder};
use far_tensor::Device;
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|bytes: &[u8]| {
    let encoder = KeyEncoder::from_bytes(Path::new("fuzz"), bytes.to_vec(), &Device::cpu());
    let Ok(encoder) = encoder else { return };
    let frame = vec![0.5; encoder.description().latent.elements()];
    let _ = encoder.keys(&frame);
});
