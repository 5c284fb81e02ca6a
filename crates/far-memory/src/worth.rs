//! Whether a memory is worth recalling: the log odds that the world model predicts better with it than without
//! any. Scores cannot say that: they are standardized within a pool, so the best of useless memories stands
//! out as much as the best of good ones.
//!
//! The worth of a memory is a network with one hidden layer of [`WORTH_WIDTH`] GELU units over
//!
//! | index | input |
//! |---|---|
//! | 0–25 | the memory in relation to the query, the features of `feature.rs`; zeros where it lacks a pose that the query has |
//! | 26… | its raw score by each key cue; 0 without one |
//!
//! Nothing in it depends on the rest of the pool: one memory of use among many foreign ones is worth
//! what it is worth alone. Nor does it depend on what was recalled before: what a memory adds to others is
//! little beside what it is worth alone, and the scores know what it repeats.

use crate::feature::{FEATURES, features};
use crate::layer::{Layer, two_layers, two_layers_reference};
use crate::{FeatureScale, Pose, RecallQuery};

/// Hidden units.
pub const WORTH_WIDTH: usize = 32;

/// Numbers that the worth of a memory is computed from, with so many key cues.
pub const fn worth_inputs(key_cues: usize) -> usize {
    FEATURES + key_cues
}

/// What a memory's worth reads of its time and pose: its features, zeros where it has none.
pub fn worth_relation(
    query: &RecallQuery,
    time: f64,
    pose: Option<&Pose>,
    scale: FeatureScale,
) -> [f32; FEATURES] {
    features(query, time, pose, scale).unwrap_or([0.0; FEATURES])
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
    pub(crate) fn new(layers: [Layer; 2], key_cues: Vec<usize>) -> Self {
        debug_assert_eq!(layers[0].weight.len(), WORTH_WIDTH * worth_inputs(key_cues.len()));
        Self { layers, key_cues }
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

    /// Replaces `inputs` by those of a memory: its relation to the query, and its raw score by each cue of the
    /// retriever.
    pub(crate) fn read(
        &self,
        relation: [f32; FEATURES],
        raw: impl Fn(usize) -> f32,
        inputs: &mut Vec<f32>,
    ) {
        inputs.clear();
        inputs.extend(relation);
        let known = |score: f32| if score.is_finite() { score } else { 0.0 };
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
