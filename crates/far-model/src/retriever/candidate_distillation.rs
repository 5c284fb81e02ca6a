//! The retriever's loss: KL(q ‖ r) over the global pools plus KL(q ‖ r) over the local pools, each the
//! mean over the examples whose pool has a choice, that is two candidates or more; and where slots may stay
//! empty, that of every candidate's choice against the empty memory (`worth.rs`).

use crate::retriever::set_term::OverlapBatch;
use crate::retriever::worth::{WorthBatch, evidence};
use crate::{
    CandidatePools, DistillationTarget, Error, Result, RetrieverScores, posterior_divergence,
};
use far_memory::OVERLAP_FEATURES;
use far_tensor::{Device, Tape, Tensor};
use std::sync::Arc;

/// Pools of one kind, padded to the longest: P pools of at most A candidates.
pub(crate) struct PoolBatch {
    /// Rows in the flattened scores, [P, A]; padding repeats the first.
    indices: Arc<[usize]>,
    /// What the candidates have in common with memories recalled before.
    overlaps: Option<OverlapBatch>,
    /// Utilities less the largest of the pool, [P, A], what can be added without losing digits; or evidence of
    /// worth.
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
    /// The candidates at these places of an example, in a batch of so many slots.
    fn members(
        &self,
        example: usize,
        slots: usize,
        places: &[usize],
        utility: impl Fn(usize) -> f32,
    ) -> Vec<Member<'_>> {
        let member = |place: &usize| Member {
            index: example * slots + self.positions[*place],
            utility: utility(*place),
            overlaps: self.overlaps_of(*place),
        };
        places.iter().map(member).collect()
    }
}

impl PoolBatch {
    /// `None` without a pool.
    fn new(pools: &[Vec<Member<'_>>]) -> Result<Option<Self>> {
        let Some(width) = pools.iter().map(|pool| pool.len()).max() else { return Ok(None) };
        let (mut indices, mut utilities, mut mask) = (Vec::new(), Vec::new(), Vec::new());
        for (row, pool) in pools.iter().enumerate() {
            for member in pool {
                indices.push(member.index);
                utilities.push(member.utility);
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

    /// What all slots of a batch have [B, N], for the candidates, [P, A].
    pub(crate) fn gathered(&self, tape: &mut Tape, of: &Tensor) -> far_tensor::Result<Tensor> {
        let flat = of.reshape([of.shape().elements()])?;
        tape.gather_rows(&flat, self.indices.clone())?.reshape(*self.mask.shape())
    }

    /// The scores of the candidates, [P, A], each given the memories recalled before it.
    pub(crate) fn scores(
        &self,
        tape: &mut Tape,
        scores: &RetrieverScores,
    ) -> far_tensor::Result<Tensor> {
        let own = self.gathered(tape, &scores.fused)?;
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
    worth: Option<WorthBatch>,
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
        let shown = |example: usize, places: &[usize]| -> Vec<usize> {
            let positions = &pools[example].positions;
            let seen = |place: &usize| mask.values()[example * slots + positions[*place]] != 0.0;
            places.iter().copied().filter(seen).collect()
        };
        let competing = |kind: fn(&CandidatePools) -> &[usize]| -> Vec<Vec<Member<'_>>> {
            let examples = pools.iter().zip(utilities).enumerate();
            let examples = examples.filter(|(_, (pools, _))| !pools.foreign);
            let pool = examples.map(|(example, (pools, utilities))| {
                let places = shown(example, kind(pools));
                let own = places.iter().map(|place| utilities[*place]);
                let largest = own.fold(f32::NEG_INFINITY, f32::max);
                pools.members(example, slots, &places, |place| utilities[place] - largest)
            });
            pool.filter(|pool| pool.len() > 1).collect()
        };
        let (mut read, mut against_empty) = (Vec::new(), Vec::new());
        for (example, (pools, utilities)) in pools.iter().zip(utilities).enumerate() {
            let places = shown(example, &(0..pools.competing).collect::<Vec<_>>());
            if pools.empty && !pools.relations.is_empty() && !places.is_empty() {
                let empty = utilities[pools.ids.len()];
                let added = |place: usize| evidence(utilities[place] - empty, pools.foreign);
                against_empty.push(pools.members(example, slots, &places, added));
                read.push((pools, places));
            }
        }
        let worth = PoolBatch::new(&against_empty)?.map(|pools| WorthBatch::new(pools, &read));
        Ok(Self {
            global: PoolBatch::new(&competing(|pools| &pools.global))?,
            local: PoolBatch::new(&competing(|pools| &pools.local))?,
            worth: worth.transpose()?,
        })
    }

    /// Whether no pool has a choice: nothing can be learned, and no step should be made.
    pub fn is_empty(&self) -> bool {
        self.global.is_none() && self.local.is_none() && self.worth.is_none()
    }
}

impl RetrieverScores {
    /// The scores by which the candidates of an example compete, in the order of
    /// [`CandidatePools::ids`].
    ///
    /// # Panics
    /// If the candidates were drawn for another batch, or there are none.
    pub fn slot_scores(&self, pools: &CandidatePools, example: usize) -> Vec<f32> {
        let batch = self.whole_pool(pools, example).0;
        let scores = batch.scores(&mut Tape::inference(&Device::cpu()), &self.detached());
        scores.expect("they fit").values().to_vec()
    }

    /// What the candidates of an example are worth, in the same order; `None` where every slot is filled.
    ///
    /// # Panics
    /// As [`slot_scores`](Self::slot_scores).
    pub fn slot_worths(&self, pools: &CandidatePools, example: usize) -> Option<Vec<f32>> {
        let detached = self.detached();
        let worth = detached.set.as_ref()?.worth.as_ref()?;
        let (batch, places) = self.whole_pool(pools, example);
        let batch = WorthBatch::new(batch, &[(pools, places)]).expect("plain numbers");
        let worths = batch.worths(&mut Tape::inference(&Device::cpu()), &detached, worth);
        Some(worths.expect("they fit").values().to_vec())
    }

    /// All candidates of an example as one pool, without utilities, and their places.
    fn whole_pool(&self, pools: &CandidatePools, example: usize) -> (PoolBatch, Vec<usize>) {
        let places: Vec<usize> = (0..pools.ids.len()).collect();
        let members = pools.members(example, self.fused.shape().last(), &places, |_| 0.0);
        let batch = PoolBatch::new(&[members]).expect("plain numbers").expect("a candidate");
        (batch, places)
    }
}

/// KL global + KL local for the scores of a batch, and KL of what candidates are worth: a scalar, 0 if there
/// is nothing to learn.
///
/// # Errors
/// If the scores have fewer elements than the batch that the candidates were made for.
pub fn candidate_distillation(
    tape: &mut Tape,
    retriever: &RetrieverScores,
    candidates: &CandidateBatch,
    target: DistillationTarget,
) -> far_tensor::Result<Tensor> {
    let mut total = Tensor::zeros([]);
    for pools in [&candidates.global, &candidates.local].into_iter().flatten() {
        let scores = pools.scores(tape, retriever)?;
        let mask = Some(&pools.mask);
        let loss = posterior_divergence(tape, &scores, &pools.utilities, mask, target)?;
        total = tape.add(&total, &loss)?;
    }
    let worth = retriever.set.as_ref().and_then(|set| set.worth.as_ref());
    if let (Some(batch), Some(worth)) = (&candidates.worth, worth) {
        let worths = batch.worths(tape, retriever, worth)?;
        let loss = batch.divergence(tape, &worths, target)?;
        total = tape.add(&total, &loss)?;
    }
    Ok(total)
}
