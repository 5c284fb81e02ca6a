//! The retriever's loss: KL(q ‖ r) over the global pools plus KL(q ‖ r) over the local pools, each the
//! mean over the examples whose pool has a choice, that is two candidates or more.

use crate::retriever::set_term::OverlapBatch;
use crate::{
    CandidatePools, DistillationTarget, Error, Result, RetrieverScores, posterior_divergence,
};
use far_memory::OVERLAP_FEATURES;
use far_tensor::{Device, Tape, Tensor};
use std::sync::Arc;

/// Pools of one kind, padded to the longest: P pools of at most A candidates.
pub(crate) struct PoolBatch {
    /// Rows in the flattened scores, behind which are those of the empty memory, [P, A]; padding repeats
    /// the first.
    indices: Arc<[usize]>,
    /// What the candidates have in common with memories recalled before.
    overlaps: Option<OverlapBatch>,
    /// Utilities less the largest of the pool, [P, A]: what can be added without losing digits.
    pub(crate) utilities: Tensor,
    /// 1 where there is a candidate, [P, A].
    pub(crate) mask: Tensor,
}

/// One candidate of a pool.
#[derive(Clone, Copy)]
struct Member<'a> {
    /// Its row in the flattened scores.
    index: usize,
    utility: f32,
    overlaps: &'a [[f32; OVERLAP_FEATURES]],
}

impl CandidatePools {
    /// The candidates at these places, and the empty memory where it competes, in a batch of so many
    /// examples and slots.
    fn members(
        &self,
        example: usize,
        [examples, slots]: [usize; 2],
        places: &[usize],
        utility: impl Fn(usize) -> f32,
    ) -> Vec<Member<'_>> {
        let member = |place: &usize| Member {
            index: example * slots + self.positions[*place],
            utility: utility(*place),
            overlaps: self.overlaps_of(*place),
        };
        let mut members: Vec<Member<'_>> = places.iter().map(member).collect();
        if self.empty && !members.is_empty() {
            let after = usize::from(!self.taken.is_empty());
            let index = examples * slots + 2 * example + after;
            members.push(Member { index, utility: utility(self.ids.len()), overlaps: &[] });
        }
        members
    }
}

impl PoolBatch {
    /// `None` if no pool has a choice.
    fn new(pools: &[Vec<Member<'_>>]) -> Result<Option<Self>> {
        let pools: Vec<_> = pools.iter().filter(|pool| pool.len() > 1).collect();
        let Some(width) = pools.iter().map(|pool| pool.len()).max() else { return Ok(None) };
        let (mut indices, mut utilities, mut mask) = (Vec::new(), Vec::new(), Vec::new());
        for (row, pool) in pools.iter().enumerate() {
            let utility = pool.iter().map(|member| member.utility);
            let largest = utility.fold(f32::NEG_INFINITY, f32::max);
            for member in *pool {
                indices.push(member.index);
                utilities.push(member.utility - largest);
                mask.push(1.0);
            }
            indices.resize((row + 1) * width, pool[0].index);
            utilities.resize((row + 1) * width, 0.0);
            mask.resize((row + 1) * width, 0.0);
        }
        let overlaps: Vec<Vec<_>> =
            pools.iter().map(|pool| pool.iter().map(|member| member.overlaps).collect()).collect();
        let shape = [pools.len(), width];
        Ok(Some(Self {
            indices: indices.into(),
            overlaps: OverlapBatch::new(&overlaps, width)?,
            utilities: Tensor::from_slice(&utilities, shape)?,
            mask: Tensor::from_slice(&mask, shape)?,
        }))
    }

    /// The scores of the candidates, [P, A], each given the memories recalled before it.
    pub(crate) fn scores(
        &self,
        tape: &mut Tape,
        scores: &RetrieverScores,
    ) -> far_tensor::Result<Tensor> {
        let mut flat = scores.fused.reshape([scores.fused.shape().elements()])?;
        if let Some(empty) = scores.set.as_ref().and_then(|set| set.empty.as_ref()) {
            let empty = empty.reshape([empty.shape().elements()])?;
            flat = tape.concat(&[&flat, &empty], 0)?;
        }
        let own = tape.gather_rows(&flat, self.indices.clone())?.reshape(*self.mask.shape())?;
        match (&self.overlaps, &scores.set) {
            (Some(overlaps), Some(set)) => {
                let repeated = overlaps.repeated(tape, set)?;
                tape.subtract(&own, &repeated)
            }
            _ => Ok(own),
        }
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
    /// [`CandidatePools::ids`], that of the empty memory last. Candidates that the mask hides are left out.
    ///
    /// # Errors
    /// If the lengths do not fit, a candidate is outside the batch, or a utility is not finite.
    pub fn new(mask: &Tensor, pools: &[CandidatePools], utilities: &[Vec<f32>]) -> Result<Self> {
        let slots = mask.shape().last();
        Error::check_length("the candidate pools", pools.len(), mask.shape().rows())?;
        Error::check_length("the utilities of a batch", utilities.len(), pools.len())?;
        for (pools, utilities) in pools.iter().zip(utilities) {
            let expected = pools.ids.len() + usize::from(pools.empty);
            Error::check_length("the utilities of candidates", utilities.len(), expected)?;
            Error::check_finite("the utilities of candidates", utilities)?;
            if let Some(position) = pools.positions.iter().find(|position| **position >= slots) {
                let (what, found) = ("the slots of a batch", slots);
                return Err(Error::Length { what, found, expected: position + 1 });
            }
        }
        let shape = [mask.shape().rows(), slots];
        let members = |kind: fn(&CandidatePools) -> &[usize]| -> Vec<Vec<Member<'_>>> {
            let examples = pools.iter().zip(utilities).enumerate();
            let pool = examples.map(|(example, (pools, utilities))| {
                let shown =
                    |place: &usize| mask.values()[example * slots + pools.positions[*place]] != 0.0;
                let places: Vec<usize> = kind(pools).iter().copied().filter(shown).collect();
                pools.members(example, shape, &places, |place| utilities[place])
            });
            pool.collect()
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

impl RetrieverScores {
    /// The scores by which the candidates of an example compete, in the order of
    /// [`CandidatePools::ids`], that of the empty memory last, if it is a candidate.
    ///
    /// # Panics
    /// If the candidates were drawn for another batch.
    pub fn slot_scores(&self, pools: &CandidatePools, example: usize) -> Vec<f32> {
        let all = CandidatePools { global: (0..pools.ids.len()).collect(), ..pools.clone() };
        let (rows, slots) = (self.fused.shape().rows(), self.fused.shape().last());
        let mut members = all.members(example, [rows, slots], &all.global, |_| 0.0);
        // A pool of one has no choice, but a score.
        members.extend((members.len() == 1).then(|| members[0]));
        let batch = PoolBatch::new(&[members]).expect("plain numbers").expect("two members");
        let scores = batch.scores(&mut Tape::inference(&Device::cpu()), &self.detached());
        let count = pools.ids.len() + usize::from(pools.empty);
        scores.expect("they fit").values()[..count].to_vec()
    }
}

/// KL global + KL local for the scores of a batch: a scalar, 0 if there is nothing to learn.
///
/// # Errors
/// If the scores have fewer elements than the batch that the candidates were made for.
pub fn candidate_distillation(
    tape: &mut Tape,
    retriever: &RetrieverScores,
    candidates: &CandidateBatch,
    target: DistillationTarget,
) -> far_tensor::Result<Tensor> {
    let mut total: Option<Tensor> = None;
    for pools in [&candidates.global, &candidates.local].into_iter().flatten() {
        let scores = pools.scores(tape, retriever)?;
        let mask = Some(&pools.mask);
        let loss = posterior_divergence(tape, &scores, &pools.utilities, mask, target)?;
        total = Some(match total {
            None => loss,
            Some(other) => tape.add(&other, &loss)?,
        });
    }
    Ok(total.unwrap_or_else(|| Tensor::zeros([])))
}
