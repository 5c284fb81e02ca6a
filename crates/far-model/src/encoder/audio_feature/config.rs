//! `[audio]`: how a second of sound becomes tokens.

use crate::{Error, LatentShape, Result};
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

/// What stands before the first and after the last sample of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AudioPadding {
    /// Silence, as librosa has it since version 0.10.
    #[default]
    Zeros,
    /// The window mirrored, as older versions had it.
    Reflect,
}

/// How sound is cut, transformed, pooled and made tokens of. The defaults are the sizes of
/// SoundSpaces' spectrograms, with what tells directions besides.
///
/// ```
/// use far_model::AudioConfig;
/// let audio = AudioConfig::default();
/// assert_eq!((audio.rows(), audio.columns()), (65, 26));
/// assert_eq!((audio.shape().tokens(), audio.shape().token_width()), (143, 60));
/// assert_eq!(AudioConfig { rate: 44_100, ..audio }.columns(), 69);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AudioConfig {
    /// What is kept of both ears.
    pub channels: AudioChannels,
    /// Samples per second; a dataset with another rate is refused.
    pub rate: u32,
    /// Length of the window that ends with the frame, in seconds.
    pub seconds: f32,
    /// Samples of a transform.
    pub transform: usize,
    /// Samples of the Hann window in its middle.
    pub window: usize,
    /// Samples between two transforms.
    pub hop: usize,
    /// What stands around the window.
    pub padding: AudioPadding,
    /// Bins of frequency and transforms that are averaged.
    pub pool: [usize; 2],
    /// Rows and columns of a token after pooling.
    pub patch: [usize; 2],
    /// What magnitudes are multiplied by before the logarithm.
    pub gain: f32,
}

impl Default for AudioConfig {
    fn default() -> Self {
        Self {
            channels: AudioChannels::Five,
            rate: 16_000,
            seconds: 1.0,
            transform: 512,
            window: 400,
            hop: 160,
            padding: AudioPadding::Zeros,
            pool: [4, 4],
            patch: [6, 2],
            gain: 1.0,
        }
    }
}

impl AudioConfig {
    /// Samples of a window.
    pub fn samples(&self) -> usize {
        (f64::from(self.seconds) * f64::from(self.rate)).round() as usize
    }

    /// Bins of a transform.
    pub(super) fn bins(&self) -> usize {
        self.transform / 2 + 1
    }

    /// Transforms of a window: their centers lie in it, the first at its first sample.
    pub(super) fn transforms(&self) -> usize {
        self.samples() / self.hop + 1
    }

    /// Rows after pooling.
    pub fn rows(&self) -> usize {
        self.bins().div_ceil(self.pool[0])
    }

    /// Columns after pooling.
    pub fn columns(&self) -> usize {
        self.transforms().div_ceil(self.pool[1])
    }

    /// Channels.
    pub fn channel_count(&self) -> usize {
        match self.channels {
            AudioChannels::Five => 5,
            AudioChannels::Two => 2,
            AudioChannels::One => 1,
        }
    }

    /// The tokens of a frame: patches of all channels, as places of one pixel each.
    pub fn shape(&self) -> LatentShape {
        let [rows, columns] = self.patch;
        LatentShape {
            channels: rows * columns * self.channel_count(),
            height: self.rows().div_ceil(rows),
            width: self.columns().div_ceil(columns),
            patch: 1,
        }
    }

    /// Checks that the settings make features.
    ///
    /// # Errors
    /// Names the setting that does not.
    pub fn check(&self) -> Result<()> {
        let wrong = |setting, reason: String| Err(Error::Setting { setting, reason });
        let sizes = [
            ("audio.transform", self.transform),
            ("audio.window", self.window),
            ("audio.hop", self.hop),
            ("audio.pool", self.pool[0].min(self.pool[1])),
            ("audio.patch", self.patch[0].min(self.patch[1])),
        ];
        for (setting, size) in sizes {
            if size == 0 {
                return wrong(setting, "must be at least 1".into());
            }
        }
        if self.window > self.transform || self.transform > 1 << 16 {
            let reason = format!(
                "{} must hold the window of {} samples and be at most 65536",
                self.transform, self.window
            );
            return wrong("audio.transform", reason);
        }
        if !(1_000..=192_000).contains(&self.rate) {
            return wrong("audio.rate", format!("{} is not from 1000 to 192000", self.rate));
        }
        if !(self.seconds > 0.0 && self.seconds <= 60.0) {
            let reason = format!("{} is not above 0 and at most 60", self.seconds);
            return wrong("audio.seconds", reason);
        }
        if self.padding == AudioPadding::Reflect && self.samples() <= self.transform / 2 {
            let reason = format!("{} s cannot be mirrored around itself", self.seconds);
            return wrong("audio.seconds", reason);
        }
        if !(self.gain > 0.0 && self.gain.is_finite()) {
            return wrong("audio.gain", format!("{} is not a positive number", self.gain));
        }
        Ok(())
    }
}
