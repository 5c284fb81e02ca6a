//! `[retriever]`: how recall is learned.

use crate::config::{Arm, FarArm};
use crate::{Error, Result};
use far_memory::{
    Activation, AdapterKind, CueConfig, FeatureSet, GateConfig, Retriever, RetrieverConfig,
    ScorerConfig, SetConfig,
};
use far_model::METADATA_CUE;
use serde::{Deserialize, Serialize};

/// Hidden units of the metadata scorer's layers and of query adapters; the paper gives none.
const WIDTH: usize = 128;

/// What a candidate memory is credited with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CreditRule {
    /// How much it helps alone: the paper's.
    Single,
    /// The same for the first slot, and for some queries how much it adds to the memories recalled before a
    /// later one.
    Marginal,
}

/// How the slots of a recall are filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SelectionRule {
    /// The best of each chunk: the paper's.
    Chunks,
    /// Slot by slot, less a penalty made by hand for what is near a recalled memory: a control.
    ByHand,
    /// Slot by slot, less a learned term for what repeats a recalled memory.
    Learned,
    /// The same, and slots stay empty where nothing helps.
    Abstaining,
}

/// The penalty of [`SelectionRule::ByHand`], in deviations of the scores.
const PENALTY_BY_HAND: f32 = 1.0;

/// The probability of exploration after `exploration_steps`.
const EXPLORATION_END: f32 = 0.1;

/// The settings of the retriever's steps and of its size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetrieverSettings {
    /// What a candidate memory is credited with. Paper: alone.
    pub credit: CreditRule,
    /// How slots are filled. Paper: one memory per chunk.
    pub selection: SelectionRule,
    /// World-model steps per retriever step, N_lazy. Paper: 20; dyn 7.
    pub interval: u64,
    /// Steps from `start` on after each of which the retriever learns: until recall is good, the world
    /// model learns to read from poor contexts.
    pub eager: u64,
    /// Learning rate. Paper: 1e-4, which needs about twice the updates of 1e-3.
    pub learning_rate: f32,
    /// The gate's learning rate as a multiple of the retriever's: at 1 the gate hardly moves.
    pub gate_rate_factor: f32,
    /// Updates of the retriever over which its learning rate rises.
    pub warm_up: u64,
    /// Examples of the batch that a retriever step uses; all when 0.
    pub queries: usize,
    /// Step of the world model from which the retriever learns.
    pub start: u64,
    /// Steps over which contexts explore: the probability that a recalled memory is replaced by a random
    /// one falls linearly from 1. Contexts never explore when 0.
    pub exploration_steps: u64,
    /// Random memories added to the global pool of candidates.
    pub extra_candidates: usize,
    /// Probability that the world model trains on a random number of memories instead of all slots.
    pub random_length: f32,
    /// Consecutive memories of which at most one is recalled, n_c. Paper: 10; dyn 30.
    pub chunk_size: usize,
    /// Layers of the metadata scorer, 2 or 3. Paper: 2, AI2-THOR 3.
    pub metadata_layers: usize,
    /// Meters and seconds that count as 1 in the metadata scorer.
    pub scales: [f32; 2],
    /// Whether only anchored examples teach the retriever. Paper: dyn.
    pub anchored_only: bool,
}

impl RetrieverSettings {
    /// Retriever updates in a run of so many steps.
    ///
    /// Step n (from 1) of the world model is followed by one when [`RetrieverSettings::is_due`].
    pub fn updates(&self, steps: u64) -> u64 {
        let calm = self.start.saturating_add(self.eager);
        let eager = calm.min(steps).saturating_sub(self.start);
        let interval = self.interval.max(1);
        eager + (steps / interval).saturating_sub(calm / interval)
    }

    /// Whether the retriever learns after step n (from 1) of the world model: n > start, and either
    /// n ≤ start + eager or n is a multiple of the interval.
    pub fn is_due(&self, number: u64) -> bool {
        let eager = number <= self.start.saturating_add(self.eager);
        number > self.start && (eager || number.is_multiple_of(self.interval))
    }

    /// What the retriever of a learned arm consists of, for keys of so many numbers by cue and
    /// strides in units of so many seconds.
    pub fn config(
        &self,
        arm: &FarArm,
        dimension: impl Fn(&str) -> usize,
        stride_scale: f32,
    ) -> RetrieverConfig {
        let [length_scale, time_scale] = self.scales;
        let mut cues = Vec::new();
        if arm.metadata {
            let scorer = ScorerConfig::Metadata {
                features: FeatureSet::RelativePoseTime1,
                activation: Activation::GeluTanh,
                layers: self.metadata_layers,
                width: WIDTH,
                length_scale,
                time_scale,
            };
            cues.push(CueConfig { name: METADATA_CUE.to_owned(), scorer });
        }
        for name in &arm.keys {
            let is_identity = arm.adapter == AdapterKind::Identity;
            let adapter_width = if is_identity { 0 } else { WIDTH };
            let (dimension, adapter) = (dimension(name), arm.adapter);
            let scorer = ScorerConfig::Cosine { dimension, adapter, adapter_width };
            cues.push(CueConfig { name: name.clone(), scorer });
        }
        // Without the stride by cue, a stride could not change the weights.
        let gate = GateConfig { stride_products: true, stride_scale };
        let learned = matches!(self.selection, SelectionRule::Learned | SelectionRule::Abstaining);
        let set = learned.then(|| SetConfig {
            length_scale,
            time_scale,
            key: arm.keys.first().cloned(),
            abstains: self.selection == SelectionRule::Abstaining,
        });
        RetrieverConfig { cues, chunk_size: self.chunk_size, gate, set }
    }

    /// A trained retriever with the selection that nothing has to be learned for.
    pub fn with_selection(&self, retriever: Retriever) -> Retriever {
        match self.selection {
            SelectionRule::ByHand => retriever.with_penalty_by_hand(PENALTY_BY_HAND),
            _ => retriever,
        }
    }

    /// The probability of exploration at a step.
    pub fn exploration_at(&self, step: u64) -> f32 {
        if self.exploration_steps == 0 {
            return 0.0;
        }
        let way = (step as f32 / self.exploration_steps as f32).min(1.0);
        1.0 + way * (EXPLORATION_END - 1.0)
    }

    pub(super) fn check(&self, arm: &Arm, batch: u32, anchored: bool) -> Result<()> {
        let share = |key: &str, value: f32| {
            if (0.0..=1.0).contains(&value) {
                Ok(())
            } else {
                Err(Error::setting(key, format!("{value} is no probability")))
            }
        };
        super::positive("retriever.interval", self.interval)?;
        super::positive("retriever.chunk_size", self.chunk_size as u64)?;
        self.scales
            .iter()
            .try_for_each(|scale| super::positive_number("retriever.scales", *scale))?;
        super::positive_number("retriever.learning_rate", self.learning_rate)?;
        super::positive_number("retriever.gate_rate_factor", self.gate_rate_factor)?;
        share("retriever.random_length", self.random_length)?;
        if !matches!(self.metadata_layers, 2 | 3) {
            let reason = format!("{} layers; 2 or 3 are possible", self.metadata_layers);
            return Err(Error::setting("retriever.metadata_layers", reason));
        }
        if self.queries > batch as usize {
            let reason = format!("{} of a batch of {batch}", self.queries);
            return Err(Error::setting("retriever.queries", reason));
        }
        if self.anchored_only && !anchored && matches!(arm, Arm::Far(_)) {
            let reason = "nothing would be learned without [data.anchor]";
            return Err(Error::setting("retriever.anchored_only", reason));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::TrainConfig;

    #[test]
    fn as_many_updates_are_promised_as_steps_are_due() {
        let base = TrainConfig::default().retriever;
        for (start, eager, interval) in [(0, 0, 5), (7, 0, 3), (0, 10, 4), (5, 6, 3), (90, 20, 7)] {
            let settings = super::RetrieverSettings { start, eager, interval, ..base.clone() };
            for steps in [1, 5, 11, 60, 100] {
                let due = (1..=steps).filter(|number| settings.is_due(*number)).count() as u64;
                assert_eq!(settings.updates(steps), due, "{start} {eager} {interval} {steps}");
            }
        }
    }
}
