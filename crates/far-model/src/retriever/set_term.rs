//! The set term while it learns: what a candidate repeats of the memories recalled before it, and the
//! score of the empty memory. The definitions are `far-memory`'s (`overlap.rs`, `set_term.rs`), and so are
//! the parameters' names.

use crate::layer::Pass;
use crate::retriever::batch::RetrieverBatch;
use far_memory::{OVERLAP_FEATURES, SetConfig};
use far_tensor::{
    Activation, ArenaBuilder, Initialization, ParameterId, Result, Statistic, Tape, Tensor,
};

/// Logarithms of the overlap's weights at first: two memories tell different things from a quarter of
/// the length scale or half a radian on, and little depends on gaze, time and keys.
const FIRST_OVERLAP: [f32; OVERLAP_FEATURES] =
    [2.772_588_8, 2.772_588_8, 1.386_294_4, -2.3, -2.3, -2.3];

/// What the empty memory's score knows of a cue.
const STATISTICS: [Statistic; 3] = [Statistic::Maximum, Statistic::Mean, Statistic::Deviation];

/// A set term whose parameters live in an arena.
pub(crate) struct TrainableSetTerm {
    overlap: ParameterId,
    strength: ParameterId,
    empty: Option<(ParameterId, usize)>,
}

/// The set term's part of a batch's scores.
pub struct SetScores {
    /// Weights w of the overlap's features, [F, 1].
    pub(crate) weights: Tensor,
    /// Logarithm of β, [1].
    pub(crate) strength: Tensor,
    /// The empty memory's score before and after anything is recalled, [B, 2].
    pub empty: Option<Tensor>,
}

impl SetScores {
    pub(crate) fn detached(&self) -> Self {
        Self {
            weights: self.weights.detach(),
            strength: self.strength.detach(),
            empty: self.empty.as_ref().map(Tensor::detach),
        }
    }
}

impl TrainableSetTerm {
    /// Adds the set term of a retriever with so many cues to an arena; its learning rate is `rate` times
    /// that of the arena. At first a memory that repeats another loses a deviation of the scores, and the
    /// empty memory is worth an average one.
    pub(crate) fn new(
        builder: &mut ArenaBuilder,
        config: &SetConfig,
        cues: usize,
        rate: f32,
    ) -> Self {
        let first = Initialization::Parts(&FIRST_OVERLAP);
        let overlap = builder.parameter("set.overlap", [OVERLAP_FEATURES], first);
        let strength = builder.parameter("set.strength", [1], Initialization::Zero);
        let numbers = 2 + STATISTICS.len() * cues;
        let empty = config
            .abstains
            .then(|| (builder.parameter("set.empty", [numbers], Initialization::Zero), numbers));
        for id in [Some(overlap), Some(strength), empty.map(|(id, _)| id)].into_iter().flatten() {
            builder.set_rate(id, rate);
        }
        Self { overlap, strength, empty }
    }

    /// The term's part of the scores of a batch, from the raw scores [B, N] of each cue.
    pub(crate) fn scores(
        &self,
        pass: &mut Pass<'_>,
        raw: &[Tensor],
        batch: &RetrieverBatch,
    ) -> Result<SetScores> {
        let weights = pass.tape.activate(&pass.parameters.tensor(self.overlap), Activation::Exp)?;
        let empty = match self.empty {
            None => None,
            Some((weight, numbers)) => {
                let weight = pass.parameters.tensor(weight).reshape([numbers, 1])?;
                let features = empty_features(pass, raw, batch)?;
                let scores = pass.linear(&features, &weight, None)?;
                Some(scores.reshape([batch.examples(), 2])?)
            }
        };
        Ok(SetScores {
            weights: weights.reshape([OVERLAP_FEATURES, 1])?,
            strength: pass.parameters.tensor(self.strength).clone(),
            empty,
        })
    }
}

/// [1, whether any is recalled, statistics of every cue] before and after, [B, 2, F]. The statistics are data:
/// the empty memory's credit teaches no score.
fn empty_features(tape: &mut Tape, raw: &[Tensor], batch: &RetrieverBatch) -> Result<Tensor> {
    let examples = batch.examples();
    let slot = Tensor::from_slice(&[1.0, 0.0, 1.0, 1.0].repeat(examples), [examples, 2, 2])?;
    let mut parts = vec![slot];
    for (cue, raw) in raw.iter().enumerate() {
        for statistic in STATISTICS {
            let value = tape.statistic(&raw.detach(), Some(batch.present(cue)), 1, statistic)?;
            parts.push(tape.repeat(&value, 1, 2)?.reshape([examples, 2, 1])?);
        }
    }
    tape.concat(&parts.iter().collect::<Vec<_>>(), 2)
}

/// Candidates and the memories recalled before them: P pools of A candidates, J memories at most.
pub(crate) struct OverlapBatch {
    /// Features of every pair, [P·A·J, F].
    features: Tensor,
    /// 1 where there is a pair, [P, A, J].
    pairs: Tensor,
    /// 1 where there is any pair, [P, A].
    any: Tensor,
}

impl OverlapBatch {
    /// From the pairs of each candidate of each pool, all padded; `None` without a pair.
    pub(crate) fn new(
        pools: &[Vec<&[[f32; OVERLAP_FEATURES]]>],
        width: usize,
    ) -> Result<Option<Self>> {
        let most = pools.iter().flatten().map(|pairs| pairs.len()).max().unwrap_or(0);
        if most == 0 {
            return Ok(None);
        }
        let (mut features, mut mask, mut any) = (Vec::new(), Vec::new(), Vec::new());
        for pool in pools {
            for place in 0..width {
                let pairs = pool.get(place).copied().unwrap_or(&[]);
                features.extend(pairs.iter().flatten().copied());
                mask.extend(std::iter::repeat_n(1.0, pairs.len()));
                any.push(f32::from(!pairs.is_empty()));
                features.resize(any.len() * most * OVERLAP_FEATURES, 0.0);
                mask.resize(any.len() * most, 0.0);
            }
        }
        Ok(Some(Self {
            features: Tensor::from_slice(&features, [any.len() * most, OVERLAP_FEATURES])?,
            pairs: Tensor::from_slice(&mask, [pools.len(), width, most])?,
            any: Tensor::from_slice(&any, [pools.len(), width])?,
        }))
    }

    /// What each candidate repeats, β·max_j o_ij: [P, A].
    pub(crate) fn repeated(&self, tape: &mut Tape, set: &SetScores) -> Result<Tensor> {
        let apart = tape.linear(&self.features, &set.weights, None)?;
        let logarithms = tape.affine(&apart, -1.0, 0.0)?.reshape(*self.pairs.shape())?;
        let nearest = tape.statistic(&logarithms, Some(&self.pairs), 2, Statistic::Maximum)?;
        let strength = tape.repeat(&set.strength.reshape([])?, 0, self.any.shape().elements())?;
        let repeated = tape.add(&nearest, &strength.reshape(*self.any.shape())?)?;
        let repeated = tape.activate(&repeated, Activation::Exp)?;
        tape.multiply(&repeated, &self.any)
    }
}
