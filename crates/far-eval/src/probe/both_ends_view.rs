//! The both-ends probe for looking at.

use far_data::Picture;
use std::collections::BTreeMap;

/// One trajectory: from one present and one noise each arm generated both ends of the corridor, and
/// a detector says at which of them the second agent is.
///
/// Files: `probes/both-ends-EPISODE.json` in the folder of the results, EPISODE in six digits, pictures
/// as base64 PNG, each stored once.
#[derive(Clone, Debug, PartialEq)]
pub struct BothEndsView {
    /// The episode.
    pub episode: u32,
    /// The present frame, from which nobody is seen.
    pub current: usize,
    /// The present as it was recorded.
    pub present: Picture,
    /// The two ends.
    pub ends: [CorridorEnd; 2],
    /// Every memory frame that any arm recalled.
    pub memories: BTreeMap<usize, Picture>,
    /// What each arm generated, by end.
    pub arms: BTreeMap<String, [EndAnswer; 2]>,
}

/// One end of a corridor.
#[derive(Clone, Debug, PartialEq)]
pub struct CorridorEnd {
    /// The frame that looks at it.
    pub goal: usize,
    /// Whether the second agent is there.
    pub agent: bool,
    /// The truth as it was recorded.
    pub truth: Picture,
}

/// What an arm generated for one end.
#[derive(Clone, Debug, PartialEq)]
pub struct EndAnswer {
    /// The picture.
    pub picture: Picture,
    /// Whether the detector finds the agent in it.
    pub fires: bool,
    /// The memory frames that were recalled for it, best first.
    pub recalled: Vec<usize>,
}

impl BothEndsView {
    /// Whether the detector says of one end what is true there.
    pub fn is_right(&self, end: usize, answer: &EndAnswer) -> bool {
        answer.fires == self.ends[end].agent
    }
}
