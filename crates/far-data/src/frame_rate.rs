//! Times against frames per second.

use crate::{DataError, Episode, Result};

/// By how much the median step between times may differ from one frame.
const TOLERATED: std::ops::Range<f64> = 0.5..2.0;

impl Episode {
    /// Checks that times are seconds and go with `fps` of `dataset.json`: milliseconds, or a recording
    /// that was thinned out afterward, do not.
    ///
    /// # Errors
    /// If the median step is not about one frame long.
    pub fn check_frame_rate(&self) -> Result<()> {
        let mut steps: Vec<f64> = self.times().windows(2).map(|pair| pair[1] - pair[0]).collect();
        steps.sort_by(f64::total_cmp);
        let fps = f64::from(self.description().fps);
        match steps.get(steps.len() / 2) {
            Some(median) if !TOLERATED.contains(&(median * fps)) => Err(DataError::Description {
                path: self.folder().join("dataset.json"),
                reason: format!(
                    "`fps` is {fps}, so frames are {:.4} s apart, but those of episode {} are {median:.4} s \
                     apart; times are in seconds",
                    1.0 / fps,
                    self.id()
                ),
            }),
            _ => Ok(()),
        }
    }
}
