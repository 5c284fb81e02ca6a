//! Where two histories that end in the same present tell themselves apart.

use crate::Episode;

/// The reveal of a counterfactual pair: two episodes of which one lacks a deed, so that their
/// returns look the same until what it left behind comes into sight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// The present: the frame before the last interaction up to the goal, or else the last frame that
    /// looks the same.
    pub current: usize,
    /// The first frame at a canonical viewpoint that looks different in the two episodes, or else
    /// the first such frame anywhere.
    pub goal: usize,
    /// The memories that look different, ascending: only they tell which of the two histories it was.
    pub remembered: Vec<usize>,
}

impl Divergence {
    /// The reveal of two episodes; `None` if their returns never look different, or already do where
    /// they begin.
    pub fn of(a: &Episode, b: &Episode) -> Option<Self> {
        let (start, end) = (a.boundary(), a.len().min(b.len()));
        let differs = |frame: &usize| a.image_bytes(*frame) != b.image_bytes(*frame);
        let first = (start..end).find(differs).filter(|first| *first > start)?;
        let settled = (first..end).find(|frame| differs(frame) && a.pose_key(*frame) >= 0);
        let goal = settled.unwrap_or(first);
        let interaction = (start + 1..=goal).rev().find(|frame| !a.events(*frame).is_empty());
        let current = interaction.map_or(first, |frame| frame.min(first)) - 1;
        Some(Self { current, goal, remembered: (0..start).filter(differs).collect() })
    }
}
