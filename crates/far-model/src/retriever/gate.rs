//! The gate while it learns: λ = softmax over the available cues of
//! w·[max, μ, σ, onehot, Δt, Δt·onehot], from the raw scores of each cue.

use crate::layer::Pass;
use crate::retriever::batch::RetrieverBatch;
use far_memory::{Gate, RetrieverConfig};
use far_tensor::{ArenaBuilder, Initialization, ParameterId, Result, Statistic, Tensor};

/// The statistics of a cue in the order of the gate's weight.
const STATISTICS: [Statistic; 3] = [Statistic::Maximum, Statistic::Mean, Statistic::Deviation];

/// A gate whose weight lives in an arena.
pub(crate) struct TrainableGate {
    weight: ParameterId,
    features: usize,
}

impl TrainableGate {
    /// Adds the gate of a retriever to an arena, weight zero: all cues count alike. Its learning
    /// rate is `rate` times that of the arena.
    pub(crate) fn new(builder: &mut ArenaBuilder, config: &RetrieverConfig, rate: f32) -> Self {
        let features = Gate::weight_count(config.cues.len(), config.gate.stride_products);
        let weight = builder.parameter("gate.weight", [features], Initialization::Zero);
        builder.set_rate(weight, rate);
        Self { weight, features }
    }

    /// λ [B, M] from the raw scores [B, N] of each cue; 0 for cues that are not available. With
    /// `detached`, no gradient flows through the statistics into the scores.
    pub(crate) fn weights(
        &self,
        pass: &mut Pass<'_>,
        raw: &[Tensor],
        batch: &RetrieverBatch,
        detached: bool,
    ) -> Result<Tensor> {
        let (examples, cues) = (batch.examples(), raw.len());
        let mut statistics = Vec::with_capacity(cues * STATISTICS.len());
        for (cue, raw) in raw.iter().enumerate() {
            let raw = if detached { raw.detach() } else { raw.clone() };
            for statistic in STATISTICS {
                let value = pass.statistic(&raw, Some(batch.present(cue)), 1, statistic)?;
                statistics.push(value.reshape([examples, 1])?);
            }
        }
        let statistics = pass.concat(&statistics.iter().collect::<Vec<_>>(), 1)?;
        let statistics = statistics.reshape([examples, cues, STATISTICS.len()])?;
        let features = pass.concat(&[&statistics, &batch.gate_features], 2)?;
        let weight = pass.parameters.tensor(self.weight).reshape([self.features, 1])?;
        let logits = pass.linear(&features, &weight, None)?;
        pass.softmax(&logits.reshape([examples, cues])?, Some(batch.available()))
    }
}
