//! Pictures of what was heard: the last second before a frame, by frequency and time, for both ears.

use far_data::{DataError, Dataset, EarSpectrum, Picture, decibels, level_color};
use rayon::prelude::*;
use std::ops::Range;

/// How long before a frame is looked at, in seconds; nothing after it.
const SECONDS: f32 = 1.0;
/// Columns of a picture, evenly spaced over that time.
const COLUMNS: usize = 60;
/// Rows of one ear, evenly spaced by pitch.
const BANDS: usize = 40;
/// Rows between the ears.
const GAP: usize = 2;
/// The lowest pitch shown, in Hz; the highest is half the sampling rate.
const LOWEST: f32 = 60.0;
/// Seconds that one column hears, before rounding to a power of two of samples.
const WINDOW: f32 = 0.025;
/// Levels in dB of a full tone that are drawn darkest and brightest.
const LEVELS: [f32; 2] = [-80.0, -10.0];

/// Makes pictures of sounds of one sampling rate.
pub(crate) struct Spectrograph {
    /// Samples of the time shown.
    samples: usize,
    /// Samples that a column hears.
    length: usize,
    /// Frequencies of the transform that each row shows, low to high.
    bands: Vec<Range<usize>>,
}

impl Spectrograph {
    /// For so many samples per second.
    pub(crate) fn new(rate: u32) -> Self {
        let rate = rate as f32;
        let length = ((rate * WINDOW) as usize).next_power_of_two().clamp(16, 8192);
        let (step, most) = (rate / length as f32, length / 2);
        let lowest = LOWEST.min(rate / 4.0);
        let edge = |band: usize| lowest * (rate / 2.0 / lowest).powf(band as f32 / BANDS as f32);
        let bin = |hertz: f32| ((hertz / step).round() as usize).clamp(1, most);
        let bands = (0..BANDS).map(|band| {
            let first = bin(edge(band));
            first..bin(edge(band + 1)).max(first + 1).min(most + 1)
        });
        Self { samples: (rate * SECONDS).round() as usize, length, bands: bands.collect() }
    }

    /// The picture of a stretch of sound that ends at a frame: left ear above, right ear below, low
    /// pitches at the bottom of each, the present at the right. What is missing before is silence.
    pub(crate) fn picture(&self, sound: &[[f32; 2]]) -> Picture {
        let height = 2 * BANDS + GAP;
        let mut picture =
            Picture::filled(COLUMNS as u32, height as u32, level_color(f32::MIN, LEVELS));
        let mut spectrum = EarSpectrum::new(self.length);
        for ear in 0..2 {
            for column in 0..COLUMNS {
                let levels = self.levels(&mut spectrum, sound, ear, column);
                for (band, level) in levels.into_iter().enumerate() {
                    let row = ear * (BANDS + GAP) + BANDS - 1 - band;
                    picture.set_pixel(column as u32, row as u32, level_color(level, LEVELS));
                }
            }
        }
        picture
    }

    /// The loudest level of each band in one column, in dB of a full tone.
    fn levels(
        &self,
        spectrum: &mut EarSpectrum,
        sound: &[[f32; 2]],
        ear: usize,
        column: usize,
    ) -> Vec<f32> {
        let silence = self.samples.saturating_sub(sound.len());
        let start = column * self.samples.saturating_sub(self.length) / (COLUMNS - 1);
        let power = spectrum.power(|place| {
            let at = (start + place).checked_sub(silence);
            at.and_then(|at| sound.get(at)).map_or(0.0, |pair| pair[ear])
        });
        // A tone of amplitude 1 has power ½.
        let level = |bin: usize| decibels(2.0 * power[bin]);
        let bands = self.bands.iter();
        bands.map(|band| band.clone().map(level).fold(f32::MIN, f32::max)).collect()
    }
}

/// Pictures of what was heard up to some frames of an episode; `None` in a dataset without sound.
///
/// # Errors
/// If the sound cannot be read.
pub(crate) fn heard(
    dataset: &Dataset,
    episode: u32,
    frames: &[usize],
) -> Result<Option<Vec<Picture>>, DataError> {
    let episode = dataset.episode(episode)?;
    let Some(audio) = episode.audio()? else { return Ok(None) };
    let spectrograph = Spectrograph::new(audio.rate);
    let description = episode.description();
    let pictures = frames
        .par_iter()
        .map(|frame| spectrograph.picture(audio.until_frame(description, *frame, SECONDS)));
    Ok(Some(pictures.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RATE: u32 = 16_000;

    fn tone(hertz: f32, ear: usize) -> Vec<[f32; 2]> {
        let turn = std::f32::consts::TAU * hertz / RATE as f32;
        let value = |at: usize| 0.5 * (turn * at as f32).sin();
        (0..RATE as usize)
            .map(|at| std::array::from_fn(|own| if own == ear { value(at) } else { 0.0 }))
            .collect()
    }

    /// The level of one frequency of one column by the definition of the transform.
    fn level_reference(sound: &[[f32; 2]], ear: usize, start: usize, bin: usize, n: usize) -> f32 {
        let (mut real, mut imaginary, mut full) = (0.0f64, 0.0f64, 0.0f64);
        for at in 0..n {
            let angle = std::f64::consts::TAU / n as f64;
            let weight = 0.5 - 0.5 * (angle * at as f64).cos();
            let value = weight * f64::from(sound[start + at][ear]);
            real += value * (angle * (bin * at % n) as f64).cos();
            imaginary -= value * (angle * (bin * at % n) as f64).sin();
            full += weight / 2.0;
        }
        let power = (real * real + imaginary * imaginary) / (full * full);
        (10.0 * (power + 1e-12).log10()) as f32
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(6))]

        #[test]
        fn levels_are_those_of_the_plain_transform(
            hertz in 100.0f32..7000.0, ear in 0..2usize, column in 0..COLUMNS,
        ) {
            let spectrograph = Spectrograph::new(RATE);
            let (sound, length) = (tone(hertz, ear), spectrograph.length);
            let mut spectrum = EarSpectrum::new(length);
            let start = column * (RATE as usize - length) / (COLUMNS - 1);
            let levels = spectrograph.levels(&mut spectrum, &sound, ear, column);
            for (band, bins) in spectrograph.bands.iter().enumerate().step_by(3) {
                let level = |bin| level_reference(&sound, ear, start, bin, length);
                let expected = bins.clone().map(level).fold(f32::MIN, f32::max);
                // Far below a tone the transform is left with its own rounding.
                prop_assert!((levels[band].max(-75.0) - expected.max(-75.0)).abs() < 0.5);
            }
        }
    }

    #[test]
    fn a_tone_is_a_bright_line_at_its_pitch_in_its_ear() {
        let spectrograph = Spectrograph::new(RATE);
        let picture = spectrograph.picture(&tone(1000.0, 1));
        let brightness = |row: usize| {
            let pixel = picture.pixel(30, row as u32);
            pixel.iter().map(|value| u32::from(*value)).sum::<u32>()
        };
        let rows = 0..2 * BANDS + GAP;
        let brightest = rows.max_by_key(|row| brightness(*row)).unwrap();
        let band = 2 * BANDS + GAP - 1 - brightest;
        assert!(band < BANDS, "in the lower half: the right ear");
        let edge = |band: usize| LOWEST * (8000.0 / LOWEST).powf(band as f32 / BANDS as f32);
        assert!(edge(band) < 1100.0 && edge(band + 1) > 900.0, "band {band}");
        assert!(
            (0..BANDS).all(|row| picture.pixel(30, row as u32) == level_color(f32::MIN, LEVELS)),
            "left is silent"
        );
    }

    #[test]
    fn what_has_not_happened_yet_is_silent_and_odd_rates_are_drawn() {
        let spectrograph = Spectrograph::new(RATE);
        let half = &tone(500.0, 0)[..RATE as usize / 2];
        let picture = spectrograph.picture(half);
        let column = |x: u32| (0..BANDS as u32).map(|y| picture.pixel(x, y)).collect::<Vec<_>>();
        assert!(
            column(5).iter().all(|pixel| *pixel == level_color(f32::MIN, LEVELS)),
            "the first half is missing"
        );
        assert!(
            column(55).iter().any(|pixel| *pixel != level_color(f32::MIN, LEVELS)),
            "sound ends at the frame"
        );
        for rate in [1, 100, 192_000] {
            Spectrograph::new(rate).picture(&[[0.1, f32::NAN]]);
        }
    }
}
