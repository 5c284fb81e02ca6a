//! Any words after `--arm` or `--beside`: an error or a configuration under a plain name, never a panic.
//!
//! ```text
//! cargo +nightly fuzz run contender_words fuzz/corpus/contender_words fuzz/seeds/contender_words
//! ```
#![no_main]

use far_train::Contender;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|words: &str| {
    let Ok(contender) = Contender::parse(words) else { return };
    assert!(!contender.name.contains(['/', '\\']) && !contender.name.starts_with('.'));
    let _ = contender.config("demo", &[]);
});
