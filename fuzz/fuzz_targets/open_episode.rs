//! Any bytes as an episode file: opening and reading every column is an error or works, never a
//! panic.
//!
//! ```text
//! cargo +nightly fuzz run open_episode fuzz/corpus/open_episode fuzz/seeds/open_episode
//! ```

#![no_main]

use std::sync::{Arc, LazyLock};

use far_data::{DatasetDescription, Episode, Signal};
use libfuzzer_sys::fuzz_target;

/// A description with every column; the seeds were written under it.
static DESCRIPTION: LazyLock<Arc<DatasetDescription>> = LazyLock::new(|| {
    let mut description = DatasetDescription::new("fuzz", 10.0, [8, 6], [90.0, 73.7]);
    description.signals = vec![
        Signal::Events,
        Signal::DoorFraction,
        Signal::Change,
        Signal::Agent,
        Signal::VisibleFaces,
        Signal::States,
    ];
    description.labels = ["open", "close"].map(String::from).into();
    Arc::new(description)
});

fuzz_target!(|bytes: &[u8]| {
    let Ok(episode) = Episode::from_bytes(bytes.to_vec(), 0, DESCRIPTION.clone()) else { return };
    let known = ["time", "position", "phase", "image", "door_fraction", "agent_position"];
    let known = known.map(str::to_owned);
    for column in episode.unknown_columns().iter().chain(&known) {
        let _ = episode.numbers(column);
    }
    for frame in 0..episode.len() {
        let _ = episode.frame(frame);
        let _ = episode.picture(frame);
        let _ = episode.agent_before(frame);
        let _ = episode.video_frame(frame);
    }
});
