//! `[audio]`: how a second of sound becomes tokens.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// What is kept of both ears.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AudioChannels {
    /// Logarithmic magnitudes of both ears, their difference in level, and cosine and sine of their
    /// difference in phase.
    #[default]
    Five,
    /// Logarithmic magnitudes of both ears, as the baselines of SoundSpaces have it.
    Two,
    /// The logarithmic magnitude of both ears together: what is heard, however the head is turned.
    One,
}

/// How transforms are pooled and made tokens of. The defaults are the sizes of SoundSpaces'
/// spectrograms, with what tells directions besides.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AudioConfig {
    /// What is kept of both ears.
    pub channels: AudioChannels,
    /// Bins of frequency and transforms that are averaged.
    pub pool: [usize; 2],
    /// Rows and columns of a token after pooling.
    pub patch: [usize; 2],
    /// What magnitudes are multiplied by before the logarithm.
    pub gain: f32,
}

impl Default for AudioConfig {
    fn default() -> Self {
        Self { channels: AudioChannels::Five, pool: [4, 4], patch: [6, 2], gain: 1.0 }
    }
}

impl AudioConfig {
    /// Channels.
    pub fn channel_count(&self) -> usize {
        match self.channels {
            AudioChannels::Five => 5,
            AudioChannels::Two => 2,
            AudioChannels::One => 1,
        }
    }

    /// Checks that the settings make features.
    ///
    /// # Errors
    /// Names the setting that does not.
    pub fn check(&self) -> Result<()> {
        let wrong = |setting, reason: String| Err(Error::Setting { setting, reason });
        for (setting, sizes) in [("audio.pool", self.pool), ("audio.patch", self.patch)] {
            if sizes.contains(&0) {
                return wrong(setting, "must be at least 1".into());
            }
        }
        if !(self.gain > 0.0 && self.gain.is_finite()) {
            return wrong("audio.gain", format!("{} is not a positive number", self.gain));
        }
        Ok(())
    }
}
