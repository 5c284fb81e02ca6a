//! Any bytes as a checkpoint: an error or finite parameters, never a panic.
#![no_main]

use far_tensor::{AdamW, AdamWConfig, ArenaBuilder, Checkpoint, Initialization, Matching};
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|bytes: &[u8]| {
    let mut builder = ArenaBuilder::new("model");
    builder.linear("w", 2, 1, Initialization::Xavier);
    builder.parameter("b", [1], Initialization::Zero);
    let mut parameters = builder.build(0);
    let mut optimizer = AdamW::new(AdamWConfig::default(), &parameters);
    let Ok(mut checkpoint) = Checkpoint::from_bytes(Path::new("fuzz"), bytes.to_vec()) else {
        return;
    };
    for matching in [Matching::Strict, Matching::Partial] {
        let _ = checkpoint.load_parameters("", &mut parameters, matching);
    }
    let _ = checkpoint.load_optimizer("o.", &parameters, &mut optimizer);
    let _ = checkpoint.expect_all_used();
    assert!(parameters.values().iter().all(|value| value.is_finite()));
});
