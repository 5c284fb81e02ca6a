//! Any bytes as a reconstructive encoder: an error or something that can be used, never a panic.
#![no_main]

use far_model::{CueEncoder, LongLiveEncoder};
use far_tensor::Device;
use libfuzzer_sys::fuzz_target;
use std::path::Path;

/// Larger ones are sound but take too long here.
const MOST_NUMBERS: usize = 1 << 14;

fuzz_target!(|bytes: &[u8]| {
    let (path, device) = (Path::new("fuzz"), Device::cpu());
    if let Ok(encoder) = LongLiveEncoder::from_bytes(path, bytes.to_vec(), &device) {
        let elements = encoder.latent().elements();
        if elements < MOST_NUMBERS {
            let key = encoder.keys(&vec![0.5; elements]).expect("any frame has a key");
            assert_eq!(key.len(), encoder.dimension());
        }
    }
});
