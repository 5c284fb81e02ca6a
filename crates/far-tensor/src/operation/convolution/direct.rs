//! Convolution on the CPU by direct loops, without a matrix of patches.
//!
//! Channels last, the elements that a row of the window reads are neighbors in memory. So the lines
//! that the window covers are copied beside each other, zeros around them, and each pixel of the
//! result is a few dot products with long runs of that copy; [`add_products`] holds several pixels
//! and several vectors of outputs in registers. Pieces of work depend on the shapes alone.

use super::fold::Placement;
use super::sliding::Sliding;
use super::tile::{add_products, lanes_of};
use crate::Device;
use crate::buffer::Buffer;
use crate::operation::row::put;
use crate::parallel::{Disjoint, for_ranges, reduce_ranges, with_scratch};
use crate::product::{Matrix, multiply_here};
use crate::vectorize::vectorized;

/// Multiplications that are worth handing to another thread.
const PIECE_PRODUCTS: usize = 1 << 20;
/// Elements of a weight that are used before the next are read: they stay in the first cache.
const NEAR_ELEMENTS: usize = 6 * 1024;
/// Into how many parts the gradient of a weight is summed: each has its own copy.
const MOST_PARTS: usize = 8;

/// A weight as the loops read it: [blocks of outputs, kernel rows, kernel columns · channels, lanes].
pub(super) struct PackedWeight {
    values: Buffer,
    lanes: usize,
}

impl PackedWeight {
    /// A weight [outputs, channels, taps] for a convolution, or turned around for its way back.
    pub(super) fn new(device: &Device, sliding: &Sliding, weight: &[f32], turned: bool) -> Self {
        let (lanes, taps) = (lanes_of(sliding.outputs), sliding.taps());
        let (outputs, channels) = (sliding.outputs, sliding.channels);
        let blocks = outputs.div_ceil(lanes);
        let mut values = device.buffer(blocks * taps * channels * lanes);
        for (place, row) in values.chunks_exact_mut(lanes).enumerate() {
            let (block, rest) = (place / (taps * channels), place % (taps * channels));
            let (tap, channel) = (rest / channels, rest % channels);
            for (lane, value) in row.iter_mut().enumerate() {
                let output = block * lanes + lane;
                let from = match turned {
                    false => (output * channels + channel) * taps + tap,
                    true => (channel * outputs + output) * taps + taps - 1 - tap,
                };
                *value = if output < outputs { weight[from] } else { 0.0 };
            }
        }
        Self { values, lanes }
    }
}

/// What follows the sums.
#[derive(Clone, Copy, Default)]
pub(super) struct Ending<'a> {
    pub bias: Option<&'a [f32]>,
    /// As large as the result.
    pub residual: Option<&'a [f32]>,
    pub relu: bool,
    /// Whether the result is added to what is there.
    pub accumulate: bool,
}

vectorized! {
    /// target ← sums with what follows them; the slices of the ending are as long as the target.
    fn finish(target: &mut [f32], sums: &mut [f32], ending: Ending<'_>) {
        for values in [ending.bias, ending.residual].into_iter().flatten() {
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
        if ending.relu {
            sums.iter_mut().for_each(|sum| *sum = sum.max(0.0));
        }
        for (target, sum) in target.iter_mut().zip(sums) {
            put(target, *sum, ending.accumulate);
        }
    }
}

impl Sliding {
    fn lines(&self) -> usize {
        self.batch * self.fit[0]
    }

    /// Elements of the lines under a window, beside each other.
    fn covered(&self) -> usize {
        self.kernel[0] * self.reached() * self.channels
    }

    /// Copies the lines that the windows of one line of the result cover.
    fn cover(&self, covered: &mut [f32], source: &[f32], line: usize) {
        let ([height, width], channels) = (self.image, self.channels);
        let (image, place) = (line / self.fit[0], line % self.fit[0]);
        let length = self.reached() * channels;
        covered.fill(0.0);
        for i in 0..self.kernel[0] {
            let Some(y) = self.meets(0, place * self.stride[0] + i) else { continue };
            let from = &source[(image * height + y) * width * channels..][..width * channels];
            let to = &mut covered[i * length..][..length];
            if self.gap[1] == 1 && self.repeat == 1 {
                let skipped = (-self.before[1]).max(0) as usize;
                let first = self.before[1].max(0) as usize;
                let pixels =
                    width.saturating_sub(skipped).min(self.reached().saturating_sub(first));
                to[first.min(self.reached()) * channels..][..pixels * channels]
                    .copy_from_slice(&from[skipped.min(width) * channels..][..pixels * channels]);
                continue;
            }
            for (position, pixel) in to.chunks_exact_mut(channels).enumerate() {
                if let Some(x) = self.meets(1, position) {
                    pixel.copy_from_slice(&from[x * channels..][..channels]);
                }
            }
        }
    }

    /// Lines of a piece of work.
    fn grain(&self) -> usize {
        let line = self.fit[1] * self.taps() * self.channels * self.outputs;
        (PIECE_PRODUCTS / line.max(1)).max(1)
    }

    /// target [batch, extent, outputs] ← the convolution of source [batch, image, channels], where this
    /// one's pixels are placed.
    pub(super) fn convolve(
        &self,
        target: &mut [f32],
        source: &[f32],
        weight: &PackedWeight,
        ending: Ending<'_>,
    ) {
        if self.pixels() == 0 {
            return;
        }
        let Placement { apart, first, extent } = self.placement;
        let (lanes, width) = (weight.lanes, extent[1] * self.outputs);
        let shared = Disjoint::new(target);
        for_ranges(self.lines(), self.grain(), |lines| {
            with_scratch(self.covered(), |covered| {
                with_scratch(self.fit[1] * lanes, |sums| {
                    for line in lines {
                        let (image, row) = (line / self.fit[0], line % self.fit[0]);
                        let start = (image * extent[0] + row * apart + first[0]) * width;
                        // SAFETY: each line has its own part.
                        let part = unsafe { shared.range(start..start + width) };
                        self.cover(covered, source, line);
                        self.convolve_line(part, start, covered, sums, weight, ending);
                    }
                });
            });
        });
    }

    /// What is written of a line of the result, which begins at `start`.
    fn convolve_line(
        &self,
        target: &mut [f32],
        start: usize,
        covered: &[f32],
        sums: &mut [f32],
        weight: &PackedWeight,
        ending: Ending<'_>,
    ) {
        let (lanes, outputs, placement) = (weight.lanes, self.outputs, self.placement);
        let (depth, step) = (self.kernel[1] * self.channels, self.stride[1] * self.channels);
        let near = (NEAR_ELEMENTS / lanes).max(1);
        for block in 0..outputs.div_ceil(lanes) {
            sums.fill(0.0);
            for i in 0..self.kernel[0] {
                let row = &covered[i * self.reached() * self.channels..];
                let weights = &weight.values[(block * self.kernel[0] + i) * depth * lanes..];
                for first in (0..depth).step_by(near) {
                    let end = depth.min(first + near);
                    let weights = &weights[first * lanes..end * lanes];
                    add_products(sums, &row[first..], weights, step, lanes);
                }
            }
            let first = block * lanes;
            let end = outputs.min(first + lanes);
            for (pixel, sums) in sums.chunks_exact_mut(lanes).enumerate() {
                let pixel = pixel * placement.apart + placement.first[1];
                let place = pixel * outputs + first..pixel * outputs + end;
                let bias = ending.bias.map(|bias| &bias[first..end]);
                let residual = ending.residual;
                let residual =
                    residual.map(|residual| &residual[start + place.start..start + place.end]);
                finish(&mut target[place], sums, Ending { bias, residual, ..ending });
            }
        }
    }

    /// gradient [outputs, channels, taps] of the weight, from the gradient of the result.
    pub(super) fn weight_gradient(
        &self,
        device: &Device,
        gradient: &mut [f32],
        accumulate: bool,
        source: &[f32],
        upstream: &[f32],
    ) {
        let (outputs, channels, taps) = (self.outputs, self.channels, self.taps());
        let (depth, width) = (self.kernel[1] * channels, self.fit[1]);
        let mut total = device.buffer(taps * channels * outputs);
        let grain = self.lines().div_ceil(MOST_PARTS);
        reduce_ranges(device, self.lines(), grain, &mut total, false, |lines, total| {
            with_scratch(self.covered(), |covered| {
                for line in lines {
                    self.cover(covered, source, line);
                    let upstream = &upstream[line * width * outputs..][..width * outputs];
                    for i in 0..self.kernel[0] {
                        // The runs that neighboring pixels read overlap, which strides can say.
                        let runs = &covered[i * self.reached() * channels..];
                        let left = Matrix::transposed(runs, self.stride[1] * channels);
                        let right = Matrix::plain(upstream, outputs);
                        let total = &mut total[i * depth * outputs..][..depth * outputs];
                        multiply_here(total, [depth, width, outputs], left, right, true);
                    }
                }
            });
        });
        for (place, gradient) in gradient.iter_mut().enumerate() {
            let (output, rest) = (place / (channels * taps), place % (channels * taps));
            let (channel, tap) = (rest / taps, rest % taps);
            put(gradient, total[(tap * channels + channel) * outputs + output], accumulate);
        }
    }
}
