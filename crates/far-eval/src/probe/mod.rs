//! The paper's own probes: questions whose answer is right or wrong, beside the quality of frames.
//!
//! Each asks only of clips that can be asked: a corpus without the signal it needs has no such
//! metric in its results.

mod both_ends_view;

pub use both_ends_view::{BothEndsView, CorridorEnd, EndAnswer};
