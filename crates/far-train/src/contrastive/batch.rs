//! A batch of contrastive examples: what the network reads, which memories belong to which query, and the loss.

use crate::Result;
use far_data::ContrastiveExample;
use far_model::{
    ActionFeatures, EncodedDataset, EncoderDescription, Pass, QueryVit, Similarities, info_nce,
};
use far_tensor::{Tape, Tensor};
use std::collections::HashMap;

/// Examples as the network reads them: every frame once.
pub(super) struct Batch {
    /// Inputs of the current frames [B, T, C], and the actions taken there [B, 8 + signals].
    current: Tensor,
    actions: Tensor,
    /// Inputs of all positives and negatives [U, T, C], none twice.
    memories: Tensor,
    positives: Slots,
    negatives: Slots,
}

/// Which memories belong to which query; missing ones are masked.
struct Slots {
    rows: Vec<usize>,
    present: Tensor,
}

impl Slots {
    /// As many slots for each query as the one with most memories needs.
    fn new(rows: &[Vec<usize>]) -> Result<Self> {
        let width = rows.iter().map(Vec::len).max().unwrap_or(0).max(1);
        let (mut padded, mut present) = (Vec::new(), Vec::new());
        for row in rows {
            // A missing memory stands for the first one and does not count.
            padded.extend(row.iter().copied().chain(std::iter::repeat(0)).take(width));
            present.extend((0..width).map(|slot| f32::from(slot < row.len())));
        }
        Ok(Self { rows: padded, present: Tensor::from_slice(&present, [rows.len(), width])? })
    }

    /// The cosines of queries [B, D] with their memories' keys, of [U, D] → [B, slots].
    fn cosines(
        &self,
        tape: &mut Tape,
        queries: &Tensor,
        keys: &Tensor,
    ) -> far_tensor::Result<Tensor> {
        let &[batch, width] = self.present.shape().extents() else { unreachable!("made so") };
        let keys = tape.gather_rows(keys, self.rows.as_slice())?;
        let dimension = keys.shape().last();
        tape.cosine(queries, &keys.reshape([batch, width, dimension])?, 1e-6)
    }

    /// The best cosine of each query; −∞ where it has no memory.
    fn best(&self, cosines: &Tensor) -> Vec<f32> {
        let width = cosines.shape().last();
        let rows = cosines.values().chunks(width).zip(self.present.values().chunks(width));
        let best = rows.map(|(cosines, present)| {
            let valid = cosines.iter().zip(present).filter(|(_, present)| **present != 0.0);
            valid.map(|(cosine, _)| *cosine).fold(f32::NEG_INFINITY, f32::max)
        });
        best.collect()
    }
}

impl Batch {
    /// The frames and actions of these examples.
    pub fn new(
        encoded: &EncodedDataset,
        description: &EncoderDescription,
        examples: &[ContrastiveExample],
    ) -> Result<Self> {
        let EncoderDescription { cue, latent: shape, scale, signals, .. } = description;
        let sizes = |count: usize| [count, shape.tokens(), shape.token_width()];
        let (mut current, mut actions, mut memories) = (Vec::new(), Vec::new(), Vec::new());
        let (mut positives, mut negatives) = (Vec::new(), Vec::new());
        let mut places: HashMap<(u32, u32), usize> = HashMap::new();
        for example in examples {
            let query = &example.query;
            let episode = encoded.episode(query.episode)?;
            let now = query.current as usize;
            current.extend_from_slice(episode.input(cue, now));
            actions.push(episode.action(scale, now, now + query.stride as usize));
            let mut place = |frame: &u32| {
                let next = places.len();
                *places.entry((query.episode, *frame)).or_insert_with(|| {
                    memories.extend_from_slice(episode.input(cue, *frame as usize));
                    next
                })
            };
            positives.push(example.positives.iter().map(&mut place).collect());
            negatives.push(example.negatives.iter().map(&mut place).collect());
        }
        Ok(Self {
            current: Tensor::from_slice(&current, sizes(examples.len()))?,
            actions: ActionFeatures::tensor(&actions, *signals)?,
            memories: Tensor::from_slice(&memories, sizes(places.len()))?,
            positives: Slots::new(&positives)?,
            negatives: Slots::new(&negatives)?,
        })
    }

    /// The loss, and how many queries have a positive as their best key.
    pub fn loss(
        &self,
        pass: &mut Pass<'_>,
        network: &QueryVit,
    ) -> far_tensor::Result<(Tensor, usize)> {
        let keys = network.forward(pass, &self.memories, None)?;
        let queries = network.forward(pass, &self.current, Some(&self.actions))?;
        let near = self.positives.cosines(pass, &queries, &keys)?;
        let far = self.negatives.cosines(pass, &queries, &keys)?;
        let best = self.positives.best(&near).into_iter().zip(self.negatives.best(&far));
        let hits = best.filter(|(near, far)| near > far).count();
        let positives = Similarities { cosines: &near, present: &self.positives.present };
        let negatives = Similarities { cosines: &far, present: &self.negatives.present };
        Ok((info_nce(pass, positives, negatives)?, hits))
    }
}
