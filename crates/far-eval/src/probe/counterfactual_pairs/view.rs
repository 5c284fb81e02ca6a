//! A counterfactual pair as the report shows it.

use far_data::Picture;
use std::collections::BTreeMap;

/// One pair of episodes whose return looks the same until a container opens, with what each arm
/// predicted to be inside.
///
/// Everything that has two sides lists the episode with the interaction first (the thing was put into
/// the container), then the one without. A page shows present, truths and predictions side by side, two rows
/// per pair, and what was recalled below; [`CounterfactualView::crop`] frames what is compared.
///
/// Files: `probes/counterfactual-EPISODE.json` in the folder of the results, EPISODE being the first of
/// the two in six digits, pictures as base64 PNG, each stored once.
#[derive(Clone, Debug, PartialEq)]
pub struct CounterfactualView {
    /// The two episodes.
    pub episodes: [u32; 2],
    /// The present: the last frame before the container opens, the same in both.
    pub current: usize,
    /// The frame that is predicted: the first view inside.
    pub goal: usize,
    /// What is compared: left, top, right and bottom edge in pixels, right and bottom exclusive.
    pub crop: [u32; 4],
    /// The present as it was recorded.
    pub present: Picture,
    /// The truths as they were recorded.
    pub truths: [Picture; 2],
    /// Every memory frame that any arm recalled, of each episode.
    pub memories: [BTreeMap<usize, Picture>; 2],
    /// What each arm made of it.
    pub arms: BTreeMap<String, CounterfactualAnswer>,
}

/// One arm's predictions of a pair.
#[derive(Clone, Debug, PartialEq)]
pub struct CounterfactualAnswer {
    /// What it predicts in each episode.
    pub predictions: [Picture; 2],
    /// The memory frames that it recalled, best first.
    pub recalled: [Vec<usize>; 2],
    /// Whether each prediction is nearer its own truth than the other's.
    pub right: [bool; 2],
}
