//! One arrival at one ear: a fractional delay, a two-stage low-pass, the head's shade and a gain, all of
//! which glide from the values at one pose to those at the next.

use super::SAMPLE_RATE;
use super::arrival::Arrival;
use super::clip::CLIP_SAMPLES;

/// A path whose length jumps by more than this many meters between two frames is another path: it
/// is faded over instead of stretched, which would be heard as a howl.
const JUMP: f32 = 0.5;

/// Fraction bits of read positions.
const FRACTION: f64 = (1u64 << 32) as f64;

/// The filters' memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tap {
    /// States of the two low-pass stages …
    low: [f32; 2],
    /// … and of the head's shade.
    shaded: f32,
}

/// What one ear gets of an arrival at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// Seconds since the sound left the source.
    pub delay: f32,
    /// Amplitude.
    pub gain: f32,
    /// Coefficient of either stage of the low-pass.
    pub brightness: f32,
    /// Gain of the head's shade at high frequencies.
    pub treble: f32,
}

impl Setting {
    fn of(arrival: &Arrival, ear: usize) -> Self {
        Self {
            delay: arrival.delay[ear],
            gain: arrival.gain,
            brightness: arrival.brightness,
            treble: arrival.treble[ear],
        }
    }
}

impl Tap {
    /// Adds a frame of sound to `mix`, while `from` turns into `to`.
    ///
    /// `clock` counts the samples since the sources started; `warp` is the head's
    /// [`super::SphericalHead::warp`].
    pub fn add_frame(
        &mut self,
        clip: &[f32; CLIP_SAMPLES + 3],
        clock: u64,
        ear: usize,
        [from, to]: [&Arrival; 2],
        warp: f32,
        mix: &mut [f32],
    ) {
        if from.gain == 0.0 && to.gain == 0.0 {
            *self = Self::default();
            return;
        }
        let (start, end) = (Setting::of(from, ear), Setting::of(to, ear));
        if (from.length - to.length).abs() <= JUMP {
            self.glide(clip, clock, [start, end], warp, mix);
        } else {
            if start.gain != 0.0 {
                self.glide(clip, clock, [start, Setting { gain: 0.0, ..start }], warp, mix);
            }
            *self = Self::default();
            if end.gain != 0.0 {
                self.glide(clip, clock, [Setting { gain: 0.0, ..end }, end], warp, mix);
            }
        }
    }

    /// Adds one stretch of sound to `mix` while the setting moves evenly from start to end.
    pub fn glide(
        &mut self,
        clip: &[f32; CLIP_SAMPLES + 3],
        clock: u64,
        [start, end]: [Setting; 2],
        warp: f32,
        mix: &mut [f32],
    ) {
        let share = 1.0 / mix.len() as f32;
        let read_at = |clock: u64, delay: f32| {
            let delay = (f64::from(delay) * f64::from(SAMPLE_RATE) * FRACTION) as i64;
            ((clock as i64) << 32).wrapping_sub(delay)
        };
        let mut position = read_at(clock, start.delay);
        let last = read_at(clock + mix.len() as u64, end.delay);
        let step = last.wrapping_sub(position) / mix.len() as i64;
        // y = (x + x₁ + α K (x − x₁)) / (1 + K) + p y₁, with the gain drawn into the result.
        let norm = 1.0 / (1.0 + warp);
        let pole = (warp - 1.0) * norm;
        let slope = |from: f32, to: f32| (to - from) * share;
        let (mut gain, mut brightness) = (start.gain, start.brightness);
        let mut lift = start.treble * warp;
        let gain_step = slope(start.gain, end.gain);
        let brightness_step = slope(start.brightness, end.brightness);
        let lift_step = slope(start.treble, end.treble) * warp;
        let Self { mut low, mut shaded } = *self;
        for sample in mix {
            let index = (position >> 32) as usize & (CLIP_SAMPLES - 1);
            let x = interpolate(
                [clip[index], clip[index + 1], clip[index + 2], clip[index + 3]],
                position as u32 as f32 * (1.0 / FRACTION as f32),
            );
            let before = low[1];
            low[0] += brightness * (x - low[0]);
            low[1] += brightness * (low[0] - low[1]);
            let now = low[1];
            shaded = (now + before + lift * (now - before)) * norm + pole * shaded;
            *sample += gain * shaded;
            position = position.wrapping_add(step);
            gain += gain_step;
            brightness += brightness_step;
            lift += lift_step;
        }
        *self = Self { low, shaded };
    }
}

/// The cubic through four equally spaced samples whose slopes at the inner two are those of their
/// neighbors, at a share of the way from the second to the third.
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

    /// The same tap in doubles, formula by formula, on the sine itself instead of its samples.
    fn plain_glide(clock: u64, start: Setting, end: Setting, count: usize) -> Vec<f64> {
        let warp = f64::from(SphericalHead::default().warp());
        let (mut first, mut low, mut shaded) = (0.0, 0.0, 0.0);
        (0..count)
            .map(|i| {
                let share = i as f64 / count as f64;
                let now = |a: f32, b: f32| f64::from(a) + share * (f64::from(b) - f64::from(a));
                let seconds = (clock + i as u64) as f64 / 16e3 - now(start.delay, end.delay);
                let x = (TAU * HERTZ * seconds).sin();
                let before = low;
                first += now(start.brightness, end.brightness) * (x - first);
                low += now(start.brightness, end.brightness) * (first - low);
                let zero = now(start.treble, end.treble) * warp;
                shaded = ((1.0 + zero) * low + (1.0 - zero) * before - (1.0 - warp) * shaded)
                    / (1.0 + warp);
                now(start.gain, end.gain) * shaded
            })
            .collect()
    }

    fn setting() -> impl Strategy<Value = Setting> {
        (0.0f32..0.2, 0.0f32..2.0, 0.05f32..1.0, 0.1f32..2.0).prop_map(
            |(delay, gain, brightness, treble)| Setting { delay, gain, brightness, treble },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn glides_like_the_plain_formula(
            start in setting(), end in setting(), clock in 0u64..400_000, nearness in 0.0f32..0.001,
        ) {
            // Delays of one path change by what a walker can do in a frame.
            let end = Setting { delay: start.delay + nearness, ..end };
            let mut mix = vec![0.0; 1600];
            Tap::default().glide(
                sine().padded(), clock, [start, end], SphericalHead::default().warp(), &mut mix,
            );
            for (fast, plain) in mix.iter().zip(plain_glide(clock, start, end, 1600)) {
                prop_assert!((f64::from(*fast) - plain).abs() < 0.01, "{} {}", fast, plain);
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
        let mut sound = vec![0.0; 5 * 1600];
        for (frame, mix) in sound.chunks_mut(1600).enumerate() {
            let pair = [&path[frame], &path[frame + 1]];
            tap.add_frame(clip.padded(), 1600 * frame as u64, 0, pair, 4.08, mix);
        }
        let steepest = (TAU * HERTZ / 16e3) as f32 * 1.05 / 3.8;
        for pair in sound[100..].windows(2) {
            assert!((pair[1] - pair[0]).abs() < steepest, "a click: {pair:?}");
        }
    }
}
