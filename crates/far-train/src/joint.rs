//! Algorithm 1: the world model learns to predict from what is recalled, and recall learns from what
//! the prediction was worth.

use crate::change_mask::change_weights;
use crate::context_source::{ContextSource, disturb};
use crate::learned_retriever::{Credit, LearnedRetriever, RetrieverReport};
use crate::question::Question;
use crate::{Result, RetrieverSettings, TrainingSettings};
use far_data::{Anchor, SamplingConfig, TrainingSampler};
use far_model::{EncodedDataset, Perturbations, TrainableWorldModel, UtilityConfig};
use far_tensor::{Checkpoint, CheckpointWriter, Device, Step};

/// The note in checkpoints that counts the steps.
const STEP: &str = "step";

/// The settings of a [`Joint`] training.
#[derive(Clone, Debug)]
pub struct JointConfig {
    /// Steps, slots, seed and rates of the world model.
    pub training: TrainingSettings,
    /// How recall is learned.
    pub retriever: RetrieverSettings,
    /// What a memory is credited with.
    pub utility: UtilityConfig,
    /// How examples are drawn.
    pub sampling: SamplingConfig,
}

/// A world model and the retrievers that learn from its credit.
pub struct Joint<'a> {
    config: JointConfig,
    data: &'a EncodedDataset,
    sampler: TrainingSampler<'a>,
    device: Device,
    model: Box<dyn TrainableWorldModel>,
    source: ContextSource,
    retrievers: Vec<LearnedRetriever>,
    step: u64,
}

/// What one step did.
#[derive(Clone, Debug, PartialEq)]
pub struct JointStep {
    /// The number of this step, from 1.
    pub number: u64,
    /// The world model's loss and update.
    pub world_model: Step,
    /// What each retriever learned, by name, in steps where they do.
    pub retrievers: Vec<(String, RetrieverReport)>,
}

impl<'a> Joint<'a> {
    /// Begins to train `model` on contexts from `source`, with `retrievers` learning beside it.
    ///
    /// # Errors
    /// If there is nothing to draw examples from.
    pub fn new(
        config: JointConfig,
        data: &'a EncodedDataset,
        model: Box<dyn TrainableWorldModel>,
        source: ContextSource,
        retrievers: Vec<LearnedRetriever>,
        device: &Device,
    ) -> Result<Self> {
        config.utility.check(model.schedule().steps())?;
        let sampler = TrainingSampler::new(data.dataset(), config.sampling.clone())?;
        let device = device.clone();
        Ok(Self { config, data, sampler, device, model, source, retrievers, step: 0 })
    }

    /// Steps made.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// The world model.
    pub fn model(&self) -> &dyn TrainableWorldModel {
        self.model.as_ref()
    }

    /// The retrievers.
    pub fn retrievers(&self) -> &[LearnedRetriever] {
        &self.retrievers
    }

    /// One step: sample, recall, update the world model, and every so often the retrievers.
    ///
    /// All that is drawn comes from streams named by the step, so that a training that was
    /// interrupted goes on as if it had not been.
    ///
    /// # Errors
    /// If a loss is not finite or something cannot be read; the step has not been made then.
    pub fn step(&mut self) -> Result<JointStep> {
        let JointConfig { training, retriever, .. } = &self.config;
        let number = self.step + 1;
        let scale = self.model.scale();
        let questions = Question::batch(&self.sampler, self.data, &scale, self.step)?;
        let questions: Vec<&Question> = questions.iter().collect();

        let learned = self.retrievers.first().map(LearnedRetriever::policy);
        let mut recalled = self.source.recall(learned, &questions, training.slots)?;
        disturb(&mut recalled, &questions, retriever, training.seed, self.step)?;

        let mut contexts = self.model.batch(training.slots);
        let mut futures = Vec::new();
        for (question, ids) in questions.iter().zip(&recalled) {
            let memories = ids.iter().map(|id| question.episode.remembered(id.index()));
            contexts.push(&question.prediction_query(), question.latent(), memories)?;
            futures.extend_from_slice(question.future_latent());
        }
        let sizes = [questions.len(), 1, self.model.shape().elements()];
        let levels = 0..self.model.schedule().steps();
        let drawn =
            Perturbations::stratified(levels, sizes, training.seed, "world model", self.step);
        let (weights, parts) = (self.weights(&questions, true)?, training.micro_batches);
        let world_model =
            self.model.train(&contexts, &futures, &drawn, weights.as_deref(), parts)?;

        let due = number > retriever.start && number.is_multiple_of(retriever.interval);
        let retrievers = if due { self.teach(&questions)? } else { Vec::new() };
        self.step = number;
        Ok(JointStep { number, world_model, retrievers })
    }

    /// The weights of the futures where something changed, if they are `wanted`.
    fn weights(&self, questions: &[&Question], wanted: bool) -> Result<Option<Vec<f32>>> {
        let mask = self.config.training.change_mask.filter(|_| wanted);
        let (dataset, shape) = (self.data.dataset(), self.model.shape());
        mask.map(|mask| change_weights(&mask, dataset, questions, shape)).transpose()
    }

    /// The retrievers' part of a step.
    fn teach(&mut self, questions: &[&Question]) -> Result<Vec<(String, RetrieverReport)>> {
        let JointConfig { training, retriever, utility, .. } = &self.config;
        let teaches =
            |question: &&&Question| !retriever.anchored_only || question.anchor != Anchor::None;
        let most = if retriever.queries == 0 { usize::MAX } else { retriever.queries };
        let questions: Vec<&Question> =
            questions.iter().filter(teaches).take(most).copied().collect();
        if questions.is_empty() {
            return Ok(Vec::new());
        }
        let in_utility = training.change_mask.is_some_and(|mask| mask.in_utility);
        let weights = self.weights(&questions, in_utility)?;
        let credit = Credit {
            weights: weights.as_deref(),
            model: self.model.as_ref(),
            config: utility,
            device: &self.device,
            slots: training.slots,
            seed: training.seed,
        };
        let mut reports = Vec::new();
        for learner in &mut self.retrievers {
            if let Some(report) = learner.step(&questions, &credit, retriever, self.step)? {
                reports.push((learner.name().to_owned(), report));
            }
        }
        Ok(reports)
    }

    /// Everything that training needs to go on.
    pub fn checkpoint(&self) -> CheckpointWriter<'_> {
        let writer = CheckpointWriter::new().note(STEP, self.step.to_string());
        let writer = self.model.save(writer);
        self.retrievers.iter().fold(writer, |writer, retriever| retriever.save(writer))
    }

    /// Goes on from a checkpoint.
    ///
    /// # Errors
    /// If it comes from another architecture.
    pub fn resume(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        let step = checkpoint.notes().get(STEP).and_then(|step| step.parse().ok());
        let step = step.ok_or_else(|| {
            crate::Error::setting("checkpoint", "it does not say how many steps were made")
        })?;
        self.model.load(checkpoint)?;
        for retriever in &mut self.retrievers {
            retriever.load(checkpoint)?;
        }
        checkpoint.expect_all_used()?;
        self.step = step;
        Ok(())
    }
}
