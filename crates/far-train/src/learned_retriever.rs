//! A retriever that learns from credit: the second half of Algorithm 1.

use crate::question::{Question, recall};
use crate::{Result, RetrieverSettings};
use far_memory::{Retriever, RetrieverConfig};
use far_model::{
    CandidateBatch, CandidatePools, RetrieverBatch, RetrieverHealth, RetrieverTrainingConfig,
    TrainableRetriever, UtilityConfig, UtilityEstimator, WorldModel, candidate_distillation,
    with_auxiliary,
};
use far_tensor::{
    AdamWConfig, ArenaBuilder, Checkpoint, CheckpointWriter, Device, Random, Step, Tape, Trained,
};

/// A learned arm: its parameters, and the policy they amount to.
pub struct LearnedRetriever {
    name: String,
    retriever: TrainableRetriever,
    trained: Trained,
    /// What the parameters amount to now; recall never waits for the engine.
    policy: Retriever,
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
        let policy = retriever.export(&trained.parameters)?;
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

    /// Updates made.
    pub fn updates(&self) -> u64 {
        self.trained.optimizer.updates()
    }

    /// One update: recall, credit, posterior, distillation. `None` where no question has two
    /// candidates to choose between.
    ///
    /// # Errors
    /// If recall or the world model fails, or the loss is not finite; nothing has changed then.
    pub fn step(
        &mut self,
        questions: &[&Question],
        credit: &Credit<'_>,
        settings: &RetrieverSettings,
        step: u64,
    ) -> Result<Option<RetrieverReport>> {
        let config = self.retriever.config().clone();
        let examples: Vec<_> =
            questions.iter().map(|question| (&question.query, question.episode.memory())).collect();
        let recalls = recall(&self.policy, questions, credit.slots)?;
        let purpose = format!("candidates of {}", self.name);
        let mut random = Random::stream(credit.seed, &purpose, step);
        let mut pools = Vec::with_capacity(questions.len());
        for (recall, (query, memory)) in recalls.iter().zip(&examples) {
            let pool = memory.pool(&query.pool, query.pool_cap)?;
            let extra = settings.extra_candidates;
            pools.push(CandidatePools::draw(recall, &pool, config.chunk_size, extra, &mut random)?);
        }
        let (utilities, spread) = credit.utilities(questions, &pools, step)?;
        let batch = RetrieverBatch::new(&config, &examples)?;
        let candidates = CandidateBatch::new(batch.mask(), &pools, &utilities)?;
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
        self.policy = self.retriever.export(&self.trained.parameters)?;
        Ok(health.map(|health| RetrieverReport { step, health, spread }))
    }

    /// Adds everything that training needs to go on to a checkpoint.
    pub fn save<'a>(&'a self, writer: CheckpointWriter<'a>) -> CheckpointWriter<'a> {
        self.trained.save(&self.prefix(), writer)
    }

    /// Takes everything back from a checkpoint.
    ///
    /// # Errors
    /// If it holds another retriever.
    pub fn load(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        self.trained.load(&self.prefix(), checkpoint)?;
        self.policy = self.retriever.export(&self.trained.parameters)?;
        Ok(())
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
    /// Weights of the questions' futures with mean 1, where some elements count more.
    pub weights: Option<&'a [f32]>,
    /// What retrievers are updated on.
    pub device: &'a Device,
    /// Memories recalled per question, K.
    pub slots: usize,
    /// Seed of noises and draws.
    pub seed: u64,
}

impl Credit<'_> {
    /// The utility of every candidate of every question, and the mean spread by noise level.
    fn utilities(
        &self,
        questions: &[&Question],
        pools: &[CandidatePools],
        step: u64,
    ) -> Result<(Vec<Vec<f32>>, Vec<f32>)> {
        // Every future gets equally many contexts; shorter pools repeat "no memory at all".
        let most = pools.iter().map(|pools| pools.ids.len()).max().unwrap_or(0);
        let elements = self.model.shape().elements();
        let mut contexts = self.model.batch(1);
        let mut futures = Vec::with_capacity(questions.len() * elements);
        for (question, pools) in questions.iter().zip(pools) {
            let query = question.prediction_query();
            for place in 0..most {
                let memory = pools.ids.get(place).map(|id| id.index());
                let shown = question.episode.shown(memory);
                contexts.push(&query, question.latent(), shown)?;
            }
            futures.extend_from_slice(question.future_latent());
        }
        let drawn = self.config.perturbations(questions.len(), elements, self.seed, step);
        let losses = self.model.losses(&contexts, &futures, &drawn, self.weights)?;
        let estimator = UtilityEstimator { temperature: self.config.temperature, elements };
        // What else the model is taught counts as it does in training, beside the error of frames.
        let auxiliary = self.model.auxiliary_losses(&contexts)?;
        let counted = with_auxiliary(&losses, auxiliary.as_deref())?;
        let levels = drawn.draws;
        let mut utilities = Vec::with_capacity(questions.len());
        let mut spread = vec![0.0; levels];
        for (place, pools) in pools.iter().enumerate() {
            let own = place * most * levels..(place * most + pools.ids.len()) * levels;
            utilities.push(estimator.utilities(&counted[own.clone()], levels)?);
            let share = 1.0 / questions.len() as f32;
            let apart = estimator.spread(&losses[own], levels)?;
            spread.iter_mut().zip(apart).for_each(|(mean, own)| *mean += share * own);
        }
        Ok((utilities, spread))
    }
}
