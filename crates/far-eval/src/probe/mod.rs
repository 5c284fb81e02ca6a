//! The paper's own probes: questions whose answer is right or wrong, beside the quality of frames.
//!
//! Each asks only of clips that can be asked: a corpus without the signal it needs has no such
//! metric in its results.

mod cue_trust;

pub(crate) use cue_trust::CueTrust;
pub use cue_trust::Sight;
