//! The key cues: `s_i = cos(k_i, q)` with `q = adapter(h)`, the caller's query embedding `h`.
//!
//! Stored keys have unit length and the query is scaled to it, so a cosine is a dot product and the
//! scan is one pass over the keys at memory bandwidth.

use crate::key::{Keys, normalize};
use crate::layer::{Layer, two_layers, two_layers_reference};
use pulp::Simd;

/// What is applied to a query embedding before the comparison.
#[derive(Clone, Debug, PartialEq)]
pub enum QueryAdapter {
    /// Nothing: the embedding is compared as it is.
    Identity,
    /// `W₂·gelu(W₁·h + b₁) + b₂`.
    Network([Layer; 2]),
    /// `h + W₂·gelu(W₁·h + b₁) + b₂`: starts as the identity when the second layer is zero.
    Residual([Layer; 2]),
}

impl QueryAdapter {
    /// The adapted query at unit length, in plain loops: the reference.
    pub fn apply_reference(&self, embedding: &[f32]) -> Vec<f32> {
        let mut adapted = match self {
            Self::Identity => embedding.to_vec(),
            Self::Network(layers) | Self::Residual(layers) => {
                two_layers_reference(layers, embedding)
            }
        };
        if let Self::Residual(_) = self {
            adapted.iter_mut().zip(embedding).for_each(|(sum, value)| *sum += value);
        }
        normalize(&mut adapted);
        adapted
    }

    /// The adapted query at unit length.
    pub(crate) fn apply(&self, embedding: &[f32], hidden: &mut Vec<f32>, adapted: &mut Vec<f32>) {
        adapted.clear();
        match self {
            Self::Identity => adapted.extend_from_slice(embedding),
            Self::Network(layers) | Self::Residual(layers) => {
                two_layers(layers, embedding, hidden, adapted);
            }
        }
        if let Self::Residual(_) = self {
            adapted.iter_mut().zip(embedding).for_each(|(sum, value)| *sum += value);
        }
        normalize(adapted);
    }
}

/// `products[row] = keys[row]·query` for row-major `keys`, one row after the other: the hardware
/// prefetcher follows a plain forward scan best.
#[inline(always)]
pub(crate) fn dot_rows<S: Simd>(simd: S, keys: &[f32], query: &[f32], products: &mut [f32]) {
    debug_assert_eq!(keys.len(), query.len() * products.len());
    for (product, row) in products.iter_mut().zip(keys.chunks_exact(query.len())) {
        *product = dot(simd, row, query);
    }
}

/// Independent sums within a row, so that additions need not wait for each other.
const SUMS: usize = 4;

/// The dot product of two vectors of equal length.
#[inline(always)]
fn dot<S: Simd>(simd: S, left: &[f32], right: &[f32]) -> f32 {
    let ((left, left_rest), (right, right_rest)) = (S::as_simd_f32s(left), S::as_simd_f32s(right));
    let mut sums = [simd.splat_f32s(0.0); SUMS];
    let (mut lefts, mut rights) = (left.chunks_exact(SUMS), right.chunks_exact(SUMS));
    for (left, right) in lefts.by_ref().zip(rights.by_ref()) {
        for place in 0..SUMS {
            sums[place] = simd.mul_add_e_f32s(left[place], right[place], sums[place]);
        }
    }
    let remainder = lefts.remainder().iter().zip(rights.remainder());
    for (sum, (&left, &right)) in sums.iter_mut().zip(remainder) {
        *sum = simd.mul_add_e_f32s(left, right, *sum);
    }
    if !left_rest.is_empty() {
        let (left, right) = (simd.partial_load_f32s(left_rest), simd.partial_load_f32s(right_rest));
        sums[SUMS - 1] = simd.mul_add_e_f32s(left, right, sums[SUMS - 1]);
    }
    let [first, second, third, fourth] = sums;
    let sum = simd.add_f32s(simd.add_f32s(first, second), simd.add_f32s(third, fourth));
    simd.reduce_sum_f32s(sum)
}

/// Cosines of a run of stored keys with a unit query. `widened` is a buffer for half-precision
/// rows.
#[inline(always)]
pub(crate) fn cosines<S: Simd>(
    simd: S,
    keys: Keys<'_>,
    query: &[f32],
    widened: &mut Vec<f32>,
    scores: &mut [f32],
) {
    match keys {
        Keys::F32(keys) => dot_rows(simd, keys, query, scores),
        Keys::F16(_) => {
            // A few rows at a time, so that the widened copy stays in the first-level cache.
            let step = 8;
            let dimension = query.len();
            widened.resize(step * dimension, 0.0);
            for (group, scores) in scores.chunks_mut(step).enumerate() {
                let first = group * step * dimension;
                let count = scores.len() * dimension;
                let widened = &mut widened[..count];
                keys.range(first, first + count).copy_to(widened);
                dot_rows(simd, widened, query, scores);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruction_set::on_each;
    use proptest::prelude::*;
    use pulp::WithSimd;

    struct Cosines<'a>(Keys<'a>, &'a [f32], usize);

    impl WithSimd for Cosines<'_> {
        type Output = Vec<f32>;

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) -> Vec<f32> {
            let mut scores = vec![0.0; self.2];
            cosines(simd, self.0, self.1, &mut Vec::new(), &mut scores);
            scores
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn vector_and_plain_dot_products_agree(
            rows in 0usize..12,
            query in prop::collection::vec(-1.0f32..1.0, 1..70),
            seed in any::<u32>(),
        ) {
            let noise = |place: usize| ((place as u32).wrapping_mul(2_654_435_761) ^ seed) as f32 / u32::MAX as f32 - 0.5;
            let keys: Vec<f32> = (0..rows * query.len()).map(noise).collect();
            let halves: Vec<half::f16> = keys.iter().map(|&key| half::f16::from_f32(key)).collect();
            for keys in [Keys::F32(&keys), Keys::F16(&halves)] {
                for scores in on_each(|| Cosines(keys, &query, rows)) {
                    for (row, score) in scores.iter().enumerate() {
                        let row = keys.range(row * query.len(), (row + 1) * query.len());
                        prop_assert!((row.dot(&query) - score).abs() < 1e-5);
                    }
                }
            }
        }

        #[test]
        fn adapted_queries_agree_with_the_reference(
            embedding in prop::collection::vec(-1.0f32..1.0, 24..25),
            weights in prop::collection::vec(-0.5f32..0.5, 2 * 24 * 19 + 19 + 24),
        ) {
            let (first, rest) = weights.split_at(24 * 19);
            let (second, rest) = rest.split_at(24 * 19);
            let (first_bias, second_bias) = rest.split_at(19);
            let layers = [
                Layer { weight: first.to_vec(), bias: first_bias.to_vec() },
                Layer { weight: second.to_vec(), bias: second_bias.to_vec() },
            ];
            for adapter in [
                QueryAdapter::Identity,
                QueryAdapter::Network(layers.clone()),
                QueryAdapter::Residual(layers),
            ] {
                let mut adapted = Vec::new();
                adapter.apply(&embedding, &mut Vec::new(), &mut adapted);
                for (fast, plain) in adapted.iter().zip(adapter.apply_reference(&embedding)) {
                    prop_assert!((fast - plain).abs() < 1e-5);
                }
            }
        }
    }
}
