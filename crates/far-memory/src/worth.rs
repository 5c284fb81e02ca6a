//! Whether a memory is worth recalling: the log odds that the world model predicts better with it than without
//! any. Scores cannot say that: they are standardized within a pool, so the best of useless memories stands
//! out as much as the best of good ones.
//!
//! The worth of a memory is a network with one hidden layer of [`WORTH_WIDTH`] GELU units over
//!
//! | index | input |
//! |---|---|
//! | 0–25 | the memory in relation to the query, the features of `feature.rs`; zeros where it lacks a pose that the query has |
//! | 26… | by each key cue, number by number: √D·h·k, the query's embedding h before any adapter and the memory's key k, both of length one; zeros where one is missing |
//! | last | its raw score by each key cue; 0 without one |
//!
//! A raw score is one sum of such products, weighed to rank the memories of one place. Another sum of them says
//! better whose a memory is, and this network finds it.
//!
//! Nothing in it depends on the rest of the pool: one memory of use among many foreign ones is worth
//! what it is worth alone. Nor does it depend on what was recalled before: what a memory adds to others is
//! little beside what it is worth alone, and the scores know what it repeats.

use crate::feature::{FEATURES, features};
use crate::key::normalize;
use crate::layer::{Layer, two_layers, two_layers_reference};
use crate::retriever_config::{RetrieverConfig, ScorerConfig};
use crate::{Error, FeatureScale, RecallQuery, Snapshot};

/// Hidden units.
pub const WORTH_WIDTH: usize = 32;

/// Numbers that the worth of a memory is computed from.
pub fn worth_inputs(config: &RetrieverConfig) -> usize {
    FEATURES + dimensions(config).map(|(_, dimension)| dimension + 1).sum::<usize>()
}

/// The places of the key cues, and the numbers of a key.
fn dimensions(config: &RetrieverConfig) -> impl Iterator<Item = (usize, usize)> {
    config.cues.iter().enumerate().filter_map(|(place, cue)| match cue.scorer {
        ScorerConfig::Cosine { dimension, .. } => Some((place, dimension)),
        ScorerConfig::Metadata { .. } => None,
    })
}

/// A query as worth reads it: the embeddings that memories' keys are multiplied with.
#[derive(Debug, Default)]
pub struct WorthQuery {
    /// √D·h of every key cue, one after another; zeros without an embedding.
    embeddings: Vec<f32>,
    /// Of each key cue its place in the memory's schema and the numbers of a key.
    cues: Vec<(usize, usize)>,
}

impl WorthQuery {
    /// Replaces it by another query. What it held is reused.
    ///
    /// # Errors
    /// If the memory lacks a cue.
    pub fn begin(
        &mut self,
        config: &RetrieverConfig,
        query: &RecallQuery,
        memory: &Snapshot,
    ) -> Result<(), Error> {
        self.embeddings.clear();
        self.cues.clear();
        for (place, dimension) in dimensions(config) {
            let Some(index) = config.cue_index(place, memory.schema())? else { continue };
            self.cues.push((index, dimension));
            let first = self.embeddings.len();
            self.embeddings.resize(first + dimension, 0.0);
            if let Some(embedding) = query.key(&config.cues[place].name) {
                let own = &mut self.embeddings[first..];
                own.copy_from_slice(embedding);
                normalize(own);
                own.iter_mut().for_each(|value| *value *= (dimension as f32).sqrt());
            }
        }
        Ok(())
    }

    /// Replaces `inputs` by what worth reads of a memory besides its raw scores: its relation to the query, and the
    /// products.
    pub fn read(
        &self,
        query: &RecallQuery,
        memory: &Snapshot,
        index: usize,
        scale: FeatureScale,
        inputs: &mut Vec<f32>,
    ) {
        inputs.clear();
        let (time, pose) = (memory.time(index), memory.pose(index));
        let relation = features(query, time, pose.as_ref(), scale);
        inputs.extend(relation.unwrap_or([0.0; FEATURES]));
        let mut embeddings = self.embeddings.as_slice();
        for &(cue, dimension) in &self.cues {
            let (embedding, rest) = embeddings.split_at(dimension);
            embeddings = rest;
            let first = inputs.len();
            inputs.resize(first + dimension, 0.0);
            let products = &mut inputs[first..];
            if let Some(key) = memory.key(cue, index) {
                key.copy_to(products);
                products.iter_mut().zip(embedding).for_each(|(key, own)| *key = known(*key * own));
            }
        }
    }
}

/// A number, or 0 where it is not known.
fn known(value: f32) -> f32 {
    if value.is_finite() { value } else { 0.0 }
}

/// What computing a worth reuses.
#[derive(Default)]
pub(crate) struct WorthBuffers {
    pub(crate) inputs: Vec<f32>,
    hidden: Vec<f32>,
    output: Vec<f32>,
}

/// The network.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Worth {
    layers: [Layer; 2],
    /// The retriever's key cues by their places.
    key_cues: Vec<usize>,
}

impl Worth {
    /// From layers whose shapes were checked.
    pub(crate) fn new(layers: [Layer; 2], config: &RetrieverConfig) -> Self {
        debug_assert_eq!(layers[0].weight.len(), WORTH_WIDTH * worth_inputs(config));
        Self { layers, key_cues: config.key_cues().collect() }
    }

    /// The parameters by the last parts of their names.
    pub(crate) fn parameters(&self) -> [(&'static str, &[f32]); 4] {
        let [hidden, output] = &self.layers;
        [
            ("worth.0.weight", hidden.weight.as_slice()),
            ("worth.0.bias", &hidden.bias),
            ("worth.1.weight", &output.weight),
            ("worth.1.bias", &output.bias),
        ]
    }

    /// Adds a memory's raw score by each cue of the retriever to what [`WorthQuery::read`] left.
    pub(crate) fn read_scores(&self, raw: impl Fn(usize) -> f32, inputs: &mut Vec<f32>) {
        inputs.extend(self.key_cues.iter().map(|cue| known(raw(*cue))));
    }

    /// The worth by the inputs that were read.
    pub(crate) fn of(&self, buffers: &mut WorthBuffers) -> f32 {
        let WorthBuffers { inputs, hidden, output } = buffers;
        two_layers(&self.layers, inputs, hidden, output);
        output[0]
    }

    /// The same in plain loops: the reference.
    pub(crate) fn of_reference(&self, inputs: &[f32]) -> f32 {
        two_layers_reference(&self.layers, inputs)[0]
    }
}
