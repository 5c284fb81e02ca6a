//! Training a tokenizer on pictures: the next batch is drawn while the device computes.

use crate::picture_sampler::PictureSampler;
use crate::{Error, Result};
use far_model::{TaesdLosses, TaesdTraining};
use far_tensor::{Checkpoint, CheckpointWriter};
use std::path::Path;
use std::sync::mpsc::sync_channel;

/// Batches that are drawn ahead.
const AHEAD: usize = 4;
/// The note of a state that says what decides the training.
const NOTE: &str = "tokenizer training";

/// A tokenizer in training with what it is shown.
pub struct TokenizerTraining {
    sampler: PictureSampler,
    training: TaesdTraining,
    /// What decides the training: a state of another one is refused.
    identity: String,
}

impl TokenizerTraining {
    /// Begins; `identity` says in words what decides the training.
    pub fn new(sampler: PictureSampler, training: TaesdTraining, identity: String) -> Self {
        Self { sampler, training, identity }
    }

    /// Updates made so far.
    pub fn done(&self) -> u64 {
        self.training.done()
    }

    /// Makes updates until there are `steps`, or `watch` says no; it is called after each.
    ///
    /// # Errors
    /// If a frame cannot be read or a loss is not finite.
    pub fn run(
        &mut self,
        steps: u64,
        mut watch: impl FnMut(TokenizerStep<'_>) -> Result<bool>,
    ) -> Result<()> {
        let Self { sampler, training, identity } = self;
        let first = training.done();
        std::thread::scope(|scope| {
            let (sender, batches) = sync_channel(AHEAD);
            scope.spawn(move || {
                // A receiver that is gone wants no more.
                (first..steps).all(|number| sender.send(sampler.draw(number)).is_ok())
            });
            while training.done() < steps {
                let pictures = batches.recv().expect("the sampler draws all batches")?;
                let losses = training.step(&pictures)?;
                if !watch(TokenizerStep { losses, training, identity })? {
                    break;
                }
            }
            drop(batches);
            Ok(())
        })
    }

    /// Goes on from what [`TokenizerStep::keep`] wrote.
    ///
    /// # Errors
    /// If the file cannot be read, or is of another training.
    pub fn go_on(&mut self, path: &Path) -> Result<()> {
        let mut state = Checkpoint::open(path)?;
        let found = state.notes().get(NOTE).cloned().unwrap_or_default();
        if found != self.identity {
            let (folder, key) = (path.to_owned(), "the training".to_owned());
            return Err(Error::OtherConfig { folder, key, found, wanted: self.identity.clone() });
        }
        Ok(self.training.go_on(&mut state)?)
    }

    /// Writes the tokenizer.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn save(&self, path: &Path) -> Result<()> {
        Ok(self.training.save(path)?)
    }
}

/// An update that was made.
pub struct TokenizerStep<'a> {
    /// The terms of its loss.
    pub losses: TaesdLosses,
    training: &'a TaesdTraining,
    identity: &'a str,
}

impl TokenizerStep<'_> {
    /// Writes what is needed to go on from here.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn keep(&self, path: &Path) -> Result<()> {
        let state = self.training.keep(CheckpointWriter::new());
        Ok(state.note(NOTE, self.identity).save(path)?)
    }
}
