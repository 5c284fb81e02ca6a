//! A retriever that learns from credit: the second half of Algorithm 1.

use crate::example::Example;
use crate::step_times::{StepTimes, timed};
use crate::{Result, RetrieverSettings};
use far_memory::{Recall, Retriever, RetrieverConfig};
use far_model::{
    CandidateBatch, CandidatePools, RetrieverBatch, RetrieverHealth, RetrieverTrainingConfig,
    TrainableRetriever, Utilities, UtilityConfig, UtilityMeter, WorldModel, candidate_distillation,
};
use far_tensor::{
    AdamWConfig, ArenaBuilder, Checkpoint, CheckpointWriter, Device, Matching, Random, Step, Tape,
    Trained,
};
use std::sync::Arc;

/// A learned arm: its parameters, and the policy they amount to.
pub struct LearnedRetriever {
    name: String,
    retriever: TrainableRetriever,
    trained: Trained,
    /// What the parameters amount to now; recall never waits for the engine.
    policy: Arc<Retriever>,
}

/// What one update of a retriever did.
#[derive(Clone, Debug, PartialEq)]
pub struct RetrieverReport {
    /// The loss, KL global + KL local, before the update.
    pub step: Step,
    /// How scores and utilities stood before it.
    pub health: RetrieverHealth,
    /// For each noise level how far apart it puts the candidates, in nats.
    pub spread: Vec<f32>,
}

impl LearnedRetriever {
    /// A fresh retriever under the arm's name.
    ///
    /// # Errors
    /// If the configuration is not one of a retriever.
    pub fn new(
        name: &str,
        config: RetrieverConfig,
        training: RetrieverTrainingConfig,
        optimizer: AdamWConfig,
        seed: u64,
    ) -> Result<Self> {
        let mut builder = ArenaBuilder::new(name);
        let retriever = TrainableRetriever::new(&mut builder, config, training)?;
        let trained = Trained::new(builder.build(seed), optimizer);
        let policy = Arc::new(retriever.export(&trained.parameters)?);
        Ok(Self { name: name.to_owned(), retriever, trained, policy })
    }

    /// The arm's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The retriever as it recalls now.
    pub fn policy(&self) -> &Retriever {
        &self.policy
    }

    /// The same, to be held while it learns on.
    pub fn shared_policy(&self) -> Arc<Retriever> {
        self.policy.clone()
    }

    /// Updates made.
    pub fn updates(&self) -> u64 {
        self.trained.optimizer.updates()
    }

    /// The memories of each example that get credit in a step: what is recalled now, what lies beside
    /// it, and some more.
    ///
    /// # Errors
    /// If recall fails.
    pub fn candidates(
        &self,
        examples: &[&Example],
        settings: &RetrieverSettings,
        credit: &Credit<'_>,
        step: u64,
    ) -> Result<Vec<CandidatePools>> {
        let recalls = Example::recall_all(self.policy(), examples, credit.slots)?;
        let mut random = Random::stream(credit.seed, &format!("candidates of {}", self.name), step);
        let (chunk_size, extra) = (self.retriever.config().chunk_size, settings.extra_candidates);
        let draw = |(recall, example): (&Recall, &&Example)| {
            let query = &example.recall;
            let pool = example.query.episode().memory().pool(&query.pool, query.pool_cap)?;
            Ok(CandidatePools::draw(recall, &pool, chunk_size, extra, &mut random)?)
        };
        recalls.iter().zip(examples).map(draw).collect()
    }

    /// One update: recall, credit, posterior, distillation, whose times are added to `times`. `None`
    /// where no query has two candidates to choose between.
    ///
    /// # Errors
    /// If recall or the world model fails, or the loss is not finite; nothing has changed then.
    pub fn step(
        &mut self,
        examples: &[&Example],
        credit: &Credit<'_>,
        settings: &RetrieverSettings,
        step: u64,
        times: &mut StepTimes,
    ) -> Result<Option<RetrieverReport>> {
        let pools = timed(&mut times.recall, || self.candidates(examples, settings, credit, step))?;
        let utilities = timed(&mut times.credit, || credit.utilities(examples, &pools, step))?;
        timed(&mut times.retriever, || self.learn(examples, &pools, utilities, credit))
    }

    /// One update from the utilities of candidates.
    fn learn(
        &mut self,
        examples: &[&Example],
        pools: &[CandidatePools],
        utilities: Utilities,
        credit: &Credit<'_>,
    ) -> Result<Option<RetrieverReport>> {
        let queries: Vec<_> = examples
            .iter()
            .map(|example| (&example.recall, example.query.episode().memory()))
            .collect();
        let Utilities { values, spread } = utilities;
        let batch = RetrieverBatch::new(self.retriever.config(), &queries)?;
        let candidates = CandidateBatch::new(batch.mask(), pools, &values)?;
        if candidates.is_empty() {
            return Ok(None);
        }
        let (retriever, target) = (&self.retriever, credit.config.target);
        let mut health = None;
        let step = self.trained.step(credit.device, 1, |tape: &mut Tape, parameters, _| {
            let scores = retriever.scores(tape, parameters, &batch)?;
            let loss = candidate_distillation(tape, &scores.fused, &candidates, target)?;
            health = Some(RetrieverHealth::measure(&scores, &candidates, target)?);
            Ok(loss)
        })?;
        self.policy = Arc::new(self.retriever.export(&self.trained.parameters)?);
        Ok(health.map(|health| RetrieverReport { step, health, spread }))
    }

    /// Adds everything needed to resume training to a checkpoint.
    pub fn save<'a>(&'a self, writer: CheckpointWriter<'a>) -> CheckpointWriter<'a> {
        self.trained.save(&self.prefix(), writer)
    }

    /// Takes everything back from a checkpoint.
    ///
    /// # Errors
    /// If it holds another retriever.
    pub fn load(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        self.trained.load(&self.prefix(), checkpoint)?;
        self.policy = Arc::new(self.retriever.export(&self.trained.parameters)?);
        Ok(())
    }

    /// The policy that a checkpoint holds under this arm's name.
    ///
    /// # Errors
    /// If it holds another retriever.
    pub fn load_policy(mut self, checkpoint: &mut Checkpoint) -> Result<Retriever> {
        let prefix = self.prefix();
        checkpoint.load_parameters(&prefix, &mut self.trained.parameters, Matching::Strict)?;
        Ok(self.retriever.export(&self.trained.parameters)?)
    }

    fn prefix(&self) -> String {
        format!("{}.", self.name)
    }
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
    /// The utility of every candidate of every example, each as the only memory that is read.
    ///
    /// # Errors
    /// If the world model refuses a context.
    pub fn utilities(
        &self,
        examples: &[&Example],
        pools: &[CandidatePools],
        step: u64,
    ) -> Result<Utilities> {
        let single = |pools: &CandidatePools| pools.ids.iter().map(|id| vec![id.index()]).collect();
        let candidates: Vec<Vec<Vec<usize>>> = pools.iter().map(single).collect();
        let presents: Vec<_> = examples.iter().map(|example| example.query.recorded()).collect();
        let elements = self.model.shape().elements();
        let drawn = self.config.perturbations(examples.len(), elements, self.seed, step);
        let (model, temperature) = (self.model, self.config.temperature);
        let meter = UtilityMeter { model, temperature, weights: self.weights };
        Ok(meter.measure(&presents, &candidates, &drawn)?)
    }
}
