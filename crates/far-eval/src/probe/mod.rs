//! The paper's own probes: questions whose answer is right or wrong, beside the quality of frames.
//!
//! Each asks only of clips that can be asked: a corpus without the signal it needs has no such
//! metric in its results.

pub(crate) mod both_ends;

use far_model::AgentDetector;

/// Instruments that probes need and an evaluation may have.
#[derive(Clone, Copy, Default)]
pub struct Probes<'a> {
    /// Who is in a generated frame: for both ends of a corridor.
    pub detector: Option<&'a AgentDetector>,
}
