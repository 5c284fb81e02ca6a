//! Queries and the memories they may recall, as tensors for one retriever step.
//!
//! B examples, N slots (the longest pool), M cues. Slots past the end of a pool are masked. A slot
//! without a key for a cue is left out of that cue's statistics and stands at its mean; a slot whose
//! key is not finite cannot be recalled while that cue has a weight. Both are what recall does.

use crate::{Error, Result};
use far_memory::{
    CueConfig, FEATURES, FeatureScale, PoolView, RecallQuery, RetrieverConfig, ScorerConfig,
    Snapshot, features,
};
use far_tensor::{Buffer, Tensor};
use rayon::prelude::*;

/// What one cue reads.
pub(crate) enum CueInputs {
    /// Features [B, N, F] of time and pose.
    Metadata(Tensor),
    /// Stored keys [B, N, D], their lengths [B, N] and query embeddings [B, D].
    ///
    /// Keys have unit length but for the rounding of half precision; recall takes them as they are
    /// stored, so a cosine must be multiplied by their length again.
    Key { keys: Tensor, lengths: Tensor, queries: Tensor },
}

/// One cue of a batch.
struct CueBatch {
    inputs: CueInputs,
    /// Slots that have a score, [B, N].
    present: Tensor,
}

/// The examples of a retriever step.
pub struct RetrieverBatch {
    examples: usize,
    slots: usize,
    mask: Tensor,
    cues: Vec<CueBatch>,
    available: Tensor,
    /// The gate's features after the statistics, [B, M, F − 3]: onehot, Δt and perhaps Δt·onehot.
    pub(crate) gate_features: Tensor,
}

/// One example while it is read.
struct Example<'a> {
    query: &'a RecallQuery,
    snapshot: &'a Snapshot,
    pool: PoolView<'a>,
}

impl RetrieverBatch {
    /// Reads the pool of each query from its snapshot.
    ///
    /// # Errors
    /// If there is no example, a query does not fit its snapshot, or a snapshot lacks a cue.
    pub fn new(config: &RetrieverConfig, examples: &[(&RecallQuery, &Snapshot)]) -> Result<Self> {
        if examples.is_empty() {
            return Err(Error::Length { what: "a retriever batch", found: 0, expected: 1 });
        }
        let mut read = Vec::with_capacity(examples.len());
        for &(query, snapshot) in examples {
            query.check(snapshot.schema())?;
            let pool = snapshot.pool(&query.pool, query.pool_cap)?;
            read.push(Example { query, snapshot, pool });
        }
        // At least one slot, masked if need be, so that no shape is empty.
        let slots = read.iter().map(|example| example.pool.len()).max().unwrap_or(0).max(1);
        let mut filled = vec![0.0; read.len() * slots];
        for (row, example) in filled.chunks_exact_mut(slots).zip(&read) {
            row[..example.pool.len()].fill(1.0);
        }
        let shape = [read.len(), slots];
        let mut eligible = filled;
        let mut cues = Vec::with_capacity(config.cues.len());
        for (place, CueConfig { scorer, .. }) in config.cues.iter().enumerate() {
            cues.push(match scorer.feature_scale() {
                Some(scale) => read_features(&read, slots, scale)?,
                None => read_keys(config, place, &read, &mut eligible)?,
            });
        }
        let strides: Vec<f32> =
            read.iter().map(|example| example.query.stride / config.gate.stride_scale).collect();
        Ok(Self {
            examples: read.len(),
            slots,
            mask: Tensor::from_slice(&eligible, shape)?,
            available: available(&cues, shape)?,
            gate_features: gate_features(&strides, cues.len(), config.gate.stride_products)?,
            cues,
        })
    }

    /// Examples B.
    pub fn examples(&self) -> usize {
        self.examples
    }

    /// Slots N: the length of the longest pool, at least 1.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// 1 where a slot holds a memory that may be recalled, else 0: [B, N].
    pub fn mask(&self) -> &Tensor {
        &self.mask
    }

    /// 1 where a cue can say something about an example, else 0: [B, M].
    pub fn available(&self) -> &Tensor {
        &self.available
    }

    /// 1 where a slot has a score for a cue, else 0: [B, N].
    pub(crate) fn present(&self, cue: usize) -> &Tensor {
        &self.cues[cue].present
    }

    /// What each cue reads.
    pub(crate) fn inputs(&self) -> impl ExactSizeIterator<Item = &CueInputs> {
        self.cues.iter().map(|cue| &cue.inputs)
    }
}

/// Features [B, N, F] of every memory; zeros past the end of a pool and where a query has a pose and a
/// memory has none, which then has no score.
fn read_features(examples: &[Example<'_>], slots: usize, scale: FeatureScale) -> Result<CueBatch> {
    let mut rows = Buffer::zeroed(examples.len() * slots * FEATURES);
    let mut present = vec![0.0; examples.len() * slots];
    let outputs = rows.par_chunks_mut(slots * FEATURES).zip(present.par_chunks_mut(slots));
    outputs.zip(examples).for_each(|((rows, present), example)| {
        let slots = rows.chunks_exact_mut(FEATURES).zip(present);
        for ((row, present), id) in slots.zip(example.pool.iter()) {
            let (time, pose) =
                (example.snapshot.time(id.index()), example.snapshot.pose(id.index()));
            if let Some(features) = features(example.query, time, pose.as_ref(), scale) {
                row.copy_from_slice(&features);
                *present = 1.0;
            }
        }
    });
    let rows = Tensor::from_buffer(rows, [examples.len(), slots, FEATURES])?;
    Ok(CueBatch {
        inputs: CueInputs::Metadata(rows),
        present: Tensor::from_slice(&present, [examples.len(), slots])?,
    })
}

/// The keys and queries of one cue; `eligible` loses the slots whose key is not finite.
fn read_keys(
    config: &RetrieverConfig,
    place: usize,
    examples: &[Example<'_>],
    eligible: &mut [f32],
) -> Result<CueBatch> {
    let CueConfig { name, scorer: ScorerConfig::Cosine { dimension, .. } } = &config.cues[place]
    else {
        unreachable!("a scorer without features compares keys")
    };
    let (name, dimension) = (name.as_str(), *dimension);
    let indices = examples
        .iter()
        .map(|example| config.cue_index(place, example.snapshot.schema()))
        .collect::<Result<Vec<_>, _>>()?;
    let slots = eligible.len() / examples.len();
    let mut queries = vec![0.0; examples.len() * dimension];
    // The largest of all: filled where it stays.
    let mut keys = Buffer::zeroed(eligible.len() * dimension);
    let mut lengths = vec![0.0; eligible.len()];
    let mut present = vec![0.0; eligible.len()];
    let outputs = queries
        .par_chunks_mut(dimension)
        .zip(keys.par_chunks_mut(slots * dimension))
        .zip(lengths.par_chunks_mut(slots))
        .zip(present.par_chunks_mut(slots))
        .zip(eligible.par_chunks_mut(slots));
    let inputs = examples.par_iter().zip(indices);
    outputs.zip(inputs).for_each(
        |(((((query, keys), lengths), present), eligible), (example, index))| {
            let (Some(embedding), Some(index)) = (example.query.key(name), index) else { return };
            query.copy_from_slice(embedding);
            let rows = keys.chunks_exact_mut(dimension).zip(example.pool.iter()).enumerate();
            for (slot, (row, id)) in rows {
                let Some(key) = example.snapshot.key(index, id.index()) else { continue };
                key.copy_to(row);
                if row.iter().all(|value| value.is_finite()) {
                    present[slot] = 1.0;
                    lengths[slot] = length(row);
                } else {
                    row.fill(0.0);
                    lengths[slot] = f32::NAN;
                }
            }
            // A cue without a single usable key has no weight and spoils nothing.
            let available = present.contains(&1.0);
            for (length, eligible) in lengths.iter_mut().zip(eligible) {
                if length.is_nan() {
                    *length = 0.0;
                    *eligible *= f32::from(!available);
                }
            }
        },
    );
    let shape = [examples.len(), slots];
    Ok(CueBatch {
        inputs: CueInputs::Key {
            keys: Tensor::from_buffer(keys, [examples.len(), slots, dimension])?,
            lengths: Tensor::from_slice(&lengths, shape)?,
            queries: Tensor::from_slice(&queries, [examples.len(), dimension])?,
        },
        present: Tensor::from_slice(&present, shape)?,
    })
}

fn length(key: &[f32]) -> f32 {
    key.iter().map(|&value| f64::from(value) * f64::from(value)).sum::<f64>().sqrt() as f32
}

/// Which cues have a score for any memory of an example, [B, M].
fn available(cues: &[CueBatch], [examples, slots]: [usize; 2]) -> Result<Tensor> {
    let any = |cue: &CueBatch, example: usize| {
        let row = &cue.present.values()[example * slots..(example + 1) * slots];
        f32::from(row.iter().any(|present| *present != 0.0))
    };
    let values: Vec<f32> =
        (0..examples).flat_map(|example| cues.iter().map(move |cue| any(cue, example))).collect();
    Ok(Tensor::from_slice(&values, [examples, cues.len()])?)
}

fn gate_features(strides: &[f32], cues: usize, stride_products: bool) -> Result<Tensor> {
    let mut values = Vec::new();
    for &stride in strides {
        for cue in 0..cues {
            let one_hot = |value: f32| (0..cues).map(move |at| if at == cue { value } else { 0.0 });
            values.extend(one_hot(1.0));
            values.push(stride);
            if stride_products {
                values.extend(one_hot(stride));
            }
        }
    }
    let width = values.len() / (strides.len() * cues);
    Ok(Tensor::from_slice(&values, [strides.len(), cues, width])?)
}
