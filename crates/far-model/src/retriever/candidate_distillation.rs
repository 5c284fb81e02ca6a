//! The retriever's loss: KL(q ‖ r) over the global pools plus KL(q ‖ r) over the local pools, each the
//! mean over the examples whose pool has a choice, that is two candidates or more.

use crate::{CandidatePools, DistillationTarget, Error, Result, posterior_divergence};
use far_tensor::{Tape, Tensor};
use std::sync::Arc;

/// Pools of one kind, padded to the longest: P pools of at most A candidates.
pub(crate) struct PoolBatch {
    /// Rows in the flattened scores, [P, A]; padding repeats the first.
    indices: Arc<[usize]>,
    /// Utilities less the largest of the pool, [P, A]: what can be added without losing digits.
    pub(crate) utilities: Tensor,
    /// 1 where there is a candidate, [P, A].
    pub(crate) mask: Tensor,
}

impl PoolBatch {
    /// `None` if no pool has a choice.
    fn new(pools: &[Vec<(usize, f32)>]) -> Result<Option<Self>> {
        let pools: Vec<_> = pools.iter().filter(|pool| pool.len() > 1).collect();
        let Some(width) = pools.iter().map(|pool| pool.len()).max() else { return Ok(None) };
        let (mut indices, mut utilities, mut mask) = (Vec::new(), Vec::new(), Vec::new());
        for (row, pool) in pools.iter().enumerate() {
            let largest = pool.iter().fold(f32::NEG_INFINITY, |most, (_, u)| most.max(*u));
            for (index, utility) in *pool {
                indices.push(*index);
                utilities.push(utility - largest);
                mask.push(1.0);
            }
            indices.resize((row + 1) * width, pool[0].0);
            utilities.resize((row + 1) * width, 0.0);
            mask.resize((row + 1) * width, 0.0);
        }
        let shape = [pools.len(), width];
        Ok(Some(Self {
            indices: indices.into(),
            utilities: Tensor::from_slice(&utilities, shape)?,
            mask: Tensor::from_slice(&mask, shape)?,
        }))
    }

    /// The scores of the candidates, [P, A], from fused scores [B, N].
    pub(crate) fn scores(&self, tape: &mut Tape, fused: &Tensor) -> far_tensor::Result<Tensor> {
        let flat = fused.reshape([fused.shape().elements()])?;
        tape.gather_rows(&flat, self.indices.clone())?.reshape(*self.mask.shape())
    }
}

/// The candidates of a batch with their utilities, ready to teach.
pub struct CandidateBatch {
    pub(crate) global: Option<PoolBatch>,
    pub(crate) local: Option<PoolBatch>,
}

impl CandidateBatch {
    /// From the mask [B, N] of a batch ([`RetrieverBatch::mask`](crate::RetrieverBatch::mask)), and for
    /// each of its B examples the candidates and their utilities, in the order of
    /// [`CandidatePools::ids`]. Candidates that the mask hides are left out.
    ///
    /// # Errors
    /// If the lengths do not fit, a candidate is outside the batch, or a utility is not finite.
    pub fn new(mask: &Tensor, pools: &[CandidatePools], utilities: &[Vec<f32>]) -> Result<Self> {
        let slots = mask.shape().last();
        Error::check_length("the candidate pools", pools.len(), mask.shape().rows())?;
        Error::check_length("the utilities of a batch", utilities.len(), pools.len())?;
        for (pools, utilities) in pools.iter().zip(utilities) {
            Error::check_length("the utilities of candidates", utilities.len(), pools.ids.len())?;
            Error::check_finite("the utilities of candidates", utilities)?;
            if let Some(position) = pools.positions.iter().find(|position| **position >= slots) {
                let (what, found) = ("the slots of a batch", slots);
                return Err(Error::Length { what, found, expected: position + 1 });
            }
        }
        let members = |kind: fn(&CandidatePools) -> &[usize]| -> Vec<Vec<(usize, f32)>> {
            let examples = pools.iter().zip(utilities).enumerate();
            let pool = |(example, (pools, utilities)): (usize, (&CandidatePools, &Vec<f32>))| {
                let candidates = kind(pools)
                    .iter()
                    .map(|place| (example * slots + pools.positions[*place], utilities[*place]));
                candidates.filter(|(index, _)| mask.values()[*index] != 0.0).collect()
            };
            examples.map(pool).collect()
        };
        Ok(Self {
            global: PoolBatch::new(&members(|pools| &pools.global))?,
            local: PoolBatch::new(&members(|pools| &pools.local))?,
        })
    }

    /// Whether no pool has a choice: nothing can be learned, and no step should be made.
    pub fn is_empty(&self) -> bool {
        self.global.is_none() && self.local.is_none()
    }
}

/// KL global + KL local for fused scores [B, N]: a scalar, 0 if there is nothing to learn.
///
/// # Errors
/// If the scores have fewer elements than the batch that the candidates were made for.
pub fn candidate_distillation(
    tape: &mut Tape,
    fused: &Tensor,
    candidates: &CandidateBatch,
    target: DistillationTarget,
) -> far_tensor::Result<Tensor> {
    let mut total: Option<Tensor> = None;
    for pools in [&candidates.global, &candidates.local].into_iter().flatten() {
        let scores = pools.scores(tape, fused)?;
        let mask = Some(&pools.mask);
        let loss = posterior_divergence(tape, &scores, &pools.utilities, mask, target)?;
        total = Some(match total {
            None => loss,
            Some(other) => tape.add(&other, &loss)?,
        });
    }
    Ok(total.unwrap_or_else(|| Tensor::zeros([])))
}
