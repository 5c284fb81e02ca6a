//! What pictures of sound are made of: the loudness of each frequency, and colors for it.

use realfft::num_complex::Complex;
use realfft::{RealFftPlanner, RealToComplex};
use std::f32::consts::TAU;
use std::sync::Arc;

/// Colors of levels from quiet to loud, evenly spaced: black over violet and orange to a pale yellow.
const STOPS: [[f32; 3]; 5] = [
    [4.0, 4.0, 12.0],
    [72.0, 20.0, 104.0],
    [186.0, 54.0, 86.0],
    [248.0, 146.0, 40.0],
    [252.0, 250.0, 190.0],
];

/// A Fourier transform of one ear under a Hann window, with its working memory.
pub struct EarSpectrum {
    plan: Arc<dyn RealToComplex<f32>>,
    input: Vec<f32>,
    output: Vec<Complex<f32>>,
    power: Vec<f32>,
}

impl EarSpectrum {
    /// Over so many samples.
    ///
    /// # Panics
    /// If that is none.
    pub fn new(length: usize) -> Self {
        let plan = RealFftPlanner::<f32>::new().plan_fft_forward(length);
        let (input, output) = (plan.make_input_vec(), plan.make_output_vec());
        let power = vec![0.0; output.len()];
        Self { plan, input, output, power }
    }

    /// The power of each frequency, such that a sine of amplitude 1 has ½; `sample` says what is
    /// heard at each place of the window.
    pub fn power(&mut self, sample: impl Fn(usize) -> f32) -> &[f32] {
        let length = self.input.len() as f32;
        for (place, x) in self.input.iter_mut().enumerate() {
            *x = sample(place) * (0.5 - 0.5 * (TAU * place as f32 / length).cos());
        }
        let done = self.plan.process(&mut self.input, &mut self.output);
        done.expect("the buffers are the plan's own");
        let scale = 8.0 / (length * length);
        for (power, value) in self.power.iter_mut().zip(&self.output) {
            *power = scale * value.norm_sqr();
        }
        &self.power
    }
}

/// A power in decibels; silence has −120.
pub fn decibels(power: f32) -> f32 {
    10.0 * power.max(1e-12).log10()
}

/// The color of a level between the quietest and the loudest that are told apart.
pub fn level_color(level: f32, [quiet, loud]: [f32; 2]) -> [u8; 3] {
    let share = ((level - quiet) / (loud - quiet)).clamp(0.0, 1.0) * (STOPS.len() - 1) as f32;
    let stop = (share as usize).min(STOPS.len() - 2);
    let rest = share - stop as f32;
    let [a, b] = [STOPS[stop], STOPS[stop + 1]];
    std::array::from_fn(|channel| (a[channel] + rest * (b[channel] - a[channel])) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sine_has_half_its_square_as_power_at_its_frequency() {
        let mut spectrum = EarSpectrum::new(256);
        let power = spectrum.power(|place| 0.4 * (TAU * 20.0 * place as f32 / 256.0).sin());
        assert!((power[20] - 0.08).abs() < 1e-4, "{}", power[20]);
        assert!(power[30] < 1e-6);
        assert!((decibels(0.1) + 10.0).abs() < 1e-5 && decibels(0.0) == -120.0);
    }

    #[test]
    fn colors_go_from_dark_to_pale() {
        assert_eq!(level_color(-90.0, [-80.0, -10.0]), [4, 4, 12]);
        assert_eq!(level_color(0.0, [-80.0, -10.0]), [252, 250, 190]);
        assert_eq!(level_color(-45.0, [-80.0, -10.0]), [186, 54, 86]);
    }
}
