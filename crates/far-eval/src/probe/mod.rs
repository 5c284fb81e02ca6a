//! Probes: questions whose answer is right or wrong, beside the quality of frames.
//!
//! Each is one file, or one folder, behind the trait [`Probe`], and one line of [`Probes::all`]. A probe
//! asks only of clips that can be asked: a corpus without the signal it needs has no such metric in its
//! results. `docs/adding-a-probe.md` says how to write one.

mod both_ends;
mod changed_states;
mod counterfactual_pairs;
mod crop;
mod cue_trust;
mod faces_shown;
mod foreign_memories;
mod interface;
mod measured;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use both_ends::{BothEndsView, EndAnswer, EndView};
pub use counterfactual_pairs::{CounterfactualAnswer, CounterfactualView};
pub(crate) use crop::CropDistance;
pub use cue_trust::Sight;
pub use interface::{ClipGroup, Observed, Probe};
pub use measured::Measured;

use both_ends::BothEnds;
use changed_states::ChangedStates;
use counterfactual_pairs::CounterfactualPairs;
use cue_trust::CueTrust;
use faces_shown::FacesShown;
use far_model::LatentDetector;
use foreign_memories::ForeignMemories;

/// Instruments that the built-in probes need and an evaluation may have.
#[derive(Clone, Copy, Default)]
pub struct Probes<'a> {
    /// Who is in a generated frame: for both ends of a corridor.
    pub detector: Option<&'a LatentDetector>,
    /// Whether two places see each other: for how far cues are trusted.
    pub sight: Option<&'a dyn Sight>,
}

impl<'a> Probes<'a> {
    /// All built-in probes, in the order in which tables show them.
    pub fn all(self) -> Vec<Box<dyn Probe + 'a>> {
        vec![
            Box::new(ChangedStates::default()),
            Box::new(CounterfactualPairs::default()),
            Box::new(BothEnds::new(self.detector)),
            Box::new(FacesShown::default()),
            Box::new(ForeignMemories::default()),
            Box::new(CueTrust::new(self.sight)),
        ]
    }
}
