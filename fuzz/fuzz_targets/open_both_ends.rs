//! Any bytes are either refused or give a both-ends probe that writes itself back and can be shown.
//!
//! ```text
//! cargo +nightly fuzz run open_both_ends fuzz/corpus/open_both_ends fuzz/seeds/open_both_ends
//! ```

#![no_main]

use far_eval::{BothEndsView, Kept, ReportRun, report_page};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(view) = BothEndsView::from_json(bytes) else { return };
    let again = BothEndsView::from_json(view.to_json().as_bytes()).expect("its own file");
    assert_eq!(again, view);
    report_page(&[ReportRun { both_ends: vec![again], ..ReportRun::default() }]);
});
