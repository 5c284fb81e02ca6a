//! The set term while it learns: what a candidate repeats of the memories recalled before it. The
//! definitions are `far-memory`'s (`overlap.rs`, `set_term.rs`), and so are the parameters' names.

use crate::layer::Pass;
use crate::retriever::worth::{TrainableWorth, WorthScores};
use far_memory::{OVERLAP_FEATURES, RetrieverConfig};
use far_tensor::{
    Activation, ArenaBuilder, Initialization, ParameterId, Result, Statistic, Tape, Tensor,
};

/// Logarithms of the overlap's weights at first: two memories tell different things from a quarter of
/// the length scale or half a radian on, and little depends on gaze, time and keys.
const FIRST_OVERLAP: [f32; OVERLAP_FEATURES] =
    [2.772_588_8, 2.772_588_8, 1.386_294_4, -2.3, -2.3, -2.3];

/// A set term whose parameters live in an arena.
pub(crate) struct TrainableSetTerm {
    overlap: ParameterId,
    strength: ParameterId,
    worth: Option<TrainableWorth>,
}

/// The set term's part of a batch's scores.
pub struct SetScores {
    /// Weights w of the overlap's features, [F, 1].
    pub(crate) weights: Tensor,
    /// Logarithm of β, [1].
    pub(crate) strength: Tensor,
    /// What memories are worth, where slots may stay empty.
    pub(crate) worth: Option<WorthScores>,
}

impl SetScores {
    pub(crate) fn detached(&self) -> Self {
        Self {
            weights: self.weights.detach(),
            strength: self.strength.detach(),
            worth: self.worth.as_ref().map(WorthScores::detached),
        }
    }
}

impl TrainableSetTerm {
    /// Adds the set term of a retriever that recalls sets to an arena; its learning rate is `rate` times that
    /// of the arena. At first a memory that repeats another loses a deviation of the scores.
    pub(crate) fn new(builder: &mut ArenaBuilder, config: &RetrieverConfig, rate: f32) -> Self {
        let first = Initialization::Parts(&FIRST_OVERLAP);
        let overlap = builder.parameter("set.overlap", [OVERLAP_FEATURES], first);
        let strength = builder.parameter("set.strength", [1], Initialization::Zero);
        [overlap, strength].into_iter().for_each(|id| builder.set_rate(id, rate));
        let abstains = config.set.as_ref().is_some_and(|set| set.abstains);
        let worth = abstains.then(|| TrainableWorth::new(builder, config, rate));
        Self { overlap, strength, worth }
    }

    /// The term's part of the scores of a batch.
    pub(crate) fn scores(&self, pass: &mut Pass<'_>) -> Result<SetScores> {
        let weights = pass.tape.activate(&pass.parameters.tensor(self.overlap), Activation::Exp)?;
        Ok(SetScores {
            weights: weights.reshape([OVERLAP_FEATURES, 1])?,
            strength: pass.parameters.tensor(self.strength).clone(),
            worth: self.worth.as_ref().map(|worth| worth.scores(pass)),
        })
    }
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
