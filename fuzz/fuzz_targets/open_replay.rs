//! Any bytes are either refused or give a replay that writes itself back and can be shown.
//!
//! ```text
//! cargo +nightly fuzz run open_replay fuzz/corpus/open_replay fuzz/seeds/open_replay
//! ```

#![no_main]

use far_eval::{Kept, Replay, ReportRun, report_page};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(replay) = Replay::from_json(bytes) else { return };
    let again = Replay::from_json(replay.to_json().as_bytes()).expect("its own file");
    assert_eq!(again.frames, replay.frames);
    assert_eq!(again.truth, replay.truth);
    report_page(&[ReportRun { replays: vec![again], ..ReportRun::default() }]);
});
