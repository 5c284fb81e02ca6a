//! The one place where queries and recalled memories become contexts.

use crate::{ContextBatch, PredictionQuery, Present, Result, WorldModel};

/// Fills a [`ContextBatch`] from episodes.
pub struct ContextBuilder<'a> {
    batch: ContextBatch<'a>,
}

impl<'a> ContextBuilder<'a> {
    /// Contexts of so many slots for a world model.
    pub fn new(model: &dyn WorldModel, slots: usize) -> Self {
        Self { batch: model.batch(slots) }
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
        let memories = memories.into_iter().map(|frame| episode.remembered(frame));
        self.batch.push(&asked, latent, memories)
    }

    /// The contexts.
    pub fn build(self) -> ContextBatch<'a> {
        self.batch
    }
}
