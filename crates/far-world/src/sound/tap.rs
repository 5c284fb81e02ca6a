//! One arrival at both ears: a fractional delay, a two-stage low-pass, the head's shadowing and a
//! gain, all interpolated from the values at one pose to those at the next.

use super::SAMPLE_RATE;
use super::arrival::Arrival;
use super::clip::CLIP_SAMPLES;

/// A path whose length jumps by more than this many meters between two frames is another path: it
/// is cross-faded instead of stretched, which would be audible as a howl.
const JUMP: f32 = 0.5;

/// Fraction bits of read positions.
const FRACTION: f64 = (1u64 << 32) as f64;

/// The filter states, for the left and the right ear.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tap {
    /// States of the two low-pass stages …
    low: [[f32; 2]; 2],
    /// … and of the head's shadowing.
    shaded: [f32; 2],
}

impl Tap {
    /// Adds a frame of sound to both ears' `mix`, while the arrival changes from `from` to `to`.
    ///
    /// `clock` counts the samples since the sources started; `warp` is the head's
    /// [`super::SphericalHead::warp`].
    pub fn add_frame(
        &mut self,
        clip: &[f32; CLIP_SAMPLES + 3],
        clock: u64,
        [from, to]: [&Arrival; 2],
        warp: f32,
        mix: &mut [Vec<f32>; 2],
    ) {
        if from.gain == 0.0 && to.gain == 0.0 {
            *self = Self::default();
        } else if (from.length - to.length).abs() <= JUMP {
            self.glide(clip, clock, [from, to], warp, mix);
        } else {
            if from.gain != 0.0 {
                self.glide(clip, clock, [from, &Arrival { gain: 0.0, ..*from }], warp, mix);
            }
            *self = Self::default();
            if to.gain != 0.0 {
                self.glide(clip, clock, [&Arrival { gain: 0.0, ..*to }, to], warp, mix);
            }
        }
    }

    /// Adds a piece of sound to `mix` while the arrival changes linearly from start to end.
    fn glide(
        &mut self,
        clip: &[f32; CLIP_SAMPLES + 3],
        clock: u64,
        [start, end]: [&Arrival; 2],
        warp: f32,
        [left, right]: &mut [Vec<f32>; 2],
    ) {
        let count = left.len();
        let share = 1.0 / count as f32;
        let read_at = |clock: u64, delay: f32| {
            let delay = (f64::from(delay) * f64::from(SAMPLE_RATE) * FRACTION) as i64;
            ((clock as i64) << 32).wrapping_sub(delay)
        };
        let both = [0, 1];
        let mut position = both.map(|ear| read_at(clock, start.delay[ear]));
        let step = both.map(|ear| {
            let last = read_at(clock + count as u64, end.delay[ear]);
            last.wrapping_sub(position[ear]) / count as i64
        });
        // y = (x + x₁ + α K (x − x₁)) / (1 + K) + p y₁ per ear, x being the low-passed sound.
        let norm = 1.0 / (1.0 + warp);
        let pole = (warp - 1.0) * norm;
        let slope = |from: f32, to: f32| (to - from) * share;
        let (mut gain, mut brightness) = (start.gain, start.brightness);
        let mut lift = both.map(|ear| start.treble[ear] * warp);
        let gain_step = slope(start.gain, end.gain);
        let brightness_step = slope(start.brightness, end.brightness);
        let lift_step = both.map(|ear| slope(start.treble[ear], end.treble[ear]) * warp);
        let Self { low: [mut first, mut second], mut shaded } = *self;
        for (left, right) in left.iter_mut().zip(right) {
            for ear in both {
                let index = (position[ear] >> 32) as usize & (CLIP_SAMPLES - 1);
                let x = interpolate(
                    [clip[index], clip[index + 1], clip[index + 2], clip[index + 3]],
                    position[ear] as u32 as f32 * (1.0 / FRACTION as f32),
                );
                let before = second[ear];
                first[ear] += brightness * (x - first[ear]);
                second[ear] += brightness * (first[ear] - second[ear]);
                let (sum, change) = (second[ear] + before, second[ear] - before);
                shaded[ear] = (sum + lift[ear] * change) * norm + pole * shaded[ear];
                position[ear] = position[ear].wrapping_add(step[ear]);
                lift[ear] += lift_step[ear];
            }
            *left += gain * shaded[0];
            *right += gain * shaded[1];
            gain += gain_step;
            brightness += brightness_step;
        }
        *self = Self { low: [first, second], shaded };
    }
}

/// The cubic through four equally spaced samples whose slopes at the inner two are those of their
/// neighbors, at a fraction between the second and the third.
#[inline]
fn interpolate([a, b, c, d]: [f32; 4], share: f32) -> f32 {
    let linear = 0.5 * (c - a);
    let cubic = 0.5 * (d - a) + 1.5 * (b - c);
    let square = c - b - linear - cubic;
    b + share * (linear + share * (square + share * cubic))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sound::{Clip, ClipKind, SphericalHead};
    use proptest::prelude::*;
    use std::f64::consts::TAU;

    const HERTZ: f64 = 500.0;

    fn sine() -> Clip {
        // 4096 cycles of 32 samples fill the loop exactly.
        let wave = |i: usize| (TAU * HERTZ * i as f64 / 16e3).sin() as f32;
        Clip::from_samples(ClipKind::Fan, 0, (0..CLIP_SAMPLES).map(wave).collect())
    }

    /// One ear of the tap in f64, formula by formula, on the sine itself instead of its samples.
    fn plain_glide(clock: u64, start: &Arrival, end: &Arrival, ear: usize) -> Vec<f64> {
        let warp = f64::from(SphericalHead::default().warp());
        let (mut first, mut low, mut shaded) = (0.0, 0.0, 0.0);
        (0..1600)
            .map(|i| {
                let share = f64::from(i) / 1600.0;
                let now = |a: f32, b: f32| f64::from(a) + share * (f64::from(b) - f64::from(a));
                let delay = now(start.delay[ear], end.delay[ear]);
                let x = (TAU * HERTZ * ((clock as f64 + f64::from(i)) / 16e3 - delay)).sin();
                let before = low;
                first += now(start.brightness, end.brightness) * (x - first);
                low += now(start.brightness, end.brightness) * (first - low);
                let zero = now(start.treble[ear], end.treble[ear]) * warp;
                shaded = ((1.0 + zero) * low + (1.0 - zero) * before - (1.0 - warp) * shaded)
                    / (1.0 + warp);
                now(start.gain, end.gain) * shaded
            })
            .collect()
    }

    fn arrival() -> impl Strategy<Value = Arrival> {
        let pair = || (0.1f32..2.0, 0.1f32..2.0);
        (0.0f32..50.0, 0.0f32..2.0, 0.05f32..1.0, 0.0f32..0.0006, pair()).prop_map(
            |(length, gain, brightness, apart, treble)| Arrival {
                length,
                gain,
                brightness,
                delay: [length / 343.0, length / 343.0 + apart],
                treble: treble.into(),
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn glides_like_the_plain_formula(
            start in arrival(), end in arrival(), clock in 0u64..400_000, nearer in 0.0f32..0.001,
        ) {
            // Delays of one path change by what a walker can move in a frame.
            let end = Arrival { delay: start.delay.map(|delay| delay + nearer), ..end };
            let mut mix = [vec![0.0; 1600], vec![0.0; 1600]];
            let warp = SphericalHead::default().warp();
            Tap::default().glide(sine().padded(), clock, [&start, &end], warp, &mut mix);
            for (ear, heard) in mix.iter().enumerate() {
                let plain = plain_glide(clock, &start, &end, ear);
                for (fast, plain) in heard.iter().zip(plain) {
                    prop_assert!((f64::from(*fast) - plain).abs() < 0.01, "{} {}", fast, plain);
                }
            }
        }
    }

    #[test]
    fn frames_join_without_a_step() {
        let clip = sine();
        let at = |length: f32| Arrival {
            length,
            gain: 1.0 / length,
            brightness: 0.9,
            delay: [length / 343.0; 2],
            treble: [1.0; 2],
        };
        // Slow approach, then another path, then on.
        let path = [at(4.0), at(3.9), at(3.8), at(7.0), at(6.9), at(6.8)];
        let mut tap = Tap::default();
        let mut sound = Vec::new();
        for (frame, pair) in path.windows(2).enumerate() {
            let mut mix = [vec![0.0; 1600], vec![0.0; 1600]];
            let clock = 1600 * frame as u64;
            tap.add_frame(clip.padded(), clock, [&pair[0], &pair[1]], 4.08, &mut mix);
            sound.extend_from_slice(&mix[0]);
        }
        let steepest = (TAU * HERTZ / 16e3) as f32 * 1.05 / 3.8;
        for pair in sound[100..].windows(2) {
            assert!((pair[1] - pair[0]).abs() < steepest, "a click: {pair:?}");
        }
    }
}
