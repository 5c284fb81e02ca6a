//! What an evaluation works with, for itself and for its probes.

use crate::EvaluationPlan;
use crate::arm::Arm;
use crate::frame_quality::FrameQuality;
use crate::prediction::Predictor;
use far_model::{EncodedDataset, WorldModel};

/// What an evaluation works with; every probe sees the same, read-only.
pub struct EvaluationContext<'a> {
    /// The dataset with the tokenizer and the encoders of every arm.
    pub dataset: &'a EncodedDataset,
    /// Episodes that are evaluated.
    pub episodes: &'a [u32],
    /// The common world model.
    pub judge: &'a dyn WorldModel,
    /// The arms.
    pub arms: &'a [Arm],
    /// What every arm gets alike.
    pub plan: &'a EvaluationPlan,
    /// Recalls and generates for each arm, in the same order.
    pub predictors: &'a [Predictor<'a>],
    /// Decodes latents and compares pictures.
    pub quality: &'a FrameQuality<'a>,
    pub(crate) progress: &'a dyn Fn(u64),
}

impl EvaluationContext<'_> {
    /// Reports passes of a world model that were made.
    pub fn advance(&self, passes: u64) {
        (self.progress)(passes);
    }
}
