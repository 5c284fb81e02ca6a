//! The gate: how it weighs the cues for one query.
//!
//! `logit_m = w·[max_m, μ_m, σ_m, onehot_m, Δt, Δt·onehot_m]`, and λ is the softmax of the logits
//! over the available cues. The statistics are those of the raw scores. Δt is the same for all cues
//! and `w` is shared, so its plain term shifts every logit equally and cannot change λ; through the
//! products `Δt·onehot_m` the stride can choose between cues. They are optional.

use crate::standardization::Statistics;

/// The learned cue weighting.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// `[max, mean, deviation, onehot × cues, Δt, (Δt·onehot × cues)]`.
    weight: Vec<f32>,
    cues: usize,
    /// Seconds of stride that count as 1.
    stride_scale: f32,
}

impl Gate {
    /// Numbers in the weight for this many cues.
    pub fn weight_count(cues: usize, stride_products: bool) -> usize {
        4 + cues + if stride_products { cues } else { 0 }
    }

    /// A gate from a weight whose length was checked.
    pub(crate) fn new(weight: Vec<f32>, cues: usize, stride_scale: f32) -> Self {
        Self { weight, cues, stride_scale }
    }

    pub(crate) fn weight(&self) -> &[f32] {
        &self.weight
    }

    /// Writes λ of each cue into `weights`. A cue with statistics `None` is not available and gets
    /// 0. The weights sum to 1 if any cue is available.
    pub fn weights(&self, statistics: &[Option<Statistics>], stride: f32, weights: &mut [f32]) {
        let time = stride / self.stride_scale;
        for (cue, (weight, statistics)) in weights.iter_mut().zip(statistics).enumerate() {
            *weight = statistics.map_or(f32::NEG_INFINITY, |s| {
                let [max, mean, deviation] = [self.weight[0], self.weight[1], self.weight[2]];
                let product = self.weight.get(4 + self.cues + cue).copied().unwrap_or(0.0);
                max * s.maximum
                    + mean * s.mean
                    + deviation * s.deviation
                    + self.weight[3 + cue]
                    + self.weight[3 + self.cues] * time
                    + product * time
            });
        }
        softmax(weights);
    }
}

/// Softmax in place; entries of −∞ become 0, even if all are −∞.
pub(crate) fn softmax(logits: &mut [f32]) {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if largest == f32::NEG_INFINITY {
        return logits.fill(0.0);
    }
    logits.iter_mut().for_each(|logit| *logit = (*logit - largest).exp());
    let sum: f32 = logits.iter().sum();
    logits.iter_mut().for_each(|logit| *logit /= sum);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statistics(mean: f32, deviation: f32, maximum: f32) -> Option<Statistics> {
        Some(Statistics { count: 10, mean, deviation, maximum })
    }

    #[test]
    fn zero_weight_shares_equally_and_an_unavailable_cue_gets_nothing() {
        let gate = Gate::new(vec![0.0; Gate::weight_count(2, true)], 2, 6.4);
        let mut weights = [9.0; 2];
        let both = [statistics(0.1, 0.2, 0.9), statistics(0.5, 0.1, 0.6)];
        gate.weights(&both, 1.0, &mut weights);
        assert_eq!(weights, [0.5, 0.5]);
        gate.weights(&[None, both[1]], 1.0, &mut weights);
        assert_eq!(weights, [0.0, 1.0]);
        gate.weights(&[None, None], 1.0, &mut weights);
        assert_eq!(weights, [0.0, 0.0]);
    }

    #[test]
    fn the_logit_is_the_printed_sum() {
        let weight = vec![0.5, -1.0, 2.0, 0.3, -0.2, 7.0, 0.4, -0.6];
        let gate = Gate::new(weight, 2, 2.0);
        let mut weights = [0.0; 2];
        gate.weights(&[statistics(0.1, 0.2, 0.9), statistics(0.5, 0.1, 0.6)], 3.0, &mut weights);
        let first: f32 = 0.45 - 0.1 + 0.4 + 0.3 + 7.0 * 1.5 + 0.4 * 1.5;
        let second: f32 = 0.3 - 0.5 + 0.2 - 0.2 + 7.0 * 1.5 - 0.6 * 1.5;
        let expected = first.exp() / (first.exp() + second.exp());
        assert!((weights[0] - expected).abs() < 1e-5 && (weights[1] - 1.0 + expected).abs() < 1e-5);
    }

    #[test]
    fn the_stride_alone_cannot_choose_without_its_products() {
        let gate = Gate::new(vec![0.1, 0.2, 0.3, 0.4, 0.5, 3.0], 2, 1.0);
        let both = [statistics(0.1, 0.2, 0.9), statistics(0.5, 0.1, 0.6)];
        let (mut near, mut far) = ([0.0; 2], [0.0; 2]);
        gate.weights(&both, 0.1, &mut near);
        gate.weights(&both, 5.0, &mut far);
        assert!((near[0] - far[0]).abs() < 1e-5);
    }
}
