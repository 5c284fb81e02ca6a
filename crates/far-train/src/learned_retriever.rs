//! A retriever that learns from credit: the second half of Algorithm 1.

use crate::credit::{Credit, Question};
use crate::example::Example;
use crate::step_times::{StepTimes, timed};
use crate::{CreditRule, Result, RetrieverSettings};
use far_memory::{MemoryId, RecallPolicy, Retriever, RetrieverConfig};
use far_model::{
    CandidateBatch, CandidatePools, Pass, PoolDraw, RetrieverBatch, RetrieverHealth,
    RetrieverTrainingConfig, TrainableRetriever, Utilities, candidate_distillation,
};
use far_tensor::{
    AdamWConfig, ArenaBuilder, Checkpoint, CheckpointWriter, Matching, Random, Step, Tape, Trained,
};
use std::sync::Arc;

/// Of one in so many examples more is asked than what would help first: what would add to a set. The few
/// numbers of the set term need no more, and the scores get all of the first slot's credit: with a third
/// of it the first memory was worse.
const MORE: usize = 8;

/// One in so many examples is asked with foreign memories too, where slots may stay empty.
const ABROAD: usize = 4;

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
        let abroad = timed(&mut times.recall, || self.abroad(examples))?;
        let mut questions = self.questions(examples, credit);
        questions.extend(abroad.iter().map(|(row, example)| Question {
            example,
            row: *row,
            later: false,
            foreign: true,
        }));
        let pools = timed(&mut times.recall, || self.candidates(&questions, credit, step))?;
        // The batch does not depend on the credit: it is read while the world model computes.
        let (batch, utilities) = std::thread::scope(|scope| {
            let batch = scope.spawn(|| self.batch(&questions));
            let utilities = timed(&mut times.credit, || credit.utilities(&questions, &pools, step));
            let batch = timed(&mut times.retriever, || batch.join());
            (batch.expect("reading a batch does not panic"), utilities)
        });
        let (batch, utilities) = (batch?, utilities?);
        timed(&mut times.retriever, || self.learn(&batch, &pools, utilities, credit))
    }

    /// The memories of all questions as the retriever reads them.
    fn batch(&self, questions: &[Question<'_>]) -> Result<RetrieverBatch> {
        let queries: Vec<_> = questions
            .iter()
            .map(|asked| (&asked.example.recall, asked.example.query.episode().memory()))
            .collect();
        Ok(RetrieverBatch::new(self.retriever.config(), &queries)?)
    }

    /// What is asked about examples: what would help first about each, and, for the credit of sets, of some
    /// once more what would add to those recalled before.
    pub fn questions<'e>(
        &self,
        examples: &[&'e Example],
        credit: &Credit<'_>,
    ) -> Vec<Question<'e>> {
        let all = |later| {
            let examples = examples.iter().copied().enumerate();
            examples.map(move |(row, example)| Question { example, row, later, foreign: false })
        };
        let sets = self.settings.credit == CreditRule::Marginal && credit.slots > 1;
        all(false).chain(all(true).step_by(MORE).filter(|_| sets)).collect()
    }

    /// Some examples, by their places, with the memories of the next one of another episode, where slots may
    /// stay empty: who never lacks a memory cannot learn when to do without.
    fn abroad(&self, examples: &[&Example]) -> Result<Vec<(usize, Example)>> {
        let episode = |example: &Example| example.query.episode().id();
        let mut abroad = Vec::new();
        for place in (0..examples.len()).step_by(ABROAD).filter(|_| self.policy.abstains()) {
            let (own, others) = (examples[place], examples.iter().cycle().skip(place + 1));
            let mut others = others.copied().take(examples.len() - 1);
            if let Some(other) = others.find(|other| episode(other) != episode(own)) {
                abroad.push((place, own.with_memories_of(other)?));
            }
        }
        Ok(abroad)
    }

    /// One update from the utilities of candidates.
    fn learn(
        &mut self,
        batch: &RetrieverBatch,
        pools: &[CandidatePools],
        utilities: Utilities,
        credit: &Credit<'_>,
    ) -> Result<Option<RetrieverReport>> {
        let Utilities { values, spread } = utilities;
        let candidates = CandidateBatch::new(batch.mask(), pools, &values)?;
        if candidates.is_empty() {
            return Ok(None);
        }
        let (retriever, target) = (&self.retriever, credit.config.target);
        let mut health = None;
        let step = self.trained.step(credit.device, 1, |tape: &mut Tape, parameters, _| {
            let scores = retriever.scores(&mut Pass::new(tape, parameters), batch)?;
            let loss = candidate_distillation(tape, &scores, &candidates, target)?;
            health = Some(RetrieverHealth::measure(&scores, &candidates, target)?);
            Ok(loss)
        })?;
        self.policy = Arc::new(self.export()?);
        Ok(health.map(|health| RetrieverReport { step, health, spread }))
    }

    /// The candidates of every question: those that would be recalled first, or those that compete for a
    /// later slot, given the memories recalled before it.
    ///
    /// # Errors
    /// If recall fails.
    pub fn candidates(
        &self,
        questions: &[Question<'_>],
        credit: &Credit<'_>,
        step: u64,
    ) -> Result<Vec<CandidatePools>> {
        let random =
            &mut Random::stream(credit.seed, &format!("candidates of {}", self.name), step);
        let (settings, slots) = (&self.settings, credit.slots);
        let config = self.retriever.config();
        let abstains = self.policy.abstains();
        let examples: Vec<&Example> = questions.iter().map(|question| question.example).collect();
        // Even where a slot would stay empty, memories compete for it.
        let filling = self.policy().clone().without_abstaining();
        let later = questions.iter().any(|question| question.later);
        let asked = if later { 2 * slots - 1 } else { slots };
        let recalls = Example::recall_all(&filling, &examples, asked)?;
        let stopped = (later && abstains)
            .then(|| Example::recall_all(self.policy(), &examples, slots))
            .transpose()?;
        let recalled = stopped.as_ref().unwrap_or(&recalls);
        let mut pools = Vec::with_capacity(questions.len());
        for ((recall, recalled), question) in recalls.iter().zip(recalled).zip(questions) {
            let Example { query, recall: asked, .. } = question.example;
            let memory = query.episode().memory();
            let pool = memory.pool(&asked.pool, asked.pool_cap)?;
            // The slot after the last that was filled competes too: that is where recall stopped.
            let open = (recalled.len() + 1).min(slots).min(recall.len());
            let taken = if question.later && open > 1 { 1 + random.below(open - 1) } else { 0 };
            let taken: Vec<MemoryId> = recalled.ids().take(taken).collect();
            let (chunk_size, extra) = (settings.chunk_size, settings.extra_candidates);
            // Foreign candidates have nothing to compete for: those that would be recalled are enough.
            let (chunk_size, extra) = if question.foreign { (1, 0) } else { (chunk_size, extra) };
            let foreign = question.foreign;
            // What a memory is worth is learned where it would be alone.
            let empty = abstains && taken.is_empty();
            let draw = PoolDraw { chunk_size, extra, competing: slots, empty, foreign };
            let mut drawn = CandidatePools::draw(recall, &taken, &pool, &draw, random)?;
            drawn.compare(config, asked, memory)?;
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
