//! What is heard, as tokens: the spectrogram of the last second in both ears, and what tells where
//! sound comes from.
//!
//! The window of frame t ends with t, so nothing is heard before it sounds; before the start of the
//! phase that t belongs to, explore or return, there is silence. Short-time transforms L, R (Hann window in the middle of each,
//! centers every hop from the window's first sample on, silence around it) are pooled by means over blocks of bins
//! and transforms, blocks at the edge filled up with zeros. Of the pooled |L|, |R| and X = L·conj(R):
//!
//! - log(1 + g·|L|) and log(1 + g·|R|), with the gain g,
//! - the level difference log(|L| + f) − log(|R| + f),
//! - cosine and sine of the phase difference: X / (|X| + f²),
//!
//! - or, instead of all these, log(1 + g·(|L| + |R|)/2),
//!
//! with f = 0.001, ten times the magnitude of 16-bit rounding noise, so that silence has no direction.

mod config;
mod spectrum;
#[cfg(test)]
mod tests;
mod window;

pub use config::{AudioChannels, AudioConfig};
pub use window::AudioWindow;

use crate::{CueFeature, Error, LatentShape, Result};
use far_data::{Audio, DatasetDescription, Episode};
use spectrum::{PARTS, Spectrum};
use std::collections::HashMap;

/// The cue's name.
pub const AUDIO_CUE: &str = "audio";
/// Magnitudes below this have no direction.
const FLOOR: f32 = 1e-3;

/// Turns binaural sound into rows of tokens.
///
/// ```
/// use far_model::{AudioConfig, AudioFeature, AudioWindow, CueFeature};
/// let feature = AudioFeature::new(AudioConfig::default(), AudioWindow::soundspaces(16_000))?;
/// assert_eq!((feature.shape().tokens(), feature.shape().token_width()), (143, 60));
/// let tone = |i: usize| (i as f32 * 0.4).sin();
/// let samples: Vec<[f32; 2]> = (0..16_000).map(|i| [tone(i), 0.1 * tone(i)]).collect();
/// let image = feature.image(&samples);
/// assert_eq!(image.len(), 5 * 65 * 26);
/// // 0.4 radians per sample lie in bin 32.6 of 512, in row 8 of four bins each.
/// assert!(image[8 * 26 + 13] > image[20 * 26 + 13]);
/// # Ok::<(), far_model::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct AudioFeature {
    config: AudioConfig,
    window: AudioWindow,
}

impl AudioFeature {
    /// Features with these settings of sound that is cut this way.
    ///
    /// # Errors
    /// If the settings make none.
    pub fn new(config: AudioConfig, window: AudioWindow) -> Result<Self> {
        config.check()?;
        Ok(Self { config, window })
    }

    /// The features of a dataset's sound.
    ///
    /// # Errors
    /// If it has none, or the settings make none.
    pub fn of(description: &DatasetDescription, config: AudioConfig) -> Result<Self> {
        let Some(rate) = description.audio_rate else {
            let reason =
                "the cue `audio` needs sound, and the dataset has no audio_rate".to_owned();
            return Err(Error::Setting { setting: "arm.cue", reason });
        };
        Self::new(config, AudioWindow::soundspaces(rate))
    }

    /// Rows after pooling.
    fn rows(&self) -> usize {
        self.window.bins().div_ceil(self.config.pool[0])
    }

    /// Columns after pooling.
    fn columns(&self) -> usize {
        self.window.transforms().div_ceil(self.config.pool[1])
    }

    /// The pooled channels of one window, [channels, rows, columns]; a shorter window is filled
    /// with silence before its first sample.
    pub fn image(&self, samples: &[[f32; 2]]) -> Vec<f32> {
        let mut ear = Ear::new(self, samples);
        ear.window(0, samples.len());
        self.pooled(&ear.sums)
    }

    /// The rows of all frames of a track whose return begins with frame `boundary`, [frames, elements].
    ///
    /// Sources start anew with the return (`docs/decisions/062-…`), so its first windows hear silence
    /// where they reach back into the exploration.
    fn tokens(
        &self,
        audio: &Audio,
        description: &DatasetDescription,
        frames: usize,
        boundary: usize,
    ) -> Vec<f32> {
        let mut rows = Vec::with_capacity(frames * self.shape().elements());
        let mut ear = Ear::new(self, &audio.samples);
        for frame in 0..frames {
            let phase = if frame < boundary { 0 } else { boundary };
            ear.window(description.audio_start(phase), description.audio_start(frame + 1));
            self.push_tokens(&self.pooled(&ear.sums), &mut rows);
        }
        rows
    }

    /// Channels [channels, rows, columns] of pooled sums [columns, rows, 4].
    fn pooled(&self, sums: &[f32]) -> Vec<f32> {
        let AudioConfig { gain, channels, .. } = self.config;
        let (rows, columns) = (self.rows(), self.columns());
        let mut image = vec![0.0; self.config.channel_count() * rows * columns];
        for (place, parts) in sums.chunks_exact(PARTS).enumerate() {
            let (column, row) = (place / rows, place % rows);
            let [left, right, real, imaginary] = [parts[0], parts[1], parts[2], parts[3]];
            let length = real.hypot(imaginary) + FLOOR * FLOOR;
            let values = [
                (gain * left).ln_1p(),
                (gain * right).ln_1p(),
                ((left + FLOOR) / (right + FLOOR)).ln(),
                real / length,
                imaginary / length,
            ];
            let both = [(0.5 * gain * (left + right)).ln_1p()];
            let kept = match channels {
                AudioChannels::Five => &values[..],
                AudioChannels::Two => &values[..2],
                AudioChannels::One => &both[..],
            };
            for (channel, value) in kept.iter().enumerate() {
                image[(channel * rows + row) * columns + column] = *value;
            }
        }
        image
    }

    /// Cuts an image into patches, row by row; each has its rows, columns and channels in this
    /// order, and zeros beyond the image.
    fn push_tokens(&self, image: &[f32], tokens: &mut Vec<f32>) {
        let (rows, columns) = (self.rows(), self.columns());
        let [height, width] = self.config.patch;
        let shape = self.shape();
        for (top, left) in (0..shape.height).flat_map(|row| (0..shape.width).map(move |c| (row, c)))
        {
            for (row, column) in (0..height).flat_map(|row| (0..width).map(move |c| (row, c))) {
                let (row, column) = (top * height + row, left * width + column);
                let inside = row < rows && column < columns;
                tokens.extend((0..self.config.channel_count()).map(|channel| {
                    if inside { image[(channel * rows + row) * columns + column] } else { 0.0 }
                }));
            }
        }
    }

    /// Checks that a track is what the dataset says it is.
    fn check(&self, episode: &Episode, audio: &Audio) -> Result<()> {
        let due = episode.description().audio_start(episode.len());
        let wrong = |reason| Err(Error::File { path: episode.audio_path(), reason });
        if audio.rate != self.window.rate {
            return wrong(format!(
                "it has {} samples per second, the dataset {}",
                audio.rate, self.window.rate
            ));
        }
        if audio.samples.len() < due {
            let found = audio.samples.len();
            return wrong(format!("it has {found} samples where {due} are due"));
        }
        let what = format!("the sound of episode {}", episode.id());
        Error::check_finite(what, audio.samples.as_flattened())
    }
}

impl CueFeature for AudioFeature {
    fn cue(&self) -> &str {
        AUDIO_CUE
    }

    fn recipe(&self) -> String {
        let settings = serde_json::to_string(&self.config).expect("settings become JSON");
        format!("spectrogram 3 {settings} {:?}", self.window)
    }

    fn shape(&self) -> LatentShape {
        let [rows, columns] = self.config.patch;
        LatentShape {
            channels: rows * columns * self.config.channel_count(),
            height: self.rows().div_ceil(rows),
            width: self.columns().div_ceil(columns),
            patch: 1,
        }
    }

    fn lacking(&self, description: &DatasetDescription) -> Option<String> {
        let rate = self.window.rate;
        let heard = description.audio_rate == Some(rate);
        (!heard).then(|| format!("sound of {rate} samples per second, and the dataset has none"))
    }

    fn rows(&self, episode: &Episode) -> Result<Vec<f32>> {
        let Some(audio) = episode.audio()? else {
            let reason = "the dataset has no audio_rate".to_owned();
            return Err(Error::Setting { setting: "arm.cue", reason });
        };
        self.check(episode, &audio)?;
        let (frames, boundary) = (episode.len(), episode.boundary());
        Ok(self.tokens(&audio, episode.description(), frames, boundary))
    }
}

/// Listens to a track, window by window. Transforms that lie wholly inside a window are the same in
/// every window that has them, so they are made once.
struct Ear<'a> {
    window: AudioWindow,
    /// Transforms that are averaged.
    pool: usize,
    samples: &'a [[f32; 2]],
    spectrum: Spectrum,
    /// The first sample that is not silence.
    begin: usize,
    known: HashMap<i64, Vec<f32>>,
    /// Pooled parts of the present window, [columns, rows, 4].
    sums: Vec<f32>,
}

impl<'a> Ear<'a> {
    fn new(feature: &AudioFeature, samples: &'a [[f32; 2]]) -> Self {
        let AudioFeature { config, window } = *feature;
        let sums = vec![0.0; feature.columns() * feature.rows() * PARTS];
        let [bins, pool] = config.pool;
        let (spectrum, known) = (Spectrum::new(&window, bins), HashMap::new());
        Self { window, pool, samples, spectrum, begin: 0, known, sums }
    }

    /// Hears the window that ends before sample `end`, with silence before sample `begin`.
    fn window(&mut self, begin: usize, end: usize) {
        if begin != self.begin {
            self.begin = begin;
            self.known.clear();
        }
        let AudioWindow { transform, hann, hop, .. } = self.window;
        let end = end as i64;
        let start = end - self.window.samples() as i64;
        let reach = hann as i64;
        // What began before this window will not be asked for again.
        self.known.retain(|first, _| *first >= start);
        self.sums.fill(0.0);
        let share = 1.0 / self.pool as f32;
        let size = self.sums.len() / self.window.transforms().div_ceil(self.pool);
        for number in 0..self.window.transforms() {
            let center = start + (number * hop) as i64;
            let first = center - (transform / 2) as i64 + ((transform - hann) / 2) as i64;
            let samples = self.samples;
            let heard = |place: i64| -> [f32; 2] {
                let place = usize::try_from(place).ok().filter(|place| *place >= begin);
                let sample = place.and_then(|place| samples.get(place));
                sample.copied().unwrap_or_default()
            };
            let sums = &mut self.sums[number / self.pool * size..][..size];
            let mut add = |column: &[f32]| {
                sums.iter_mut().zip(column).for_each(|(sum, value)| *sum += share * value);
            };
            if first >= start && first + reach <= end {
                let spectrum = &mut self.spectrum;
                let make = || spectrum.column(|place| heard(first + place as i64));
                add(self.known.entry(first).or_insert_with(make));
                continue;
            }
            let padded = |place: usize| {
                let place = first + place as i64;
                if (start..end).contains(&place) { heard(place) } else { [0.0; 2] }
            };
            add(&self.spectrum.column(padded));
        }
    }
}
