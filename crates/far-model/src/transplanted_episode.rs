//! An episode that remembers what it never saw: its own frames behind the memories of others.
//!
//! Recall from such a memory shows what a policy does where nothing, or hardly anything, of what it
//! holds belongs to the place. In training, the credit of such memories teaches to abstain.

use crate::encoded_episode::CueInput;
use crate::{EncodedEpisode, Result};
use far_memory::{Memory, Observation};
use std::sync::Arc;

impl EncodedEpisode {
    /// The frames of this episode from `first` on, with these as its memories, each an explore frame of
    /// any episode of the same dataset, in this order: they become frames 0 to M − 1 with their times,
    /// poses, keys and signals, and frame `first` becomes frame M. What was seen before a memory stays with
    /// the episode that it is from.
    ///
    /// # Errors
    /// If an episode was encoded with other keys.
    ///
    /// # Panics
    /// If a frame is no explore frame of its episode.
    pub fn remembering(&self, first: usize, memories: &[(Arc<Self>, usize)]) -> Result<Self> {
        let frames: Vec<(&Self, usize)> = memories
            .iter()
            .map(|(episode, frame)| (episode.as_ref(), *frame))
            .chain((first..self.len()).map(|frame| (self, frame)))
            .collect();
        let schema = self.memory.schema();
        let mut memory = Memory::new(schema.clone());
        for (episode, frame) in memories {
            assert!(*frame < episode.boundary, "only explore frames are remembered");
            let mut keys = Vec::new();
            for (cue, name, dimension, _) in schema.keys() {
                if let Some(key) = episode.memory.key(cue, *frame) {
                    let mut values = vec![0.0; dimension];
                    key.copy_to(&mut values);
                    keys.push((name, values));
                }
            }
            let pose = episode.memory.pose(*frame);
            let mut observation = Observation::new(episode.memory.time(*frame), pose);
            for (cue, values) in &keys {
                observation = observation.with_key(cue, values);
            }
            memory.append(&observation)?;
        }
        let inputs = self.inputs.iter().enumerate().map(|(place, input)| {
            let rows = frames.iter().flat_map(|(episode, frame)| {
                let own = &episode.inputs[place];
                &own.rows[frame * own.width..(frame + 1) * own.width]
            });
            CueInput { cue: input.cue.clone(), width: input.width, rows: rows.copied().collect() }
        });
        let latents = frames.iter().flat_map(|(episode, frame)| episode.latent(*frame));
        Ok(Self {
            id: self.id,
            boundary: memories.len(),
            times: frames.iter().map(|(episode, frame)| episode.times[*frame]).collect(),
            poses: frames.iter().map(|(episode, frame)| episode.poses[*frame]).collect(),
            posed: self.posed,
            elements: self.elements,
            latents: latents.copied().collect(),
            memory: memory.snapshot(),
            inputs: inputs.collect(),
            signals: self
                .signals
                .gathered(frames.iter().map(|(episode, frame)| (&episode.signals, *frame))),
            lenders: memories.to_vec(),
        })
    }
}
