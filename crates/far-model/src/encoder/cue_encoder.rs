//! What turns a frame into the key of a cue, and the present into a query for it.

use crate::{ConditionScale, Error, POSE_FEATURES, Result};
use far_memory::Displacement;
use far_tensor::{Device, Tensor};

/// An action as encoders are told of it: where it leads, how long it takes, and the interactions on
/// the way, if there are any.
#[derive(Clone, Debug, PartialEq)]
pub struct ActionFeatures(Vec<f32>);

impl ActionFeatures {
    /// Numbers of an action without interactions.
    pub const LENGTH: usize = POSE_FEATURES + 1;

    /// A displacement that takes `stride` seconds, with the signals of the action
    /// ([`crate::PredictionQuery::action`]).
    pub fn new(
        scale: &ConditionScale,
        displacement: Displacement,
        stride: f32,
        signals: &[f32],
    ) -> Self {
        let mut features = scale.pose_features(displacement).to_vec();
        features.push(stride / scale.time);
        features.extend_from_slice(signals);
        Self(features)
    }

    /// Where it leads and how long it takes: [`Self::LENGTH`] numbers.
    pub fn displacement(&self) -> &[f32] {
        &self.0[..Self::LENGTH]
    }

    /// The interactions on the way; empty when none are told.
    pub fn signals(&self) -> &[f32] {
        &self.0[Self::LENGTH..]
    }

    /// Actions with so many signals each as rows of a network's input, [n, 8 + signals]. Further
    /// signals are left out.
    ///
    /// # Errors
    /// If an action has fewer signals.
    pub fn tensor(actions: &[Self], signals: usize) -> Result<Tensor> {
        let length = Self::LENGTH + signals;
        let mut values = Vec::with_capacity(actions.len() * length);
        for Self(features) in actions {
            let told = features.len() - Self::LENGTH;
            Error::check_length("the signals of an action", told.min(signals), signals)?;
            values.extend_from_slice(&features[..length]);
        }
        Ok(Tensor::from_slice(&values, [actions.len(), length])?)
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

/// The recipe of keys that are made on a device: elsewhere than on the CPU they are rounded otherwise,
/// and a cache must not give one for the other.
pub(crate) fn recipe_on(device: &Device, recipe: String) -> String {
    if device.is_cuda() { format!("{recipe} {}", device.precision()) } else { recipe }
}
