//! What memories are worth while it is learned: whether the world model predicts better with a candidate alone
//! than without any memory. The definition is `far-memory`'s (`worth.rs`), and so are the parameters' names.
//!
//! The posterior over candidates and the empty memory has two factors: whether the slot is filled, and by whom
//! if it is; KL(q ‖ r) is the sum of theirs. Who fills it is learned as if every slot were
//! (`candidate_distillation.rs`). Whether it is filled is a choice between two, a memory with log odds w and the
//! empty one, with the same posterior: σ(w + [`evidence`]) against σ(w). Recall asks about the one memory it
//! would take, so the best of many lucky draws does not count for more than it is worth. Those that would be
//! recalled teach it, foreign ones as much as all others together: a walk does not say how often memory will
//! lack its place.

use crate::layer::{Linear, Pass};
use crate::retriever::candidate_distillation::PoolBatch;
use crate::{CandidatePools, DistillationTarget, RetrieverScores};
use far_memory::{FEATURES, RetrieverConfig, WORTH_WIDTH, worth_inputs};
use far_tensor::{ArenaBuilder, Initialization, Result, Tape, Tensor};

/// Nats of utility that move the log odds by one. At most noise levels a memory changes next to nothing, at some
/// it is worth ten nats: by the signs alone foreign memories were hardly told from others.
const NATS: f32 = 4.0;

/// Nats for a memory of the place and against a foreign one. Credit is measured from a true present, where most
/// memories change nothing; along a rollout the present drifts, and then they do.
const PLACE: f32 = 2.0;

/// What speaks for filling a slot with a memory rather than leaving it empty, as log odds: what it adds to no
/// memory, in nats, and whether it is of another place, both known in training alone.
pub(crate) fn evidence(added: f32, foreign: bool) -> f32 {
    (added + if foreign { -PLACE } else { PLACE }) / NATS
}

/// The worth's network, whose parameters live in an arena.
pub(crate) struct TrainableWorth {
    layers: [Linear; 2],
    key_cues: Vec<usize>,
}

/// The network for a batch.
pub struct WorthScores {
    /// Weight and bias of both layers.
    layers: [Tensor; 4],
    key_cues: Vec<usize>,
}

impl TrainableWorth {
    /// Adds the network to an arena, with `rate` times its learning rate. At first every memory is worth 0,
    /// and recalled.
    pub(crate) fn new(builder: &mut ArenaBuilder, config: &RetrieverConfig, rate: f32) -> Self {
        let key_cues: Vec<usize> = config.key_cues().collect();
        let sizes = [[worth_inputs(key_cues.len()), WORTH_WIDTH], [WORTH_WIDTH, 1]];
        let hidden = Initialization::Uniform(1.0 / (sizes[0][0] as f32).sqrt());
        let first = [[Initialization::FanIn, hidden], [Initialization::Zero; 2]];
        let layers = [0, 1].map(|place: usize| {
            let [weight, bias] = first[place];
            Linear::new(builder, &format!("set.worth.{place}"), sizes[place], weight, bias)
        });
        layers.iter().for_each(|layer| layer.set_rate(builder, rate));
        Self { layers, key_cues }
    }

    pub(crate) fn scores(&self, pass: &Pass<'_>) -> WorthScores {
        let [[weight, bias], [output, offset]] =
            self.layers.map(|layer| layer.tensors(pass.parameters));
        WorthScores { layers: [weight, bias, output, offset], key_cues: self.key_cues.clone() }
    }
}

impl WorthScores {
    pub(crate) fn detached(&self) -> Self {
        Self { layers: self.layers.each_ref().map(Tensor::detach), key_cues: self.key_cues.clone() }
    }
}

/// The credited candidates of the examples whose empty memory was measured.
pub(crate) struct WorthBatch {
    /// P pools of A candidates, with the evidence of their worth.
    pools: PoolBatch,
    /// Relations to the query, [P·A, F].
    relations: Tensor,
    /// What each candidate counts for, [P·A], 1 in all.
    shares: Tensor,
}

impl WorthBatch {
    /// From pools, and the candidates in them with their relations.
    pub(crate) fn new(pools: PoolBatch, read: &[(&CandidatePools, Vec<usize>)]) -> Result<Self> {
        let width = pools.mask.shape().last();
        let count = |foreign: bool| {
            let own = read.iter().filter(|(pools, _)| pools.foreign == foreign);
            own.map(|(_, places)| places.len()).sum::<usize>()
        };
        let counts = [count(false), count(true)];
        let kinds = counts.iter().filter(|count| **count > 0).count();
        let (mut rows, mut shares) = (Vec::new(), Vec::new());
        for (row, (pools, places)) in read.iter().enumerate() {
            for place in places {
                rows.extend(pools.relations[*place]);
                shares.push(1.0 / (kinds * counts[usize::from(pools.foreign)]) as f32);
            }
            rows.resize((row + 1) * width * FEATURES, 0.0);
            shares.resize((row + 1) * width, 0.0);
        }
        let rows = Tensor::from_slice(&rows, [read.len() * width, FEATURES])?;
        let shares = Tensor::from_slice(&shares, [read.len() * width])?;
        Ok(Self { pools, relations: rows, shares })
    }

    /// The worth of every candidate, [P, A]. What it is computed from is data: it teaches no score.
    pub(crate) fn worths(
        &self,
        tape: &mut Tape,
        scores: &RetrieverScores,
        worth: &WorthScores,
    ) -> Result<Tensor> {
        let rows = self.relations.shape().rows();
        let mut parts = vec![self.relations.clone()];
        for cue in &worth.key_cues {
            let own = self.pools.gathered(tape, &scores.raw[*cue].detach())?;
            parts.push(own.reshape([rows, 1])?);
        }
        let inputs = tape.concat(&parts.iter().collect::<Vec<_>>(), 1)?;
        let [weight, bias, output, offset] = &worth.layers;
        let hidden = tape.linear_gelu(&inputs, weight, Some(bias))?;
        tape.linear(&hidden, output, Some(offset))?.reshape(*self.pools.mask.shape())
    }

    /// KL(q ‖ r) of the choice between each candidate and the empty memory: the mean of that over foreign
    /// memories and that over others.
    pub(crate) fn divergence(
        &self,
        tape: &mut Tape,
        worths: &Tensor,
        target: DistillationTarget,
    ) -> Result<Tensor> {
        let rows = worths.shape().elements();
        let empty = Tensor::zeros([rows, 1]);
        let scores = tape.concat(&[&worths.reshape([rows, 1])?, &empty], 1)?;
        let utilities = tape.concat(&[&self.pools.utilities.reshape([rows, 1])?, &empty], 1)?;
        let target = target.distribution(tape, &scores, &utilities, None)?;
        let divergences = tape.row_divergence(&target, &scores, None)?;
        let counted = tape.multiply(&divergences, &self.shares)?;
        tape.sum(&counted)
    }
}
