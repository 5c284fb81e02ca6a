//! A retriever that learns from credit: the second half of Algorithm 1.

use crate::example::Example;
use crate::step_times::{StepTimes, timed};
use crate::{CreditRule, Result, RetrieverSettings};
use far_memory::{MemoryId, Recall, Retriever, RetrieverConfig};
use far_model::{
    CandidateBatch, CandidatePools, PoolDraw, RetrieverBatch, RetrieverHealth,
    RetrieverTrainingConfig, TrainableRetriever, Utilities, UtilityConfig, UtilityMeter,
    WorldModel, candidate_distillation,
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
    settings: RetrieverSettings,
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
    /// A fresh retriever under the arm's name, which learns as the settings say.
    ///
    /// # Errors
    /// If the configuration is not one of a retriever.
    pub fn new(
        name: &str,
        config: RetrieverConfig,
        training: RetrieverTrainingConfig,
        optimizer: AdamWConfig,
        settings: &RetrieverSettings,
        seed: u64,
    ) -> Result<Self> {
        let mut builder = ArenaBuilder::new(name);
        let retriever = TrainableRetriever::new(&mut builder, config, training)?;
        let trained = Trained::new(builder.build(seed), optimizer);
        let policy = Arc::new(settings.with_selection(retriever.export(&trained.parameters)?));
        Ok(Self { name: name.to_owned(), retriever, trained, settings: settings.clone(), policy })
    }

    /// The retriever as its parameters stand.
    fn export(&self) -> Result<Retriever> {
        Ok(self.settings.with_selection(self.retriever.export(&self.trained.parameters)?))
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

    /// One update: recall, credit, posterior, distillation, whose times are added to `times`. `None`
    /// where no query has two candidates to choose between.
    ///
    /// # Errors
    /// If recall or the world model fails, or the loss is not finite; nothing has changed then.
    pub fn step(
        &mut self,
        examples: &[&Example],
        credit: &Credit<'_>,
        step: u64,
        times: &mut StepTimes,
    ) -> Result<Option<RetrieverReport>> {
        let pools = timed(&mut times.recall, || self.candidates(examples, credit, step))?;
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
            let loss = candidate_distillation(tape, &scores, &candidates, target)?;
            health = Some(RetrieverHealth::measure(&scores, &candidates, target)?);
            Ok(loss)
        })?;
        self.policy = Arc::new(self.export()?);
        Ok(health.map(|health| RetrieverReport { step, health, spread }))
    }

    /// The candidates of every example: for the paper's credit the memories recalled, each by itself; for
    /// that of sets those that compete for a slot, given the memories recalled before it.
    ///
    /// # Errors
    /// If recall fails.
    pub fn candidates(
        &self,
        examples: &[&Example],
        credit: &Credit<'_>,
        step: u64,
    ) -> Result<Vec<CandidatePools>> {
        let random =
            &mut Random::stream(credit.seed, &format!("candidates of {}", self.name), step);
        let (settings, slots) = (&self.settings, credit.slots);
        let config = self.retriever.config();
        let empty = config.set.as_ref().is_some_and(|set| set.abstains);
        let marginal = settings.credit == CreditRule::Marginal;
        // Even where a slot would stay empty, memories compete for it.
        let filling = self.policy().clone().without_abstaining();
        let asked = if marginal { 2 * slots - 1 } else { slots };
        let recalls = Example::recall_all(&filling, examples, asked)?;
        let mut pools = Vec::with_capacity(examples.len());
        let kept: Vec<usize> = if empty {
            let recalls = Example::recall_all(self.policy(), examples, slots)?;
            recalls.iter().map(Recall::len).collect()
        } else {
            vec![slots; examples.len()]
        };
        for ((recall, example), kept) in recalls.iter().zip(examples).zip(kept) {
            let (query, memory) = (&example.recall, example.query.episode().memory());
            let pool = memory.pool(&query.pool, query.pool_cap)?;
            // The slot after the last that was filled competes too: that is where recall stopped.
            let open = (kept + 1).min(slots).min(recall.len()).max(1);
            let draw = PoolDraw {
                chunk_size: settings.chunk_size,
                extra: settings.extra_candidates,
                taken: if marginal { random.below(open) } else { 0 },
                competing: slots,
                empty,
            };
            let mut drawn = CandidatePools::draw(recall, &pool, &draw, random)?;
            drawn.compare(config, query, memory)?;
            pools.push(drawn);
        }
        Ok(pools)
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
        self.policy = Arc::new(self.export()?);
        Ok(())
    }

    /// The policy that a checkpoint holds under this arm's name.
    ///
    /// # Errors
    /// If it holds another retriever.
    pub fn load_policy(mut self, checkpoint: &mut Checkpoint) -> Result<Retriever> {
        let prefix = self.prefix();
        checkpoint.load_parameters(&prefix, &mut self.trained.parameters, Matching::Strict)?;
        self.export()
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
    /// The utility of every candidate of every example, read with the memories that were recalled before
    /// it and no others; that of the empty memory is what those are worth.
    ///
    /// # Errors
    /// If the world model refuses a context.
    pub fn utilities(
        &self,
        examples: &[&Example],
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
                group.iter().map(|place| examples[*place].query.recorded()).collect();
            let weights = self.weights.map(|weights| {
                let row = |place: &usize| &weights[place * elements..(place + 1) * elements];
                group.iter().flat_map(row).copied().collect::<Vec<f32>>()
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
