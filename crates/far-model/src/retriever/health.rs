//! Numbers that say whether a retriever learns, for the log of a run.
//!
//! Watch the utility gap and the rank correlation. Divergence and effective size are no test by
//! themselves: under Adam a divergence of 1e-4 teaches as well as one of 1. A large divergence that does
//! not fall means that noise decides the ranking.

use crate::retriever::candidate_distillation::{CandidateBatch, PoolBatch};
use crate::{DistillationTarget, RetrieverScores};
use far_tensor::{Device, Tape, Tensor};
use serde::{Deserialize, Serialize};

/// Means over the pools of one kind that have a choice.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PoolHealth {
    /// KL(q ‖ r) in nats.
    pub divergence: f64,
    /// 1/Σq²: how many candidates the target spreads over.
    pub effective_size: f64,
    /// The largest q.
    pub largest: f64,
    /// Spearman's rank correlation of scores and utilities; 0 where no pool has a ranking of both.
    pub rank_correlation: f64,
    /// The best utility less the mean, in nats: whether the world model tells good memories from bad.
    pub utility_gap: f64,
}

/// How the retriever stands, before the update of the same step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RetrieverHealth {
    /// The recalled memories.
    pub global: Option<PoolHealth>,
    /// The chunk of one of them.
    pub local: Option<PoolHealth>,
    /// λ of each cue, the mean over examples.
    pub weights: Vec<f64>,
}

impl RetrieverHealth {
    /// Measures the scores of a batch and its candidates.
    ///
    /// # Errors
    /// If the candidates were made for a larger batch.
    pub fn measure(
        scores: &RetrieverScores,
        candidates: &CandidateBatch,
        target: DistillationTarget,
    ) -> far_tensor::Result<Self> {
        let mut tape = Tape::inference(&Device::cpu());
        let detached = scores.detached();
        let mut of = |pools: &Option<PoolBatch>| -> far_tensor::Result<Option<PoolHealth>> {
            let Some(pools) = pools else { return Ok(None) };
            let scores = pools.scores(&mut tape, &detached)?;
            let mask = Some(&pools.mask);
            let target = target.distribution(&mut tape, &scores, &pools.utilities, mask)?;
            let divergences = tape.row_divergence(&target, &scores, mask)?;
            Ok(Some(PoolHealth::measure(pools, &scores, &target, &divergences)))
        };
        let (global, local) = (of(&candidates.global)?, of(&candidates.local)?);
        let (rows, cues) = (scores.weights.shape().rows(), scores.weights.shape().last());
        let mean = |cue: usize| {
            let weights = scores.weights.values().iter().skip(cue).step_by(cues);
            weights.map(|weight| f64::from(*weight)).sum::<f64>() / rows as f64
        };
        Ok(Self { global, local, weights: (0..cues).map(mean).collect() })
    }
}

impl PoolHealth {
    fn measure(pools: &PoolBatch, scores: &Tensor, target: &Tensor, divergences: &Tensor) -> Self {
        let width = pools.mask.shape().last();
        let count = pools.mask.shape().rows() as f64;
        let (mut effective_size, mut largest, mut utility_gap) = (0.0, 0.0, 0.0);
        let mut correlations = Vec::new();
        for (row, mask) in pools.mask.values().chunks_exact(width).enumerate() {
            // Candidates come first in a row, padding after them.
            let candidates = mask.iter().filter(|there| **there != 0.0).count();
            let part = |tensor: &Tensor| -> Vec<f64> {
                let values = &tensor.values()[row * width..][..candidates];
                values.iter().map(|value| f64::from(*value)).collect()
            };
            let (scores, target, utilities) = (part(scores), part(target), part(&pools.utilities));
            let most = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            effective_size += 1.0 / target.iter().map(|q| q * q).sum::<f64>();
            largest += most(&target);
            utility_gap += most(&utilities) - utilities.iter().sum::<f64>() / candidates as f64;
            correlations.extend(rank_correlation(&scores, &utilities));
        }
        let divergence = divergences.values().iter().map(|kl| f64::from(*kl)).sum::<f64>();
        Self {
            divergence: divergence / count,
            effective_size: effective_size / count,
            largest: largest / count,
            rank_correlation: correlations.iter().sum::<f64>() / correlations.len().max(1) as f64,
            utility_gap: utility_gap / count,
        }
    }
}

/// Spearman's correlation: that of the ranks, ties sharing the mean of theirs. `None` where all
/// values of one side are equal.
fn rank_correlation(first: &[f64], second: &[f64]) -> Option<f64> {
    let (first, second) = (ranks(first), ranks(second));
    let center = (first.len() as f64 - 1.0) / 2.0;
    let product = |a: &[f64], b: &[f64]| -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - center) * (b - center)).sum()
    };
    let size = (product(&first, &first) * product(&second, &second)).sqrt();
    (size > 0.0).then(|| product(&first, &second) / size)
}

/// The rank of each value from 0, ties sharing the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| *other < value).count();
        let equal = values.iter().filter(|other| *other == value).count();
        below as f64 + (equal as f64 - 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_correlation_knows_order_and_ties() {
        let of = |a: &[f64], b: &[f64]| rank_correlation(a, b);
        assert_eq!(of(&[1.0, 2.0, 9.0], &[-5.0, 0.0, 0.1]), Some(1.0));
        assert_eq!(of(&[1.0, 2.0, 9.0], &[3.0, 2.0, 1.0]), Some(-1.0));
        assert_eq!(of(&[1.0, 1.0], &[3.0, 2.0]), None);
        // Ranks 0, 1.5, 1.5, 3 and 0, 1, 2, 3: covariance 4.5, sizes 4.5 and 5.
        let found = of(&[1.0, 2.0, 2.0, 7.0], &[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert!((found - 4.5 / 22.5f64.sqrt()).abs() < 1e-12);
    }
}
