//! Any bytes as an autoencoder: an error or something that can be used, never a panic.
#![no_main]

use far_data::Picture;
use far_model::{Autoencoder, AutoencoderConfig};
use far_tensor::Device;
use libfuzzer_sys::fuzz_target;
use std::path::Path;

/// Larger ones are sound but take too long here.
const MOST_BYTES: usize = 1 << 16;

fuzz_target!(|bytes: &[u8]| {
    let config = AutoencoderConfig { weights: "fuzz".to_owned(), resolution: [16, 16] };
    let (path, device) = (Path::new("fuzz"), Device::cpu());
    if let Ok(tokenizer) = Autoencoder::from_bytes(config, path, bytes.to_vec(), &device) {
        if bytes.len() < MOST_BYTES {
            let picture = Picture::filled(16, 16, [10, 200, 90]);
            let _ = tokenizer.encode_pictures(&[picture]);
        }
    }
});
