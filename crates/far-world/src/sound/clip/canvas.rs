//! The loop from which clips are synthesized: tones, filtered noise and short events, all seamless.

use super::CLIP_SAMPLES;
use crate::sound::SAMPLE_RATE;
use biquad::{Biquad, Coefficients, DirectForm2Transposed, ToHertz, Type};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::f64::consts::TAU;
use std::ops::Range;

/// Length of a loop in seconds.
pub const SECONDS: f32 = CLIP_SAMPLES as f32 / SAMPLE_RATE as f32;

/// A loop in progress, with its random stream.
pub struct Canvas {
    pub samples: Vec<f32>,
    random: ChaCha8Rng,
}

impl Canvas {
    /// A silent loop.
    pub fn new(seed: u64) -> Self {
        Self { samples: vec![0.0; CLIP_SAMPLES], random: ChaCha8Rng::seed_from_u64(seed) }
    }

    /// A random number in the range.
    pub fn draw(&mut self, range: Range<f32>) -> f32 {
        self.random.random_range(range)
    }

    /// A random index below `count`.
    pub fn pick(&mut self, count: usize) -> usize {
        self.random.random_range(0..count)
    }

    /// The nearest frequency with whole cycles in the loop, at least one.
    pub fn cyclic(&self, hertz: f32) -> f32 {
        (hertz * SECONDS).round().max(1.0) / SECONDS
    }

    /// A random frequency in the range, with whole cycles in the loop.
    pub fn cyclic_in(&mut self, range: Range<f32>) -> f32 {
        let hertz = self.draw(range);
        self.cyclic(hertz)
    }

    /// Adds a sine of nearly `hertz` at a random phase, shaped by `envelope` over the seconds.
    pub fn tone(&mut self, hertz: f32, gain: f32, envelope: impl Fn(f32) -> f32) {
        let step = TAU * f64::from(self.cyclic(hertz)) / f64::from(SAMPLE_RATE);
        let (mut sine, mut cosine) = (TAU * f64::from(self.draw(0.0..1.0))).sin_cos();
        let (step_sine, step_cosine) = step.sin_cos();
        for (i, sample) in self.samples.iter_mut().enumerate() {
            *sample += gain * sine as f32 * envelope(i as f32 / SAMPLE_RATE as f32);
            (sine, cosine) =
                (sine * step_cosine + cosine * step_sine, cosine * step_cosine - sine * step_sine);
        }
    }

    /// Adds white noise through a chain of filters `(type, hertz, q)`, shaped by `envelope`.
    ///
    /// The chain first processes the loop's last eighth, so that it is settled when the loop
    /// starts.
    pub fn noise(
        &mut self,
        filters: &[(Type<f32>, f32, f32)],
        gain: f32,
        envelope: impl Fn(f32) -> f32,
    ) {
        let white: Vec<f32> =
            (0..CLIP_SAMPLES).map(|_| self.random.random_range(-1.0f32..1.0)).collect();
        let mut chain: Vec<_> = filters.iter().map(|&filter| section(filter)).collect();
        let mut run = |x: f32| chain.iter_mut().fold(x, |x, section| section.run(x));
        for &x in &white[CLIP_SAMPLES - CLIP_SAMPLES / 8..] {
            run(x);
        }
        for (i, &x) in white.iter().enumerate() {
            self.samples[i] += gain * run(x) * envelope(i as f32 / SAMPLE_RATE as f32);
        }
    }

    /// Adds an event that starts at second `at` and lasts `seconds`; `sound` gives each sample in
    /// turn, by the seconds since the start. An event may run over the loop's end.
    pub fn event(&mut self, at: f32, seconds: f32, mut sound: impl FnMut(f32) -> f32) {
        let start = (at.rem_euclid(SECONDS) * SAMPLE_RATE as f32) as usize;
        for i in 0..(seconds * SAMPLE_RATE as f32) as usize {
            self.samples[(start + i) % CLIP_SAMPLES] += sound(i as f32 / SAMPLE_RATE as f32);
        }
    }

    /// A separate random stream for use inside an event.
    pub fn stream(&mut self) -> impl FnMut() -> f32 + use<> {
        let mut random = ChaCha8Rng::seed_from_u64(self.random.random());
        move || random.random_range(-1.0f32..1.0)
    }
}

/// A second-order filter. Frequencies are kept below the Nyquist frequency, so that it is valid.
pub fn section((kind, hertz, q): (Type<f32>, f32, f32)) -> DirectForm2Transposed<f32> {
    let nyquist = 0.5 * SAMPLE_RATE as f32;
    let (rate, hertz) = ((SAMPLE_RATE as f32).hz(), hertz.clamp(1.0, 0.98 * nyquist).hz());
    let coefficients = Coefficients::<f32>::from_params(kind, rate, hertz, q.max(0.01));
    DirectForm2Transposed::new(
        coefficients.expect("the frequency is below Nyquist and the quality positive"),
    )
}
