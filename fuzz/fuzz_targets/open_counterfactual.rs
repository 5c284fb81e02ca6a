//! Any bytes are either refused or give a counterfactual pair that writes itself back.
//!
//! ```text
//! cargo +nightly fuzz run open_counterfactual fuzz/corpus/open_counterfactual fuzz/seeds/open_counterfactual
//! ```

#![no_main]

use far_eval::CounterfactualView;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(pair) = CounterfactualView::from_json(bytes) else { return };
    let again = CounterfactualView::from_json(pair.to_json().as_bytes()).expect("its own file");
    assert_eq!(again, pair);
});
