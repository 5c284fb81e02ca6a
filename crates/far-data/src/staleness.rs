//! How often the nearest memory shows an outdated state, and whether memory knows better.

use std::collections::HashMap;

use serde::Serialize;

use crate::Episode;
use crate::coverage::share;

/// Counts over return frames at a canonical viewpoint that show a state made in this episode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Staleness {
    /// Return frames that were judged.
    pub frames: u64,
    /// Of those, frames whose newest memory at the same viewpoint lacks a changed state.
    pub stale: u64,
    /// Of those, frames with every changed state shown by some memory, or its making.
    pub known: u64,
}

impl Staleness {
    /// Counts one episode. All explore frames are memory.
    pub fn of(episode: &Episode) -> Self {
        // Newest memory per viewpoint, and all states that memory shows or shows the making of.
        let mut newest: HashMap<i32, usize> = HashMap::new();
        let mut shown: Vec<u64> = Vec::new();
        for frame in 0..episode.boundary() {
            if episode.pose_key(frame) >= 0 {
                newest.insert(episode.pose_key(frame), frame);
            }
            shown.extend_from_slice(episode.visible_states(frame));
            shown.extend_from_slice(episode.made_states(frame));
        }
        shown.sort_unstable();
        shown.dedup();
        let mut staleness = Self::default();
        for frame in episode.boundary()..episode.len() {
            let changed = episode.changed_states(frame);
            let key = episode.pose_key(frame);
            if key < 0 || changed.is_empty() {
                continue;
            }
            staleness.frames += 1;
            let lacks = |&memory: &usize| {
                let visible = episode.visible_states(memory);
                changed.iter().any(|state| visible.binary_search(state).is_err())
            };
            staleness.stale += u64::from(newest.get(&key).is_some_and(lacks));
            let known = changed.iter().all(|state| shown.binary_search(state).is_ok());
            staleness.known += u64::from(known);
        }
        staleness
    }

    /// Both counts together.
    pub fn merge(self, other: Self) -> Self {
        Self {
            frames: self.frames + other.frames,
            stale: self.stale + other.stale,
            known: self.known + other.known,
        }
    }

    /// Share of the frames whose newest pose-matched memory is stale; `None` without frames.
    pub fn stale_share(&self) -> Option<f64> {
        share(self.stale, self.frames)
    }

    /// Share of the frames whose changed states memory knows; `None` without frames.
    pub fn known_share(&self) -> Option<f64> {
        share(self.known, self.frames)
    }
}
