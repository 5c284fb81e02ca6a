//! Any bytes are either refused or give a probe that writes itself back and can be shown.
//!
//! ```text
//! cargo +nightly fuzz run open_probe fuzz/corpus/open_probe fuzz/seeds/open_probe
//! ```

#![no_main]

use far_eval::{BothEndsView, CounterfactualView, Kept, ReportRun, report_page};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(view) = BothEndsView::from_json(bytes) {
        let again = BothEndsView::from_json(view.to_json().as_bytes()).expect("its own file");
        assert_eq!(again, view);
        report_page(&[ReportRun { both_ends: vec![again], ..ReportRun::default() }]);
    }
    if let Ok(view) = CounterfactualView::from_json(bytes) {
        let again = CounterfactualView::from_json(view.to_json().as_bytes()).expect("its own file");
        assert_eq!(again, view);
        report_page(&[ReportRun { counterfactuals: vec![again], ..ReportRun::default() }]);
    }
});
