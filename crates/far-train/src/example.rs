//! The training examples of a step.

use crate::Result;
use far_data::{Anchor, TrainingExample, TrainingSampler};
use far_memory::{MemoryId, Pool, Recall, RecallPolicy, RecallQuery};
use far_model::{ConditionScale, EncodedDataset, Present, Query, embed_queries, recall_all};
use rayon::prelude::*;
use std::sync::Arc;

/// One training example.
pub struct Example {
    /// From which frame to which.
    pub query: Query,
    /// What recall may know of it.
    pub recall: RecallQuery,
    /// What the pair was drawn around.
    pub anchor: Anchor,
}

impl Example {
    /// The examples of a step, without the embeddings of key cues.
    ///
    /// # Errors
    /// If an episode cannot be read.
    pub fn draw(
        sampler: &TrainingSampler<'_>,
        data: &EncodedDataset,
        step: u64,
    ) -> Result<Vec<Self>> {
        let drawn = sampler.batch(step)?;
        drawn
            .into_par_iter()
            .enumerate()
            .map(|(place, example)| Self::new(data, example, step << 16 | place as u64))
            .collect()
    }

    /// Gives examples the embeddings of every encoder of the dataset.
    ///
    /// # Errors
    /// If an encoder refuses a latent.
    pub fn embed(
        examples: &mut [Self],
        data: &EncodedDataset,
        scale: &ConditionScale,
    ) -> Result<()> {
        if data.encoders().is_empty() {
            return Ok(());
        }
        let presents: Vec<Present<'_>> =
            examples.iter().map(|example| example.query.recorded()).collect();
        let mut queries: Vec<RecallQuery> =
            examples.iter().map(|example| example.recall.clone()).collect();
        embed_queries(data.encoders(), scale, &presents, &mut queries)?;
        for (example, query) in examples.iter_mut().zip(queries) {
            example.recall = query;
        }
        Ok(())
    }

    fn new(data: &EncodedDataset, example: TrainingExample, seed: u64) -> Result<Self> {
        let TrainingExample { query, memory, future, anchor } = example;
        let episode = data.episode(query.episode)?;
        let query = Query::new(episode, query.current as usize, future.frame as usize);
        let pool = Pool::ids(memory.frames.iter().map(|frame| MemoryId(u64::from(*frame))));
        let recall = query.for_memory(pool).with_seed(seed);
        Ok(Self { query, recall, anchor })
    }

    /// The same question, asked with the memories of another example: where those are of another place,
    /// there is nothing to recall.
    ///
    /// # Errors
    /// If the pool names memories that are not there.
    pub fn with_memories_of(&self, other: &Self) -> Result<Self> {
        let (own, foreign) = (self.query.episode(), other.query.episode());
        let pool = foreign.memory().pool(&other.recall.pool, other.recall.pool_cap)?;
        let memories: Vec<_> = pool.iter().map(|id| (foreign.clone(), id.index())).collect();
        let first = self.query.now().min(self.query.goal());
        let episode = Arc::new(own.remembering(first, &memories)?);
        let moved = |frame: usize| frame - first + memories.len();
        let query = Query::new(episode, moved(self.query.now()), moved(self.query.goal()));
        let recall = self.recall.clone().with_pool(Pool::Range(0..memories.len()));
        Ok(Self { query, recall, anchor: self.anchor })
    }

    /// What a policy recalls for each example.
    ///
    /// # Errors
    /// If it refuses one.
    pub fn recall_all(
        policy: &dyn RecallPolicy,
        examples: &[&Self],
        slots: usize,
    ) -> Result<Vec<Recall>> {
        let queries: Vec<_> = examples
            .iter()
            .map(|example| (example.query.episode().memory(), &example.recall))
            .collect();
        Ok(recall_all(policy, &queries, slots)?)
    }
}
