//! Masked standardization: `s̃ = (s − μ)/(σ + δ)` over the searched memory, cue by cue.
//!
//! A record without a key for the cue has the raw score [`MISSING`]: it is left out of the
//! statistics and its standardized score is 0, the mean. A NaN score is left out too, but stays
//! NaN, so that the record is never recalled. σ is the population deviation √(var + 10⁻¹²).

use pulp::Simd;

/// δ: keeps noise from being amplified when all scores of a cue are nearly equal.
pub const DEVIATION_FLOOR: f32 = 1e-4;

/// Inside the root: keeps the derivative finite where all scores are equal.
const VARIANCE_FLOOR: f64 = 1e-12;

/// The raw score of a record that has no key for the cue.
pub const MISSING: f32 = f32::NEG_INFINITY;

/// Statistics of one cue's raw scores over the searched memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statistics {
    /// How many records have a score.
    pub count: usize,
    /// μ.
    pub mean: f32,
    /// σ.
    pub deviation: f32,
    /// The largest score.
    pub maximum: f32,
}

impl Statistics {
    /// The statistics by two plain passes: the reference. `None` if no record has a score.
    pub fn reference(scores: &[f32]) -> Option<Self> {
        let valid = || scores.iter().filter(|score| **score > MISSING).map(|&s| f64::from(s));
        let count = valid().count();
        if count == 0 {
            return None;
        }
        let mean = valid().sum::<f64>() / count as f64;
        let variance = valid().map(|score| (score - mean).powi(2)).sum::<f64>() / count as f64;
        let maximum = valid().fold(f64::NEG_INFINITY, f64::max);
        Some(Self {
            count,
            mean: mean as f32,
            deviation: (variance + VARIANCE_FLOOR).sqrt() as f32,
            maximum: maximum as f32,
        })
    }

    /// The standardized score of a raw one.
    pub fn standardize(&self, score: f32) -> f32 {
        if score == MISSING { 0.0 } else { (score - self.mean) * self.inverse_deviation() }
    }

    /// `1/(σ + δ)`.
    pub(crate) fn inverse_deviation(&self) -> f32 {
        1.0 / (self.deviation + DEVIATION_FLOOR)
    }
}

/// Sums over one part of the memory, relative to the part's first score: equal scores give a
/// deviation of exactly zero, and large means cost no precision.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PartStatistics {
    count: f32,
    pivot: f32,
    sum: f32,
    squares: f32,
    maximum: f32,
}

impl PartStatistics {
    /// The sums of a few hundred scores.
    #[inline(always)]
    pub(crate) fn of<S: Simd>(simd: S, scores: &[f32]) -> Self {
        let mut pivot = MISSING;
        for &score in scores {
            if score > MISSING {
                pivot = score;
                break;
            }
        }
        if pivot == MISSING {
            return Self::default();
        }
        let (vectors, rest) = S::as_simd_f32s(scores);
        let mut sums = Sums::<S>::new(simd, pivot);
        for &scores in vectors {
            sums.add(simd, scores);
        }
        if !rest.is_empty() {
            // Lanes past the end must not count as scores of zero.
            let mut last = [simd.splat_f32s(MISSING)];
            bytemuck::cast_slice_mut::<S::f32s, f32>(&mut last)[..rest.len()].copy_from_slice(rest);
            sums.add(simd, last[0]);
        }
        Self {
            count: simd.reduce_sum_f32s(sums.count),
            pivot,
            sum: simd.reduce_sum_f32s(sums.sum),
            squares: simd.reduce_sum_f32s(sums.squares),
            maximum: simd.reduce_max_f32s(sums.maximum),
        }
    }
}

/// The sums of each lane.
struct Sums<S: Simd> {
    pivot: S::f32s,
    count: S::f32s,
    sum: S::f32s,
    squares: S::f32s,
    maximum: S::f32s,
}

impl<S: Simd> Sums<S> {
    #[inline(always)]
    fn new(simd: S, pivot: f32) -> Self {
        let (zero, pivot) = (simd.splat_f32s(0.0), simd.splat_f32s(pivot));
        Self { pivot, count: zero, sum: zero, squares: zero, maximum: pivot }
    }

    #[inline(always)]
    fn add(&mut self, simd: S, scores: S::f32s) {
        let zero = simd.splat_f32s(0.0);
        let valid = simd.greater_than_f32s(scores, simd.splat_f32s(MISSING));
        let distance = simd.select_f32s(valid, simd.sub_f32s(scores, self.pivot), zero);
        let one = simd.select_f32s(valid, simd.splat_f32s(1.0), zero);
        self.count = simd.add_f32s(self.count, one);
        self.sum = simd.add_f32s(self.sum, distance);
        self.squares = simd.mul_add_e_f32s(distance, distance, self.squares);
        let eligible = simd.select_f32s(valid, scores, self.pivot);
        self.maximum = simd.max_f32s(self.maximum, eligible);
    }
}

/// The statistics of all parts, in their order; `None` if no record has a score. The result depends
/// on the parts but not on which thread summed them.
pub(crate) fn merge<'a>(parts: impl Iterator<Item = &'a PartStatistics>) -> Option<Statistics> {
    let (mut count, mut mean, mut squares) = (0.0f64, 0.0f64, 0.0f64);
    let mut maximum = f32::NEG_INFINITY;
    for part in parts.filter(|part| part.count > 0.0) {
        let part_count = f64::from(part.count);
        let shift = f64::from(part.sum) / part_count;
        let part_mean = f64::from(part.pivot) + shift;
        let part_squares = f64::from(part.squares) - f64::from(part.sum) * shift;
        let total = count + part_count;
        let distance = part_mean - mean;
        squares += part_squares.max(0.0) + distance * distance * count * part_count / total;
        mean += distance * part_count / total;
        count = total;
        maximum = maximum.max(part.maximum);
    }
    (count > 0.0).then(|| Statistics {
        count: count as usize,
        mean: mean as f32,
        deviation: (squares / count + VARIANCE_FLOOR).sqrt() as f32,
        maximum,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruction_set::on_each;
    use proptest::prelude::*;
    use pulp::WithSimd;

    struct Parts<'a>(&'a [f32], usize);

    impl WithSimd for Parts<'_> {
        type Output = Vec<PartStatistics>;

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
            self.0.chunks(self.1).map(|part| PartStatistics::of(simd, part)).collect()
        }
    }

    /// The statistics, which must agree within rounding on every instruction set.
    fn merged(scores: &[f32], part: usize) -> Option<Statistics> {
        let mut results = on_each(|| Parts(scores, part)).into_iter().map(|p| merge(p.iter()));
        let first = results.next().expect("at least the scalar code");
        for other in results {
            match (first, other) {
                (Some(first), Some(other)) => {
                    assert_eq!((first.count, first.maximum), (other.count, other.maximum));
                    assert!((first.mean - other.mean).abs() < 1e-6);
                    assert!((first.deviation - other.deviation).abs() < 1e-6);
                }
                (first, other) => assert_eq!(first, other),
            }
        }
        first
    }

    proptest! {
        #[test]
        fn sums_by_parts_agree_with_two_passes(
            scores in prop::collection::vec(
                prop_oneof![6 => 0.8f32..0.9, 1 => Just(MISSING), 1 => Just(f32::NAN)], 0..600),
            part in 1usize..300,
        ) {
            match (merged(&scores, part), Statistics::reference(&scores)) {
                (None, None) => {}
                (Some(fast), Some(plain)) => {
                    prop_assert_eq!(fast.count, plain.count);
                    prop_assert_eq!(fast.maximum, plain.maximum);
                    prop_assert!((fast.mean - plain.mean).abs() < 1e-6);
                    prop_assert!((fast.deviation - plain.deviation).abs() < 1e-6);
                }
                (fast, plain) => prop_assert!(false, "{fast:?} {plain:?}"),
            }
        }
    }

    #[test]
    fn equal_scores_standardize_to_zero_and_missing_ones_to_the_mean() {
        let statistics = merged(&[0.3; 1000], 256).expect("scores");
        assert_eq!(statistics.standardize(0.3), 0.0);
        let mixed = merged(&[0.1, MISSING, 0.3, f32::NAN], 256).expect("scores");
        assert_eq!(mixed.count, 2);
        assert_eq!(mixed.standardize(MISSING), 0.0);
        assert!(mixed.standardize(f32::NAN).is_nan());
    }
}
