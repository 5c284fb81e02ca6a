//! Credit: what the world model says candidates were worth, once the future is known.

use crate::Result;
use crate::example::Example;
use far_memory::MemoryId;
use far_model::{CandidatePools, Utilities, UtilityConfig, UtilityMeter, WorldModel};
use far_tensor::Device;

/// What a retriever is asked in a step.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// The example.
    pub example: &'a Example,
    /// Its place among the examples of the step.
    pub row: usize,
    /// Whether candidates compete for a slot after the first, given what fills those before it.
    pub later: bool,
    /// Whether the memories are of another place: these teach what memories are worth, and no score.
    pub foreign: bool,
}

/// Who gives credit, and how.
pub struct Credit<'a> {
    /// The world model whose loss counts.
    pub model: &'a dyn WorldModel,
    /// Noise levels and scale.
    pub config: &'a UtilityConfig,
    /// Weights of the examples' futures with mean 1, where some elements count more.
    pub weights: Option<&'a [f32]>,
    /// What retrievers are updated on.
    pub device: &'a Device,
    /// Memories recalled per query, K.
    pub slots: usize,
    /// Seed of noises and draws.
    pub seed: u64,
}

impl Credit<'_> {
    /// The utility of every candidate of every question, read with the memories that were recalled before
    /// it and no others; that of the empty memory is what those are worth.
    ///
    /// # Errors
    /// If the world model refuses a context.
    pub fn utilities(
        &self,
        questions: &[Question<'_>],
        pools: &[CandidatePools],
        step: u64,
    ) -> Result<Utilities> {
        let elements = self.model.shape().elements();
        let mut values = vec![Vec::new(); pools.len()];
        let mut spread = vec![0.0; self.config.levels];
        let most = pools.iter().map(|pools| pools.taken.len()).max().unwrap_or(0);
        // Contexts of one length at a time: a shorter one would be padded to the longest.
        for taken in 0..=most {
            let own = |place: &usize| pools[*place].taken.len() == taken;
            let group: Vec<usize> = (0..pools.len()).filter(own).collect();
            if group.is_empty() {
                continue;
            }
            let candidates: Vec<_> = group.iter().map(|place| contexts(&pools[*place])).collect();
            let presents: Vec<_> =
                group.iter().map(|place| questions[*place].example.query.recorded()).collect();
            let weights = self.weights.map(|weights| {
                let rows = group.iter().map(|place| questions[*place].row);
                let own = |row: usize| &weights[row * elements..(row + 1) * elements];
                rows.flat_map(own).copied().collect::<Vec<f32>>()
            });
            // Each length of context draws noise of its own; the first, that of single credit, by the step.
            let draw = step | (taken as u64) << 48;
            let drawn = self.config.perturbations(group.len(), elements, self.seed, draw);
            let (model, temperature) = (self.model, self.config.temperature);
            let meter = UtilityMeter { model, temperature, weights: weights.as_deref() };
            let measured = meter.measure(&presents, &candidates, &drawn)?;
            let share = group.len() as f32 / pools.len() as f32;
            spread.iter_mut().zip(measured.spread).for_each(|(sum, own)| *sum += share * own);
            group.iter().zip(measured.values).for_each(|(place, own)| values[*place] = own);
        }
        Ok(Utilities { values, spread })
    }
}

/// What the world model reads for each candidate: the memories recalled before and the candidate, for the
/// empty memory only those before.
fn contexts(pools: &CandidatePools) -> Vec<Vec<usize>> {
    let taken: Vec<usize> = pools.taken.iter().map(|id| id.index()).collect();
    let with = |id: &MemoryId| taken.iter().copied().chain([id.index()]).collect();
    let mut contexts: Vec<Vec<usize>> = pools.ids.iter().map(with).collect();
    contexts.extend(pools.empty.then(|| taken.clone()));
    contexts
}
