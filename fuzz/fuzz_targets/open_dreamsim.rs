//! Any bytes as DreamSim's weights: an error or a metric that embeds, never a panic.
//!
//! ```text
//! cargo +nightly fuzz run open_dreamsim fuzz/corpus/open_dreamsim crates/far-model/tests/fixtures
//! ```
#![no_main]

use far_data::Picture;
use far_model::DreamSim;
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(dreamsim) = DreamSim::from_bytes(Path::new("fuzz"), bytes.to_vec()) {
        let picture = Picture::filled(8, 8, [90; 3]);
        dreamsim.embed(&[&picture]).expect("any picture has an embedding");
    }
});
