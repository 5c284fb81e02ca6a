//! Fusion: `s_i = Σ_m λ_m·s̃_i^m`, with the selection of the best in the same pass.

use crate::selection::ChunkTopK;
use crate::set_term::SetBuffers;
use crate::standardization::{MISSING, Statistics};
use pulp::{Simd, WithSimd};

/// One cue's term of the fused score, `λ/(σ + δ)·(s − μ)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CueTerm {
    factor: f32,
    mean: f32,
    /// Whether some searched records have no score for the cue.
    has_missing: bool,
}

impl CueTerm {
    /// `None` if the cue has no weight or no score at all.
    pub(crate) fn new(
        statistics: Option<Statistics>,
        weight: f32,
        searched: usize,
    ) -> Option<Self> {
        let statistics = statistics.filter(|_| weight > 0.0)?;
        Some(Self {
            factor: weight * statistics.inverse_deviation(),
            mean: statistics.mean,
            has_missing: statistics.count < searched,
        })
    }
}

/// The fused score of one record from its raw scores: the reference.
pub fn fuse_reference(statistics: &[Option<Statistics>], weights: &[f32], raw: &[f32]) -> f32 {
    let mut fused = 0.0;
    for ((statistics, weight), &score) in statistics.iter().zip(weights).zip(raw) {
        if let Some(statistics) = statistics
            && *weight > 0.0
        {
            fused += weight * statistics.standardize(score);
        }
    }
    fused
}

/// The raw scores of all cues, fused as they are read.
#[derive(Clone, Copy)]
pub(crate) struct FusedScores<'a> {
    /// For each cue its term, if it has one.
    pub(crate) terms: &'a [Option<CueTerm>],
    /// Raw scores in pool order, cue after cue.
    pub(crate) raw: &'a [f32],
    /// Records searched.
    pub(crate) length: usize,
}

impl FusedScores<'_> {
    /// The fused scores of the vector of records that starts at `first`.
    #[inline(always)]
    fn fused<S: Simd>(&self, simd: S, first: usize) -> S::f32s {
        let zero = simd.splat_f32s(0.0);
        let missing = simd.splat_f32s(MISSING);
        let mut fused = zero;
        for (cue, term) in self.terms.iter().enumerate() {
            let Some(term) = term else { continue };
            let scores = &self.raw[cue * self.length..][..self.length];
            let scores = simd.partial_load_f32s(&scores[first..]);
            let distance = simd.sub_f32s(scores, simd.splat_f32s(term.mean));
            let distance = if term.has_missing {
                simd.select_f32s(simd.equal_f32s(scores, missing), zero, distance)
            } else {
                distance
            };
            fused = simd.mul_add_e_f32s(distance, simd.splat_f32s(term.factor), fused);
        }
        fused
    }
}

/// Passes possible winners to the selection.
pub(crate) struct FuseAndSelect<'a> {
    pub(crate) scores: FusedScores<'a>,
    pub(crate) selection: &'a mut ChunkTopK,
}

impl WithSimd for FuseAndSelect<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { scores: all, selection } = self;
        let lanes = S::F32_LANES;
        for first in (0..all.length).step_by(lanes) {
            let fused = all.fused(simd, first);
            let threshold = simd.splat_f32s(selection.threshold());
            // "Not below" rather than "at least": NaN must pass and be counted.
            let below = simd.less_than_f32s(fused, threshold);
            if simd.first_true_m32s(simd.not_m32s(below)) < lanes {
                let scores = [fused];
                let scores: &[f32] = bytemuck::cast_slice(&scores);
                for (&score, position) in scores.iter().zip(first..all.length) {
                    selection.push(score, position);
                }
            }
        }
    }
}

/// Shortlists every record whose score is at least `threshold`.
pub(crate) struct FuseAndShortlist<'a> {
    pub(crate) scores: FusedScores<'a>,
    pub(crate) threshold: f32,
    pub(crate) shortlist: &'a mut SetBuffers,
}

impl WithSimd for FuseAndShortlist<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { scores: all, threshold, shortlist } = self;
        let lanes = S::F32_LANES;
        let thresholds = simd.splat_f32s(threshold);
        for first in (0..all.length).step_by(lanes) {
            let fused = all.fused(simd, first);
            let reaches = simd.greater_than_or_equal_f32s(fused, thresholds);
            if simd.first_true_m32s(reaches) < lanes {
                let scores = [fused];
                let scores: &[f32] = bytemuck::cast_slice(&scores);
                for (&score, position) in scores.iter().zip(first..all.length) {
                    if score >= threshold {
                        shortlist.push(score, position);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selection::chunk_top_k_reference;
    use proptest::prelude::*;
    use pulp::Arch;

    proptest! {
        #[test]
        fn fused_selection_agrees_with_the_reference(
            rows in prop::collection::vec(
                (-1.0f32..1.0, prop_oneof![8 => -1.0f32..1.0, 1 => Just(MISSING), 1 => Just(f32::NAN)]),
                0..200,
            ),
            balance in 0.0f32..1.0,
            slots in 0usize..12,
            chunk_size in 1usize..20,
        ) {
            let (first, second): (Vec<f32>, Vec<f32>) = rows.iter().copied().unzip();
            let statistics = [Statistics::reference(&first), Statistics::reference(&second)];
            let weights = [balance, 1.0 - balance];
            let expected: Vec<f32> = rows
                .iter()
                .map(|&(first, second)| fuse_reference(&statistics, &weights, &[first, second]))
                .collect();
            let length = rows.len();
            let terms = [0, 1].map(|cue| CueTerm::new(statistics[cue], weights[cue], length));
            let raw = [first, second].concat();
            let mut selection = ChunkTopK::default();
            selection.begin(slots, chunk_size);
            let scores = FusedScores { terms: &terms, raw: &raw, length };
            Arch::new().dispatch(FuseAndSelect { scores, selection: &mut selection });
            let plain = chunk_top_k_reference(&expected, chunk_size, slots);
            let fast = selection.finish();
            prop_assert_eq!(fast.len(), plain.len());
            for (fast, plain) in fast.iter().zip(&plain) {
                prop_assert!((fast.score - plain.score).abs() < 1e-3 * (1.0 + plain.score.abs()));
                prop_assert!((fast.score - expected[fast.position]).abs() < 1e-3 * (1.0 + plain.score.abs()));
            }
        }
    }
}
