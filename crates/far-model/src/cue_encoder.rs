//! What turns a frame into the key of a cue, and the present into a query for it.

use crate::{ConditionScale, POSE_FEATURES, Result};
use far_memory::Displacement;
use far_tensor::Tensor;

/// An action as encoders are told of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ActionFeatures(pub [f32; Self::LENGTH]);

impl ActionFeatures {
    /// Numbers of an action: where it leads and how long it takes.
    pub const LENGTH: usize = POSE_FEATURES + 1;

    /// A displacement that takes `stride` seconds.
    pub fn new(scale: &ConditionScale, displacement: Displacement, stride: f32) -> Self {
        let mut features = [0.0; Self::LENGTH];
        features[..POSE_FEATURES].copy_from_slice(&scale.pose_features(displacement));
        features[POSE_FEATURES] = stride / scale.time;
        Self(features)
    }

    /// Actions as rows of a network's input, [n, 8].
    pub fn tensor(actions: &[Self]) -> Tensor {
        let values: Vec<f32> = actions.iter().flat_map(|action| action.0).collect();
        Tensor::from_slice(&values, [actions.len(), Self::LENGTH]).expect("eight numbers each")
    }
}

/// A frozen encoder of one cue: keys of memories, made once, and queries of the present.
///
/// Keys and queries have unit length. Inputs are whatever the cue is made of, one row per frame:
/// for vision the latent of the frame as tokens.
pub trait CueEncoder: Send + Sync {
    /// The cue's name in memories, as "vision".
    fn cue(&self) -> &str;

    /// Numbers of a key.
    fn dimension(&self) -> usize;

    /// What decides the keys, as text: settings and a hash of the weights. Caches are named by it.
    fn recipe(&self) -> String;

    /// Keys of frames: [n, inputs] → [n, dimension].
    ///
    /// # Errors
    /// If the inputs do not fit.
    fn keys(&self, frames: &[f32]) -> Result<Vec<f32>>;

    /// Queries of frames and the actions taken there: [n, inputs], n → [n, dimension].
    ///
    /// # Errors
    /// If the inputs do not fit.
    fn queries(&self, frames: &[f32], actions: &[ActionFeatures]) -> Result<Vec<f32>>;
}
