//! An image of sound: a spectrogram per ear and the level of both over time.

use far_data::{EarSpectrum, Picture, decibels, level_color};

/// Samples per transform, as the audio features use.
const WINDOW: usize = 512;
/// Rows of one ear's spectrogram.
const ROWS: u32 = 128;
/// Rows of the panel with both levels.
const LEVELS: u32 = 96;
/// Rows of the strip that marks the phases, and of the gaps.
const STRIP: u32 = 6;
/// Decibels at the lower and at the upper end of the spectrogram's colors.
const SHADES: [f32; 2] = [-75.0, -5.0];
/// Decibels at the lower and at the upper edge of the level panel.
const RANGE: [f32; 2] = [-80.0, -20.0];

const LEFT: [u8; 3] = [80, 170, 255];
const RIGHT: [u8; 3] = [255, 150, 60];

/// Draws sound over `width` columns: the left ear's spectrogram (up to 8 kHz, with low frequencies
/// spread), the right ear's, the levels of both (left blue, right orange, −80 to −20 dB), and a
/// strip that is gray up to sample `boundary` and green after it.
pub fn spectrogram(samples: &[[f32; 2]], boundary: usize, width: u32) -> Picture {
    let height = 2 * ROWS + LEVELS + 4 * STRIP;
    let mut picture = Picture::filled(width, height, [20, 20, 26]);
    let start = |column: u32| (column as u64 * samples.len() as u64 / u64::from(width)) as usize;
    let mut spectrum = EarSpectrum::new(WINDOW);
    let mut before = None;
    for column in 0..width {
        let middle = (start(column) + start(column + 1)) / 2;
        // Levels are averaged over half a second; otherwise rhythm would hide them.
        let part = &samples[middle.saturating_sub(4000)..(middle + 4000).min(samples.len())];
        let mut levels = [0; 2];
        for ear in 0..2 {
            let top = ear as u32 * (ROWS + STRIP);
            let power = spectrum.power(|place| {
                let at = (middle + place).checked_sub(WINDOW / 2);
                at.and_then(|at| samples.get(at)).map_or(0.0, |pair| pair[ear])
            });
            for row in 0..ROWS {
                // Row 0 is the highest; squares spread low tones.
                let share = |row: u32| (1.0 - row as f32 / ROWS as f32).powi(2);
                let bin = |share: f32| (share * (WINDOW / 2) as f32) as usize;
                let bins = bin(share(row + 1))..=bin(share(row));
                let loudest = power[bins].iter().fold(0.0f32, |a, &b| a.max(b));
                picture.set_pixel(column, top + row, level_color(decibels(loudest), SHADES));
            }
            // Of the differences between samples, which emphasize the frequencies that the head
            // shadows.
            let steps = part.windows(2).map(|pair| pair[1][ear] - pair[0][ear]);
            let mean = steps.map(|step| step * step).sum::<f32>() / part.len().max(1) as f32;
            levels[ear] = level_row(decibels(mean));
        }
        let top = 2 * (ROWS + STRIP);
        for (ear, color) in [(1, RIGHT), (0, LEFT)] {
            // Joined to the previous column, so that the curve has no holes.
            let from = before.map_or(levels[ear], |rows: [u32; 2]| rows[ear]);
            for row in from.min(levels[ear])..=from.max(levels[ear]) {
                picture.set_pixel(column, top + row, color);
            }
        }
        before = Some(levels);
        let explored = start(column) < boundary;
        let color = if explored { [120, 120, 120] } else { [70, 190, 90] };
        for row in 0..STRIP {
            picture.set_pixel(column, top + LEVELS + STRIP + row, color);
        }
    }
    picture
}

fn level_row(level: f32) -> u32 {
    let share = ((level - RANGE[0]) / (RANGE[1] - RANGE[0])).clamp(0.0, 1.0);
    ((1.0 - share) * (LEVELS - 1) as f32).round() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f32::consts::TAU;

    #[test]
    fn a_tone_is_drawn_at_its_pitch_and_on_its_side() {
        let tone = |i: usize| 0.3 * (TAU * 1000.0 * i as f32 / 16e3).sin();
        let samples: Vec<[f32; 2]> = (0..16_000).map(|i| [tone(i), 0.1 * tone(i)]).collect();
        let picture = spectrogram(&samples, 8000, 40);
        let brightness = |x: u32, y: u32| {
            picture.pixel(x, y).iter().map(|&channel| u32::from(channel)).sum::<u32>()
        };
        // (1 − row / 128)² · 8000 Hz is 1000 Hz at row 82.7.
        let brightest = (0..ROWS).max_by_key(|&row| brightness(20, row)).unwrap();
        assert!((78..=86).contains(&brightest), "{brightest}");
        assert!(brightness(20, 82) > brightness(20, ROWS + STRIP + 82));
        let find = |color: [u8; 3]| {
            (2 * (ROWS + STRIP)..picture.height).find(|&y| picture.pixel(20, y) == color).unwrap()
        };
        assert!(find(LEFT) < find(RIGHT), "the louder ear is drawn higher");
        let strip = picture.height - 1;
        assert_ne!(picture.pixel(5, strip), picture.pixel(35, strip));
    }

    #[test]
    fn silence_and_emptiness_are_drawn() {
        assert_eq!(spectrogram(&[], 0, 10).width, 10);
        let picture = spectrogram(&[[0.0; 2]; 100], 50, 300);
        assert_eq!(picture.pixel(0, 0), [4, 4, 12]);
    }
}
