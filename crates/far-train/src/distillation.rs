//! The retriever's step: candidates are drawn, credited once the future is known, and the scores
//! are drawn toward the posterior KL(q ‖ r).
//!
//! The credit here is a stand-in for the world model's: the share of the coming view's new surfaces
//! that a memory shows (`far_eval::Clip::coverage`), times a sharpness. It comes from the worlds'
//! ground truth and exists in training alone; at inference the retriever sees poses, times and the
//! intended motion.

use crate::{Error, Result};
use far_eval::Clip;
use far_memory::{CueConfig, MemoryId, Pool, Retriever, RetrieverConfig, Snapshot};
use far_model::{
    DistillationTarget, METADATA_CUE, RetrieverBatch, RetrieverTrainingConfig, TrainableRetriever,
    posterior_divergence,
};
use far_tensor::{AdamWConfig, ArenaBuilder, Device, Random, Tensor, Trained};

/// The settings of a [`Distillation`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DistillationConfig {
    /// Updates.
    pub steps: u64,
    /// Questions per update.
    pub batch: usize,
    /// Candidates per question, spread over the memory.
    pub candidates: usize,
    /// Nats that a memory showing everything has over one showing nothing. The paper adds a sum of
    /// squared errors, worth some 4 to 9 nats between good and bad memories.
    pub sharpness: f32,
    /// Learning rate; more than the paper's 1e-4 because the network is tiny and the run short.
    pub learning_rate: f32,
    /// Consecutive memories of which at most one is recalled. Paper: 10.
    pub chunk_size: usize,
    /// Seed of the parameters and of the draws.
    pub seed: u64,
}

impl Default for DistillationConfig {
    fn default() -> Self {
        Self {
            steps: 600,
            batch: 16,
            candidates: 48,
            sharpness: 8.0,
            learning_rate: 2e-3,
            chunk_size: 10,
            seed: 0,
        }
    }
}

/// A retriever in training.
pub struct Distillation<'a> {
    config: DistillationConfig,
    device: Device,
    /// Clip and question of everything that can be learned from.
    questions: Vec<(&'a Clip, usize)>,
    learning: TrainableRetriever,
    trained: Trained,
}

impl<'a> Distillation<'a> {
    /// Begins to learn from these clips.
    ///
    /// # Errors
    /// If none of them has a question.
    pub fn new(clips: &'a [Clip], device: &Device, config: DistillationConfig) -> Result<Self> {
        let usable = clips.iter().filter(|clip| !clip.snapshot().is_empty());
        let questions: Vec<_> = usable
            .flat_map(|clip| (0..clip.queries().len()).map(move |question| (clip, question)))
            .collect();
        if questions.is_empty() {
            return Err(Error::Nothing);
        }
        let mut builder = ArenaBuilder::new("retriever");
        let scorer = RetrieverConfig::metadata_scorer();
        let retriever = RetrieverConfig {
            cues: vec![CueConfig { name: METADATA_CUE.to_owned(), scorer }],
            chunk_size: config.chunk_size,
            ..RetrieverConfig::meta_and_vision(1)
        };
        let training = RetrieverTrainingConfig::default();
        let learning = TrainableRetriever::new(&mut builder, retriever, training)?;
        let optimizer = AdamWConfig {
            learning_rate: config.learning_rate,
            warm_up: config.steps / 20,
            average_decay: None,
            ..AdamWConfig::default()
        };
        let trained = Trained::new(builder.build(config.seed), optimizer);
        Ok(Self { config, device: device.clone(), questions, learning, trained })
    }

    /// One update; returns the divergence before it.
    ///
    /// # Errors
    /// If the loss is not finite; the parameters are then as they were.
    pub fn step(&mut self) -> Result<f32> {
        let DistillationConfig { batch, candidates, seed, .. } = self.config;
        let mut random = Random::stream(seed, "candidates", self.trained.optimizer.updates());
        let (mut queries, mut credits) = (Vec::new(), Vec::new());
        for _ in 0..batch {
            let (clip, question) = self.questions[random.below(self.questions.len())];
            let (query, question) = (clip.recall_query(question), clip.queries()[question]);
            let memory = clip.snapshot();
            let pool = Pool::ids((0..candidates).map(|place| {
                // One candidate from each of equal parts of the memory.
                let place = place as f32 + random.uniform();
                let index = (place * memory.len() as f32 / candidates as f32) as usize;
                MemoryId::from(index.min(memory.len() - 1))
            }));
            let Pool::Ids(ids) = &pool else { unreachable!("a pool of ids") };
            let credit = |id: &MemoryId| clip.coverage(question, &[*id]) as f32;
            credits.push(ids.iter().map(credit).collect::<Vec<f32>>());
            queries.push((query.clone().with_pool(pool), memory));
        }
        let examples: Vec<(_, &Snapshot)> =
            queries.iter().map(|(query, memory)| (query, *memory)).collect();
        let inputs = RetrieverBatch::new(self.learning.config(), &examples)?;
        let mut utilities = vec![0.0; batch * inputs.slots()];
        for (row, credits) in utilities.chunks_exact_mut(inputs.slots()).zip(&credits) {
            for (utility, credit) in row.iter_mut().zip(credits) {
                *utility = self.config.sharpness * credit;
            }
        }
        let utilities = Tensor::from_slice(&utilities, [batch, inputs.slots()])?;
        let learning = &self.learning;
        let step = self.trained.step(&self.device, 1, |tape, parameters, _| {
            let scores = learning.scores(tape, parameters, &inputs)?;
            let (mask, target) = (Some(inputs.mask()), DistillationTarget::Posterior);
            posterior_divergence(tape, &scores.fused, &utilities, mask, target)
        })?;
        Ok(step.loss)
    }

    /// The retriever as it stands.
    ///
    /// # Errors
    /// If a parameter is not finite.
    pub fn retriever(&self) -> Result<Retriever> {
        Ok(self.learning.export(&self.trained.parameters)?)
    }
}
