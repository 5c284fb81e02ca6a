//! Training examples as everybody in the loop receives them.

use crate::Result;
use far_data::{Anchor, TrainingExample, TrainingSampler};
use far_memory::{MemoryId, Pool, Recall, RecallPolicy, RecallQuery, Scratch};
use far_model::{
    ConditionScale, EncodedDataset, EncodedEpisode, PredictionQuery, Present, embed_queries,
};
use rayon::prelude::*;
use std::sync::Arc;

/// One training example: what recall may know, and what came next.
pub struct Question {
    /// The episode.
    pub episode: Arc<EncodedEpisode>,
    /// The question for the memory.
    pub query: RecallQuery,
    /// The present frame.
    pub current: usize,
    /// The frame of the future. Only the world model's loss and the credit see it.
    pub future: usize,
    /// What the pair was drawn around.
    pub anchor: Anchor,
}

impl Question {
    /// The examples of a step, with the embeddings of every encoder of the dataset.
    ///
    /// # Errors
    /// If an episode cannot be read or an encoder refuses a latent.
    pub fn batch(
        sampler: &TrainingSampler<'_>,
        data: &EncodedDataset,
        scale: &ConditionScale,
        step: u64,
    ) -> Result<Vec<Self>> {
        let examples = sampler.batch(step)?;
        let mut questions: Vec<Self> = examples
            .into_par_iter()
            .enumerate()
            .map(|(place, example)| Self::new(data, example, step << 16 | place as u64))
            .collect::<Result<_>>()?;
        if !data.encoders().is_empty() {
            let presents: Vec<Present<'_>> = questions
                .iter()
                .map(|question| Present {
                    episode: &question.episode,
                    frame: question.current,
                    goal: question.future,
                    latent: question.latent(),
                })
                .collect();
            let mut queries: Vec<RecallQuery> =
                questions.iter().map(|question| question.query.clone()).collect();
            embed_queries(data.encoders(), scale, &presents, &mut queries)?;
            for (question, query) in questions.iter_mut().zip(queries) {
                question.query = query;
            }
        }
        Ok(questions)
    }

    fn new(data: &EncodedDataset, example: TrainingExample, seed: u64) -> Result<Self> {
        let TrainingExample { query, memory, future, anchor } = example;
        let episode = data.episode(query.episode)?;
        let (current, future) = (query.current as usize, future.frame as usize);
        let pool = Pool::ids(memory.frames.iter().map(|frame| MemoryId(u64::from(*frame))));
        let query = episode.recall_query(current, future, pool).with_seed(seed);
        Ok(Self { episode, query, current, future, anchor })
    }

    /// The latent of the present.
    pub fn latent(&self) -> &[f32] {
        self.episode.latent(self.current)
    }

    /// The latent of the future.
    pub fn future_latent(&self) -> &[f32] {
        self.episode.latent(self.future)
    }

    /// The question for the world model, with what training may tell of the answer.
    pub fn prediction_query(&self) -> PredictionQuery {
        self.episode.training_query(self.current, self.future)
    }
}

/// What a policy recalls for each question.
///
/// # Errors
/// If it refuses one.
pub fn recall(
    policy: &dyn RecallPolicy,
    questions: &[&Question],
    slots: usize,
) -> Result<Vec<Recall>> {
    questions
        .par_iter()
        .map_init(Scratch::new, |scratch, question| {
            let mut recall = Recall::new();
            policy.recall(
                question.episode.memory(),
                &question.query,
                slots,
                scratch,
                &mut recall,
            )?;
            Ok(recall)
        })
        .collect()
}
