//! The cue `touch`: what the walker's foot felt in the last steps. This file is all that a cue needs.

use far_data::{DatasetDescription, Episode};
use far_model::{CueFeature, LatentShape, Result};

/// How many steps are felt together: one reading fits many places, a few in a row fit few.
const STEPS: usize = 4;
/// Meters that count as 1.
const SCALE: f32 = 0.05;
/// Where the height of a step stands among the five numbers of column `action`.
const UP: usize = 2;

/// The heights of the last steps, newest last.
pub struct Touch;

impl CueFeature for Touch {
    fn cue(&self) -> &str {
        "touch"
    }

    fn recipe(&self) -> String {
        format!("heights of the last {STEPS} steps divided by {SCALE}")
    }

    fn shape(&self) -> LatentShape {
        LatentShape { channels: STEPS, height: 1, width: 1, patch: 1 }
    }

    fn lacking(&self, _: &DatasetDescription) -> Option<String> {
        None
    }

    fn rows(&self, episode: &Episode) -> Result<Vec<f32>> {
        let actions = episode.numbers("action")?;
        let felt = |frame: usize| actions.row(frame)[UP] / SCALE;
        // Before the first step nothing was felt; a row never looks ahead of its frame.
        let row = |frame: usize| {
            let steps = (0..STEPS).rev();
            steps.map(move |ago| frame.checked_sub(ago).map_or(0.0, felt))
        };
        Ok((0..episode.len()).flat_map(row).collect())
    }
}
