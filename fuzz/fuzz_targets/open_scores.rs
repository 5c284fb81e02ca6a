//! Any bytes are either refused or scores that are merged with themselves and come back.
#![no_main]

use far_eval::{Scores, merge};
use libfuzzer_sys::fuzz_target;

/// Longer files only take longer.
const LONGEST: usize = 1 << 14;

fuzz_target!(|bytes: &[u8]| {
    let Ok(scores) = Scores::parse(&bytes[..bytes.len().min(LONGEST)]) else { return };
    assert_eq!(
        Scores::parse(scores.to_json().as_bytes()).expect("its own file").protocol,
        scores.protocol
    );
    let mut other = scores.clone();
    other.protocol.seed = scores.protocol.seed.wrapping_add(1);
    merge(&[scores, other]).expect("two seeds of one arm");
});
