//! The settings of the world model's network.

use crate::Error;
use far_tensor::Prediction;
use serde::{Deserialize, Serialize};

/// Who reads whom in attention over all frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ContextAttention {
    /// Every frame reads every other. Paper.
    #[default]
    Joint,
    /// Context frames read each other; the target reads all.
    ContextFirst,
}

/// What the network predicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PredictionKind {
    /// The noise ε. Paper.
    #[default]
    Noise,
    /// The velocity √ᾱ·ε − √(1−ᾱ)·x_0; learns much faster in short runs.
    Velocity,
    /// The clean future x_0; its errors have the same weight at all noise levels. Noise need not pass
    /// through the network, which helps where a token has many channels for the network's width.
    Clean,
}

impl From<PredictionKind> for Prediction {
    fn from(kind: PredictionKind) -> Self {
        match kind {
            PredictionKind::Noise => Self::Noise,
            PredictionKind::Velocity => Self::Velocity,
            PredictionKind::Clean => Self::Clean,
        }
    }
}

far_memory::settings! {
    /// The settings of the network; the defaults are the paper's.
    #[derive(Copy)]
    pub struct DitConfig {
        /// Blocks in all, every second one over all frames. Paper: 12; whether that counts pairs it does
        /// not say.
        pub depth: usize = 12,
        /// Channels of a token. Paper: 768.
        pub width: usize = 768,
        /// Heads. Paper: 12.
        pub heads: usize = 12,
        /// Who reads whom.
        pub attention: ContextAttention = ContextAttention::Joint,
        /// What is predicted.
        pub prediction: PredictionKind = PredictionKind::Noise,
        /// Whether the network also learns the variance of each step, by the variational bound. Paper:
        /// yes.
        pub learned_variance: bool = true,
        /// Whether tokens of the context can be copied to the output as they are; with `prediction =
        /// "clean"` and without a learned variance alone.
        pub copy: bool = false,
        /// Where given, frames of the context are shown to the network as they would have been seen from the
        /// goal, if everything stood so many meters before its camera or where the axes of both meet; with
        /// tokens that are linear in pixels alone.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub seen_from_goal: Option<f32> = None,
        /// Where given, every memory in the context shows the frame of so many seconds earlier too. Paper:
        /// 1.5 in the main text on AI2-THOR-dyn, none in its appendix.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub earlier_view: Option<f32> = None,
    }
}

impl DitConfig {
    /// Frames of the context that a memory takes.
    pub fn frames_per_memory(&self) -> usize {
        frames_per_memory(self.earlier_view)
    }

    /// Checks that the sizes make a network.
    ///
    /// # Errors
    /// Naming the setting that does not.
    pub fn check(&self) -> crate::Result<()> {
        let wrong =
            |setting, reason: &str| Err(Error::Setting { setting, reason: reason.to_owned() });
        if self.depth < 2 {
            return wrong("world_model.depth", "two blocks are needed to read a context");
        }
        if self.heads == 0 || !self.width.is_multiple_of(self.heads) {
            return wrong("world_model.heads", "they must divide the width");
        }
        if !self.width.is_multiple_of(4) || self.width == 0 {
            return wrong("world_model.width", "it must be a positive multiple of 4");
        }
        if self.copy && (self.prediction != PredictionKind::Clean || self.learned_variance) {
            let reason = "what is copied is a clean picture: it wants world_model.prediction = \"clean\" \
                and world_model.learned_variance = false";
            return wrong("world_model.copy", reason);
        }
        if self.seen_from_goal.is_some_and(|meters| !(meters > 0.0 && meters.is_finite())) {
            return wrong("world_model.seen_from_goal", "it must be a distance above zero");
        }
        if self.earlier_view.is_some_and(|seconds| !(seconds > 0.0 && seconds.is_finite())) {
            return wrong("world_model.earlier_view", "it must be a time above zero, in seconds");
        }
        Ok(())
    }
}

/// Frames of the context that a memory takes, where each shows the frame of so many seconds earlier too.
pub(crate) fn frames_per_memory(earlier_view: Option<f32>) -> usize {
    1 + usize::from(earlier_view.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_and_a_time_are_above_zero() {
        for wrong in [0.0, -1.5, f32::NAN, f32::INFINITY] {
            let config = DitConfig { seen_from_goal: Some(wrong), ..DitConfig::default() };
            let error = config.check().unwrap_err().to_string();
            assert!(error.contains("world_model.seen_from_goal"), "{error}");
            let config = DitConfig { earlier_view: Some(wrong), ..DitConfig::default() };
            let error = config.check().unwrap_err().to_string();
            assert!(error.contains("world_model.earlier_view"), "{error}");
        }
    }

    #[test]
    fn only_clean_pictures_are_copied() {
        let clean = DitConfig {
            prediction: PredictionKind::Clean,
            learned_variance: false,
            copy: true,
            ..DitConfig::default()
        };
        clean.check().unwrap();
        let velocity = DitConfig { prediction: PredictionKind::Velocity, ..clean };
        for config in [velocity, DitConfig { learned_variance: true, ..clean }] {
            let error = config.check().unwrap_err().to_string();
            assert!(error.contains("world_model.copy"), "{error}");
        }
    }
}
