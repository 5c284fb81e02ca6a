//! The one place where queries and recalled memories become contexts.
//!
//! A memory is one frame of the context or, for a world model that reads earlier views, two: its own and
//! that of so long before it in the same episode, right behind it. Where the episode begins later there is
//! no earlier one. The present has none: it is not recalled, and in a rollout it was imagined.

use crate::world_model::config::frames_per_memory;
use crate::{ContextBatch, Error, PredictionQuery, Present, Result, WorldModel};

/// Fills a [`ContextBatch`] from episodes.
pub struct ContextBuilder<'a> {
    batch: ContextBatch<'a>,
    /// Memories that a context can hold.
    slots: usize,
    earlier_view: Option<f32>,
}

impl<'a> ContextBuilder<'a> {
    /// Contexts of so many memories for a world model.
    pub fn new(model: &dyn WorldModel, slots: usize) -> Self {
        let earlier_view = model.earlier_view();
        Self { batch: model.batch(slots * frames_per_memory(earlier_view)), slots, earlier_view }
    }

    /// Adds a prediction that reads these frames of its episode as memories.
    ///
    /// # Errors
    /// If there are more memories than slots, or the episode was encoded for another model.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn add(
        &mut self,
        present: Present<'a>,
        memories: impl IntoIterator<Item = usize>,
    ) -> Result<()> {
        let Present { query, latent, state } = present;
        let asked = query.for_model();
        let signals = crate::FrameSignals { state, ..asked.present };
        let asked = PredictionQuery { present: signals, ..asked };
        let episode = query.episode();
        let mut shown = Vec::with_capacity(self.batch.slots());
        for (place, frame) in memories.into_iter().enumerate() {
            if place == self.slots {
                let (what, found, expected) = ("the context", place + 1, self.slots);
                return Err(Error::Length { what, found, expected });
            }
            shown.push(episode.remembered(frame));
            shown.extend(self.earlier_view.and_then(|seconds| episode.earlier(frame, seconds)));
        }
        self.batch.push(&asked, latent, shown)
    }

    /// The contexts.
    pub fn build(self) -> ContextBatch<'a> {
        self.batch
    }
}

#[cfg(test)]
mod tests;
