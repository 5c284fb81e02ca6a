//! The paper's own probes: questions whose answer is right or wrong, beside the quality of frames.
//!
//! Each asks only of clips that can be asked: a corpus without the signal it needs has no such
//! metric in its results.

mod counterfactual;
mod counterfactual_view;
mod crop;
mod state_accuracy;
#[cfg(test)]
mod tests;

pub(crate) use counterfactual::CounterfactualPair;
pub use counterfactual_view::{CounterfactualAnswer, CounterfactualView};
pub(crate) use crop::CropDistance;
pub(crate) use state_accuracy::ChangedStates;
