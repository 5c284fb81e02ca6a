//! Algorithm 1: the world model learns to predict from what is recalled, and recall learns from what
//! the prediction was worth.

use crate::change_mask::change_weights;
use crate::context_source::{ContextSource, perturb_contexts};
use crate::credit::Credit;
use crate::example::Example;
use crate::learned_retriever::{LearnedRetriever, RetrieverReport};
use crate::prepared_step::{PreparedStep, StepPreparation};
use crate::step_times::{StepTimes, timed};
use crate::{Error, Result, RetrieverSettings, TrainingSettings};
use far_data::{Anchor, SamplingConfig, TrainingSampler};
use far_model::{
    ContextBatch, ContextBuilder, EncodedDataset, Future, Futures, TrainableWorldModel,
    UtilityConfig,
};
use far_tensor::{Checkpoint, CheckpointWriter, Device, Step};
use std::sync::Arc;

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
    maker: Arc<StepPreparation<'a>>,
    device: Device,
    model: Box<dyn TrainableWorldModel>,
    retrievers: Vec<LearnedRetriever>,
    step: u64,
    /// The next step, made while the last one was computed.
    next: Option<PreparedStep>,
    times: StepTimes,
    all_times: StepTimes,
    made: u64,
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
    /// Begins to train `model` on contexts from `source`, with `retrievers` learning beside it on
    /// `device`.
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
        let (least_noisy, levels) = (config.training.least_noisy, model.schedule().steps());
        config.utility.check(levels)?;
        if least_noisy >= levels {
            let reason = format!("{least_noisy} is not below {levels}");
            return Err(Error::setting("training.least_noisy", reason));
        }
        let sampler = TrainingSampler::new(data.dataset(), config.sampling.clone())?;
        let maker = StepPreparation {
            sampler,
            data,
            source,
            scale: model.scale(),
            shape: model.shape(),
            change_mask: config.training.change_mask,
            levels: least_noisy..levels,
            slots: config.training.slots,
            seed: config.training.seed,
        };
        let (maker, device) = (Arc::new(maker), device.clone());
        Ok(Self {
            config,
            maker,
            device,
            model,
            retrievers,
            step: 0,
            next: None,
            times: StepTimes::default(),
            all_times: StepTimes::default(),
            made: 0,
        })
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

    /// Where the time of the last step went.
    pub fn times(&self) -> &StepTimes {
        &self.times
    }

    /// Where the time of all steps went that this loop made itself, and how many they were.
    pub fn all_times(&self) -> (StepTimes, u64) {
        (self.all_times, self.made)
    }

    /// One step: sample, recall, update the world model, and every so often the retrievers.
    ///
    /// All that is drawn comes from streams named by the step, so that a training that was
    /// interrupted resumes as if it had not been. This also lets the next step's examples be
    /// drawn on another thread while this one computes: a GPU need not wait for them.
    ///
    /// # Errors
    /// If a loss is not finite or something cannot be read; the step has not been made then.
    pub fn step(&mut self) -> Result<JointStep> {
        let mut times = StepTimes::default();
        let prepared = match self.next.take().filter(|next| next.step == self.step) {
            Some(next) => next,
            None => timed(&mut times.waiting, || self.prepare())?,
        };
        (times.drawing, times.encoding) = (prepared.drawing, prepared.encoding);
        let (contexts, futures) = self.contexts(&prepared, &mut times)?;
        let number = self.step + 1;
        let maker = self.maker.clone();
        // Where no retriever learns in this step, it is known who recalls in the next.
        let recalls = self.retrievers.first().filter(|_| !self.config.retriever.is_due(number));
        let recalls = recalls.map(LearnedRetriever::shared_policy);
        let (made, next) = std::thread::scope(|scope| {
            let more = number < self.config.training.steps;
            let next = more.then(|| scope.spawn(|| maker.make(number, recalls.as_deref())));
            let made = self.learn(&prepared, &contexts, &futures, &mut times);
            let next = timed(&mut times.waiting, || {
                next.map(|next| next.join().expect("preparing a step does not panic"))
            });
            (made, next)
        });
        let (world_model, retrievers) = made?;
        // A failed preparation is tried again, and reported, in the step that needs it.
        self.next = next.and_then(Result::ok);
        self.step = number;
        self.all_times.add(&times);
        self.made += 1;
        self.times = times;
        Ok(JointStep { number, world_model, retrievers })
    }

    /// The world model's update and, where they are due, those of the retrievers.
    fn learn(
        &mut self,
        prepared: &PreparedStep,
        contexts: &ContextBatch<'_>,
        futures: &Futures,
        times: &mut StepTimes,
    ) -> Result<(Step, Vec<(String, RetrieverReport)>)> {
        let made = timed(&mut times.network, || self.train(prepared, contexts, futures))?;
        let due = self.config.retriever.is_due(self.step + 1);
        let taught = if due { self.teach(prepared, times)? } else { Vec::new() };
        Ok((made, taught))
    }

    /// The world model's part of a step.
    pub(crate) fn train(
        &mut self,
        prepared: &PreparedStep,
        contexts: &ContextBatch<'_>,
        futures: &Futures,
    ) -> Result<Step> {
        let (drawn, weights) = (&prepared.drawn, prepared.weights.as_deref());
        let parts = self.config.training.micro_batches;
        Ok(self.model.train(contexts, futures, drawn, weights, parts)?)
    }

    /// What the world model reads for each example, and what it should predict.
    pub(crate) fn contexts<'p>(
        &self,
        prepared: &'p PreparedStep,
        times: &mut StepTimes,
    ) -> Result<(ContextBatch<'p>, Futures)> {
        let JointConfig { training, retriever, .. } = &self.config;
        let examples: Vec<&Example> = prepared.examples.iter().collect();
        let mut recalled = timed(&mut times.recall, || match &prepared.recalled {
            Some(recalled) => Ok(recalled.clone()),
            None => {
                let learned = self.retrievers.first().map(LearnedRetriever::policy);
                self.maker.source.recall(learned, &examples, training.slots)
            }
        })?;
        timed(&mut times.contexts, || {
            perturb_contexts(&mut recalled, &examples, retriever, training.seed, prepared.step)?;
            let mut contexts = ContextBuilder::new(self.model.as_ref(), training.slots);
            for (example, ids) in prepared.examples.iter().zip(&recalled) {
                contexts.add(example.query.recorded(), ids.iter().map(|id| id.index()))?;
            }
            let futures = prepared.examples.iter().map(|example| Future::of(&example.query));
            Ok((contexts.build(), futures.collect()))
        })
    }

    /// The retrievers' part of a step.
    fn teach(
        &mut self,
        prepared: &PreparedStep,
        times: &mut StepTimes,
    ) -> Result<Vec<(String, RetrieverReport)>> {
        let examples = self.taught(prepared);
        if examples.is_empty() {
            return Ok(Vec::new());
        }
        let weights = self.utility_weights(&examples)?;
        let mut retrievers = std::mem::take(&mut self.retrievers);
        let credit = self.credit(weights.as_deref());
        let reports = retrievers.iter_mut().filter_map(|learner| {
            let report = learner.step(&examples, &credit, self.step, times);
            report.map(|report| Some((learner.name().to_owned(), report?))).transpose()
        });
        let reports = reports.collect();
        self.retrievers = retrievers;
        reports
    }

    /// The examples of a step that the retrievers learn from.
    pub(crate) fn taught<'p>(&self, prepared: &'p PreparedStep) -> Vec<&'p Example> {
        let RetrieverSettings { queries, anchored_only, .. } = self.config.retriever;
        let most = if queries == 0 { usize::MAX } else { queries };
        let taught = |example: &&Example| !anchored_only || example.anchor != Anchor::None;
        prepared.examples.iter().filter(taught).take(most).collect()
    }

    /// How the futures of examples weigh in credits.
    pub(crate) fn utility_weights(&self, examples: &[&Example]) -> Result<Option<Vec<f32>>> {
        let mask = self.config.training.change_mask.and_then(|mask| mask.of_utility());
        let (dataset, shape) = (self.maker.data.dataset(), self.maker.shape);
        mask.map(|mask| change_weights(&mask, dataset, examples, shape)).transpose()
    }

    /// Who gives credit, where futures weigh so.
    pub(crate) fn credit<'c>(&'c self, weights: Option<&'c [f32]>) -> Credit<'c> {
        let JointConfig { training, utility, .. } = &self.config;
        Credit {
            weights,
            model: self.model.as_ref(),
            config: utility,
            device: &self.device,
            slots: training.slots,
            seed: training.seed,
        }
    }

    /// The next step's examples, by themselves.
    pub(crate) fn prepare(&self) -> Result<PreparedStep> {
        self.maker.make(self.step, None)
    }

    /// Everything needed to resume training.
    pub fn checkpoint(&self) -> CheckpointWriter<'_> {
        let writer = CheckpointWriter::new().note(STEP, self.step.to_string());
        let writer = self.model.save(writer);
        self.retrievers.iter().fold(writer, |writer, retriever| retriever.save(writer))
    }

    /// Resumes from a checkpoint.
    ///
    /// # Errors
    /// If it comes from another architecture.
    pub fn resume(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        let step = checkpoint.notes().get(STEP).and_then(|step| step.parse().ok());
        let step = step.ok_or_else(|| {
            Error::setting("checkpoint", "it does not say how many steps were made")
        })?;
        self.model.load(checkpoint)?;
        for retriever in &mut self.retrievers {
            retriever.load(checkpoint)?;
        }
        checkpoint.expect_all_used()?;
        self.step = step;
        self.next = None;
        Ok(())
    }
}
