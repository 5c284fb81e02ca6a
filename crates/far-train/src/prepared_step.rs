//! What a step needs that does not depend on the steps before it, so that it can be made while the
//! step before is still computing.

use crate::Result;
use crate::change_mask::change_weights;
use crate::config::ChangeMaskConfig;
use crate::context_source::ContextSource;
use crate::example::Example;
use crate::step_times::timed;
use far_data::TrainingSampler;
use far_memory::{MemoryId, Retriever};
use far_model::{ConditionScale, EncodedDataset, LatentShape, Perturbations};
use std::ops::Range;
use std::time::Duration;

/// The examples of a step, their noise, and what a rule recalls for them.
pub(crate) struct PreparedStep {
    /// The step, from 0.
    pub step: u64,
    /// The examples with the embeddings of every encoder.
    pub examples: Vec<Example>,
    /// What is recalled for each; `None` where a retriever recalls that learns in between.
    pub recalled: Option<Vec<Vec<MemoryId>>>,
    /// Diffusion times and noises of the futures.
    pub drawn: Perturbations,
    /// Weights of the futures where something changed, B × E; `None` where all weigh the same.
    pub weights: Option<Vec<f32>>,
    /// How long examples and noise were drawn, and how long queries were embedded.
    pub drawing: Duration,
    /// See `drawing`.
    pub encoding: Duration,
}

/// Prepares steps: everything is a function of the seed and the number of the step.
pub(crate) struct StepPreparation<'a> {
    pub sampler: TrainingSampler<'a>,
    pub data: &'a EncodedDataset,
    pub source: ContextSource,
    pub scale: ConditionScale,
    /// How latents lie.
    pub shape: LatentShape,
    /// How what changed is weighed.
    pub change_mask: Option<ChangeMaskConfig>,
    /// Steps of the noise schedule that are learned at.
    pub levels: Range<usize>,
    pub slots: usize,
    pub seed: u64,
}

impl StepPreparation<'_> {
    /// Prepares a step; `learned` is the retriever that will recall for it, where that is known already.
    ///
    /// # Errors
    /// If an episode cannot be read, or an encoder or a policy refuses its input.
    pub fn make(&self, step: u64, learned: Option<&Retriever>) -> Result<PreparedStep> {
        let [mut drawing, mut encoding] = [Duration::ZERO; 2];
        let mut examples = timed(&mut drawing, || Example::draw(&self.sampler, self.data, step))?;
        timed(&mut encoding, || Example::embed(&mut examples, self.data, &self.scale))?;
        let asked: Vec<&Example> = examples.iter().collect();
        let recalled = match (&self.source, learned) {
            (ContextSource::Learned, None) => None,
            (source, learned) => Some(source.recall(learned, &asked, self.slots)?),
        };
        let dataset = self.data.dataset();
        let mask = self.change_mask.as_ref();
        let weights =
            mask.map(|mask| change_weights(mask, dataset, &asked, self.shape)).transpose()?;
        let sizes = [examples.len(), 1, self.shape.elements()];
        let drawn = timed(&mut drawing, || {
            let levels = self.levels.clone();
            Perturbations::stratified(levels, sizes, self.seed, "world model", step)
        });
        Ok(PreparedStep { step, examples, recalled, drawn, weights, drawing, encoding })
    }
}
