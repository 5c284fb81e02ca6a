//! One head of one group: all its queries and keys.

use crate::buffer::LANE;
use crate::parallel::{Disjoint, with_scratch};
use crate::tile::{Left, multiply_small, padded};
use crate::vectorize::{dot, exponential, lane_sum, vectorized};
use std::ops::Range;

/// Queries whose scores are in memory at the same time.
const BLOCK: usize = 32;
/// Added to the score of a hidden key; makes it lose against any visible one.
const HIDDEN: f32 = -1e30;

/// Rows of `channels` elements, `stride` apart.
#[derive(Clone, Copy)]
pub(super) struct Strided {
    pub start: usize,
    pub stride: usize,
}

impl Strided {
    fn row(&self, row: usize, channels: usize) -> Range<usize> {
        let start = self.start + row * self.stride;
        start..start + channels
    }
}

/// Destination of a gradient.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub values: Disjoint<'a>,
    pub accumulate: bool,
}

impl Target<'_> {
    /// Writes or adds `factor` times the first channels of each row of `source` to rows of the
    /// target.
    fn put(
        &self,
        place: Strided,
        rows: Range<usize>,
        channels: usize,
        source: &[f32],
        factor: f32,
    ) {
        let stride = padded(channels);
        for (index, row) in rows.enumerate() {
            // SAFETY: each head owns its channels of its group's rows and visits a row once.
            let target = unsafe { self.values.range(place.row(row, channels)) };
            for (target, value) in target.iter_mut().zip(&source[index * stride..]) {
                let value = factor * value;
                *target = if self.accumulate { *target + value } else { value };
            }
        }
    }
}

/// Sizes, offsets and data of one head.
pub(super) struct Head<'a> {
    pub query: &'a [f32],
    pub key_value: &'a [f32],
    /// Offsets of q, k and v of this head.
    pub places: [Strided; 3],
    pub mask: Option<&'a [f32]>,
    pub queries: usize,
    pub keys: usize,
    pub channels: usize,
    pub output: Strided,
    /// Offset of log Σ exp of this head's rows.
    pub logarithms: usize,
}

/// Splits consecutive parts off a scratch slice.
fn split<const N: usize>(mut scratch: &mut [f32], lengths: [usize; N]) -> [&mut [f32]; N] {
    lengths.map(|length| {
        let (part, rest) = std::mem::take(&mut scratch).split_at_mut(length);
        scratch = rest;
        part
    })
}

impl Head<'_> {
    fn scale(&self) -> f32 {
        1.0 / (self.channels as f32).sqrt()
    }

    fn blocks(&self) -> impl Iterator<Item = Range<usize>> {
        let queries = self.queries;
        (0..queries).step_by(BLOCK).map(move |start| start..(start + BLOCK).min(queries))
    }

    /// Writes 0 for visible keys and [`HIDDEN`] for hidden ones and for padding.
    fn lay_bias(&self, bias: &mut [f32]) {
        bias.fill(HIDDEN);
        match self.mask {
            Some(mask) => {
                for (bias, seen) in bias.iter_mut().zip(mask) {
                    *bias = if *seen == 0.0 { HIDDEN } else { 0.0 };
                }
            }
            None => bias[..self.keys].fill(0.0),
        }
    }

    /// Computes the output rows and log Σ exp of this head.
    pub(super) fn forward(&self, outputs: &Disjoint<'_>, logarithms: &Disjoint<'_>) {
        let (channels, wide) = (self.channels, padded(self.channels));
        let (keys, many) = (self.keys, padded(self.keys));
        let block = BLOCK.min(self.queries);
        let lengths =
            [channels * many, keys * wide, many, block * wide, block * many, block * wide];
        with_scratch(lengths.iter().sum(), |scratch| {
            let [keys_turned, values, bias, query, scores, sums] = split(scratch, lengths);
            let [query_place, key_place, value_place] = self.places;
            pack_turned(keys_turned, self.key_value, key_place, keys, channels);
            pack(values, self.key_value, value_place, 0..keys, channels, 1.0);
            self.lay_bias(bias);
            for rows in self.blocks() {
                let count = rows.len();
                pack(query, self.query, query_place, rows.clone(), channels, self.scale());
                let (to_keys, query) = ([count, channels, many], Left::plain(query, wide));
                multiply_small(scores, to_keys, query, keys_turned, false);
                // SAFETY: each head has its own part.
                let logarithms = unsafe {
                    logarithms.range(self.logarithms + rows.start..self.logarithms + rows.end)
                };
                let mut inverses = [0.0; BLOCK];
                for (index, logarithm) in logarithms.iter_mut().enumerate() {
                    let row = &mut scores[index * many..(index + 1) * many];
                    (*logarithm, inverses[index]) = softmax_row(row, bias);
                }
                multiply_small(sums, [count, keys, wide], Left::plain(scores, many), values, false);
                for (index, row) in rows.enumerate() {
                    // SAFETY: each head owns its channels of its group's rows.
                    let output = unsafe { outputs.range(self.output.row(row, channels)) };
                    for (output, sum) in output.iter_mut().zip(&sums[index * wide..]) {
                        *output = sum * inverses[index];
                    }
                }
            }
        });
    }

    /// Adds this head's part to the requested gradients.
    pub(super) fn backward(
        &self,
        upstream: &[f32],
        output: &[f32],
        logarithms: &[f32],
        query_target: Option<Target<'_>>,
        key_target: Option<Target<'_>>,
    ) {
        let (channels, wide) = (self.channels, padded(self.channels));
        let (keys, many) = (self.keys, padded(self.keys));
        let block = BLOCK.min(self.queries);
        let rows_of_keys = keys * wide;
        let lengths = [
            channels * many, // keys, transposed
            channels * many, // values, transposed
            rows_of_keys,    // keys
            many,            // bias
            block * wide,    // queries
            block * wide,    // upstream
            block * many,    // probabilities
            block * many,    // gradient of the scores
            block * wide,    // gradient of the queries
            rows_of_keys,    // gradient of the keys
            rows_of_keys,    // gradient of the values
        ];
        with_scratch(lengths.iter().sum(), |scratch| {
            let [
                keys_turned,
                values_turned,
                key_rows,
                bias,
                query,
                above,
                chances,
                slopes,
                query_sums,
                key_sums,
                value_sums,
            ] = split(scratch, lengths);
            let [query_place, key_place, value_place] = self.places;
            pack_turned(keys_turned, self.key_value, key_place, keys, channels);
            pack_turned(values_turned, self.key_value, value_place, keys, channels);
            pack(key_rows, self.key_value, key_place, 0..keys, channels, 1.0);
            self.lay_bias(bias);
            key_sums.fill(0.0);
            value_sums.fill(0.0);
            for rows in self.blocks() {
                let count = rows.len();
                pack(query, self.query, query_place, rows.clone(), channels, self.scale());
                pack(above, upstream, self.output, rows.clone(), channels, 1.0);
                let to_keys = [count, channels, many];
                multiply_small(chances, to_keys, Left::plain(query, wide), keys_turned, false);
                multiply_small(slopes, to_keys, Left::plain(above, wide), values_turned, false);
                for (index, row) in rows.clone().enumerate() {
                    let span = index * many..(index + 1) * many;
                    let place = self.output.row(row, channels);
                    let shared = dot(&upstream[place.clone()], &output[place]);
                    let logarithm = logarithms[self.logarithms + row];
                    let (chances, slopes) = (&mut chances[span.clone()], &mut slopes[span]);
                    score_gradient(chances, slopes, bias, logarithm, shared);
                }
                let to_channels = [keys, count, wide];
                let turned = [&*chances, &*slopes].map(|scores| Left::transposed(scores, many));
                multiply_small(value_sums, to_channels, turned[0], above, true);
                multiply_small(key_sums, to_channels, turned[1], query, true);
                if let Some(target) = query_target {
                    let sizes = [count, keys, wide];
                    multiply_small(query_sums, sizes, Left::plain(slopes, many), key_rows, false);
                    target.put(query_place, rows, channels, query_sums, self.scale());
                }
            }
            if let Some(target) = key_target {
                target.put(key_place, 0..keys, channels, key_sums, 1.0);
                target.put(value_place, 0..keys, channels, value_sums, 1.0);
            }
        });
    }
}

vectorized! {
    /// Copies rows, times `factor`, into rows padded with zeros.
    fn pack(
        target: &mut [f32],
        source: &[f32],
        place: Strided,
        rows: Range<usize>,
        channels: usize,
        factor: f32,
    ) {
        for (target, row) in target.chunks_exact_mut(padded(channels)).zip(rows) {
            let (used, rest) = target.split_at_mut(channels);
            for (target, value) in used.iter_mut().zip(&source[place.row(row, channels)]) {
                *target = factor * value;
            }
            rest.fill(0.0);
        }
    }

    /// Copies rows into columns of a matrix [channels, padded rows], zeros in the padding.
    fn pack_turned(target: &mut [f32], source: &[f32], place: Strided, rows: usize, channels: usize) {
        let many = padded(rows);
        for first in (0..many).step_by(LANE) {
            for channel in 0..channels {
                let lane = &mut target[channel * many + first..][..LANE];
                for (step, target) in lane.iter_mut().enumerate() {
                    let row = first + step;
                    *target =
                        if row < rows { source[place.start + row * place.stride + channel] } else { 0.0 };
                }
            }
        }
    }

    /// Turns scores into unnormalized probabilities; returns log Σ exp and 1/Σ.
    fn softmax_row(scores: &mut [f32], bias: &[f32]) -> (f32, f32) {
        let bias = &bias[..scores.len()];
        let mut highest = [f32::NEG_INFINITY; LANE];
        for (scores, bias) in scores.chunks_exact_mut(LANE).zip(bias.chunks_exact(LANE)) {
            for lane in 0..LANE {
                scores[lane] += bias[lane];
                let score = scores[lane];
                highest[lane] = if score > highest[lane] { score } else { highest[lane] };
            }
        }
        let highest = highest.into_iter().fold(f32::NEG_INFINITY, f32::max);
        for (score, bias) in scores.iter_mut().zip(bias) {
            let chance = exponential::<FUSED>(*score - highest);
            *score = if *bias < 0.0 { 0.0 } else { chance };
        }
        let total = lane_sum(scores.len(), |index| scores[index]);
        if total == 0.0 { (0.0, 0.0) } else { (highest + total.ln(), 1.0 / total) }
    }

    /// Computes the probabilities and the gradient of the scores from scores and dO·Vᵀ, in place.
    fn score_gradient(
        scores: &mut [f32],
        slopes: &mut [f32],
        bias: &[f32],
        logarithm: f32,
        shared: f32,
    ) {
        for ((score, slope), bias) in scores.iter_mut().zip(slopes).zip(bias) {
            let chance = exponential::<FUSED>(*score - logarithm);
            *score = if *bias < 0.0 { 0.0 } else { chance };
            *slope = *score * (*slope - shared);
        }
    }
}
