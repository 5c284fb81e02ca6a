//! The posterior over candidates and the divergence that teaches the retriever.
//!
//! With standardized scores s and utilities û of the candidates of one pool: r = softmax(s) is what
//! the retriever would recall, q = softmax(s + û) is what it should have recalled once the future is
//! known. The loss is KL(q ‖ r) with q held fixed; its gradient by the scores is r − q, which is that
//! of −ln Σ r·exp(û), the marginal likelihood. Equal utilities leave q = r and teach nothing.

use far_tensor::{Result, Tape, Tensor};
use serde::{Deserialize, Serialize};

/// What the retriever is drawn to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DistillationTarget {
    /// softmax(s + û): the posterior of the latent-context model. The default.
    #[default]
    Posterior,
    /// softmax(û): as if the retriever had known nothing before. It moves the scores even where all
    /// utilities are equal, toward recalling everything alike.
    UtilityOnly,
}

impl DistillationTarget {
    /// The target distribution of pools [B, N], as data; `mask` hides slots without a candidate.
    ///
    /// # Errors
    /// If the shapes differ.
    pub fn distribution(
        self,
        tape: &mut Tape,
        scores: &Tensor,
        utilities: &Tensor,
        mask: Option<&Tensor>,
    ) -> Result<Tensor> {
        let informed = match self {
            Self::Posterior => tape.add(&scores.detach(), &utilities.detach())?,
            Self::UtilityOnly => utilities.detach(),
        };
        tape.softmax(&informed, mask)
    }
}

/// KL(q ‖ r) of pools [B, N], the mean over pools; `mask` hides slots without a candidate.
///
/// # Errors
/// If the shapes differ.
pub fn posterior_divergence(
    tape: &mut Tape,
    scores: &Tensor,
    utilities: &Tensor,
    mask: Option<&Tensor>,
    target: DistillationTarget,
) -> Result<Tensor> {
    let target = target.distribution(tape, scores, utilities, mask)?;
    tape.divergence(&target, scores, mask)
}

#[cfg(test)]
mod tests {
    use super::*;
    use far_tensor::Device;

    fn gradient(utilities: [f32; 3], target: DistillationTarget) -> (f32, Vec<f32>) {
        let mut tape = Tape::recording(&Device::cpu());
        let scores = Tensor::from_slice(&[0.5, -0.2, 0.1], [1, 3]).unwrap();
        let scores = tape.variable(&scores);
        let utilities = Tensor::from_slice(&utilities, [1, 3]).unwrap();
        let loss = posterior_divergence(&mut tape, &scores, &utilities, None, target).unwrap();
        let value = loss.item().unwrap();
        let gradients = tape.backward(&loss, 1.0, &mut []).unwrap();
        (value, gradients.of(&scores).unwrap().to_vec())
    }

    fn softmax(scores: [f32; 3]) -> [f32; 3] {
        let total: f32 = scores.iter().map(|x| x.exp()).sum();
        scores.map(|x| x.exp() / total)
    }

    #[test]
    fn equal_utilities_teach_nothing_but_to_the_utility_only_target() {
        let (loss, slopes) = gradient([0.7; 3], DistillationTarget::Posterior);
        assert!(loss.abs() < 1e-6 && slopes.iter().all(|slope| slope.abs() < 1e-6));
        let (loss, slopes) = gradient([0.7; 3], DistillationTarget::UtilityOnly);
        assert!(loss > 0.01);
        for (slope, prior) in slopes.iter().zip(softmax([0.5, -0.2, 0.1])) {
            assert!((slope - (prior - 1.0 / 3.0)).abs() < 1e-6);
        }
    }

    #[test]
    fn the_gradient_is_the_prior_minus_the_posterior() {
        let (loss, found) = gradient([0.0, 2.0, 0.0], DistillationTarget::Posterior);
        let (prior, posterior) = (softmax([0.5, -0.2, 0.1]), softmax([0.5, 1.8, 0.1]));
        assert!(loss > 0.1);
        for index in 0..3 {
            assert!((found[index] - (prior[index] - posterior[index])).abs() < 1e-6);
        }
        assert!(found[1] < 0.0, "the useful memory's score rises");
    }
}
