//! The paper's own probes: questions whose answer is right or wrong, beside the quality of frames.
//!
//! Each asks only of clips that can be asked: a corpus without the signal it needs has no such
//! metric in its results.

pub(crate) mod both_ends;
mod both_ends_view;
mod counterfactual;
mod counterfactual_view;
mod crop;
mod cue_trust;
mod state_accuracy;
#[cfg(test)]
mod tests;

pub use both_ends_view::{BothEndsView, CorridorEnd, EndAnswer};
pub(crate) use counterfactual::CounterfactualPair;
pub use counterfactual_view::{CounterfactualAnswer, CounterfactualView};
pub(crate) use crop::CropDistance;
pub(crate) use cue_trust::CueTrust;
pub use cue_trust::Sight;
pub(crate) use state_accuracy::ChangedStates;

use far_model::AgentDetector;

/// Instruments that probes need and an evaluation may have.
#[derive(Clone, Copy, Default)]
pub struct Probes<'a> {
    /// Who is in a generated frame: for both ends of a corridor.
    pub detector: Option<&'a AgentDetector>,
    /// Whether two places see each other: for how far cues are trusted.
    pub sight: Option<&'a dyn Sight>,
}
