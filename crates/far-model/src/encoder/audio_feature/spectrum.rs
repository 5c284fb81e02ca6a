//! Short-time transforms of both ears, pooled over frequency.

use super::AudioWindow;
use realfft::num_complex::Complex;
use realfft::{RealFftPlanner, RealToComplex};
use std::f64::consts::TAU;
use std::sync::Arc;

/// Numbers of a pooled bin: |L|, |R|, and real and imaginary part of L·conj(R).
pub(super) const PARTS: usize = 4;

/// A plan of transforms with its working memory.
pub(super) struct Spectrum {
    plan: Arc<dyn RealToComplex<f32>>,
    hann: Vec<f32>,
    /// Where the window begins in the transform.
    offset: usize,
    rows: usize,
    pool: usize,
    input: Vec<f32>,
    ears: [Vec<Complex<f32>>; 2],
    scratch: Vec<Complex<f32>>,
}

impl Spectrum {
    /// Transforms of a window, of which `pool` bins at a time are averaged.
    pub(super) fn new(window: &AudioWindow, pool: usize) -> Self {
        let plan = RealFftPlanner::<f32>::new().plan_fft_forward(window.transform);
        let length = window.hann as f64;
        let hann = |place: usize| (0.5 - 0.5 * (TAU * place as f64 / length).cos()) as f32;
        let ears = [plan.make_output_vec(), plan.make_output_vec()];
        let scratch = plan.make_scratch_vec();
        Self {
            plan,
            hann: (0..window.hann).map(hann).collect(),
            offset: (window.transform - window.hann) / 2,
            rows: window.bins().div_ceil(pool),
            pool,
            input: vec![0.0; window.transform],
            ears,
            scratch,
        }
    }

    /// One transform: `sample` gives both ears by the place in the Hann window. The mean of each
    /// block of bins, [rows, 4]; bins beyond the last count as zero.
    pub(super) fn column(&mut self, sample: impl Fn(usize) -> [f32; 2]) -> Vec<f32> {
        for ear in 0..2 {
            self.input.fill(0.0);
            let windowed = self.input[self.offset..].iter_mut().zip(&self.hann);
            for (place, (x, weight)) in windowed.enumerate() {
                *x = weight * sample(place)[ear];
            }
            let (plan, output) = (&self.plan, &mut self.ears[ear]);
            plan.process_with_scratch(&mut self.input, output, &mut self.scratch)
                .expect("buffers are the plan's own");
        }
        let mut column = vec![0.0; self.rows * PARTS];
        let share = 1.0 / self.pool as f32;
        let [left, right] = &self.ears;
        let blocks = left.chunks(self.pool).zip(right.chunks(self.pool));
        for (row, (left, right)) in column.chunks_mut(PARTS).zip(blocks) {
            for (left, right) in left.iter().zip(right) {
                let cross = left * right.conj();
                let parts = [left.norm_sqr().sqrt(), right.norm_sqr().sqrt(), cross.re, cross.im];
                row.iter_mut().zip(parts).for_each(|(sum, part)| *sum += share * part);
            }
        }
        column
    }
}
