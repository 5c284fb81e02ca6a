//! How much of a return leg memory has seen, and how often overlap alone picks the wrong memory.

use serde::Serialize;

use crate::Episode;
use crate::overlap::OverlapRule;

/// Counts over return frames that see at least one face.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Return frames that were judged.
    pub frames: u64,
    /// Of those, frames for which some memory sees at least half of the faces they see.
    pub covered: u64,
    /// Of the covered, frames for which the memory with the largest field-of-view overlap does not:
    /// something stands in between.
    pub misled: u64,
}

impl Coverage {
    /// Counts one episode. All explore frames are memory.
    ///
    /// Faces become bits, so that one comparison of two frames is a few dozen machine words.
    pub fn of(episode: &Episode, rule: &OverlapRule) -> Self {
        let boundary = episode.boundary();
        let mut faces: Vec<u32> = (boundary..episode.len())
            .flat_map(|frame| episode.visible_faces(frame).iter().copied())
            .collect();
        faces.sort_unstable();
        faces.dedup();
        let words = faces.len().div_ceil(64);
        let bits = |frame: usize| {
            let mut bits = vec![0u64; words];
            for face in episode.visible_faces(frame) {
                // Faces that no return frame sees cannot matter.
                if let Ok(index) = faces.binary_search(face) {
                    bits[index / 64] |= 1 << (index % 64);
                }
            }
            bits
        };
        let memory: Vec<u64> = (0..boundary).flat_map(bits).collect();
        let poses = episode.poses();
        let mut coverage = Self::default();
        for frame in boundary..episode.len() {
            let seen = episode.visible_faces(frame).len();
            if seen == 0 {
                continue;
            }
            let target = bits(frame);
            let half = |index: usize| {
                let own = &memory[index * words..(index + 1) * words];
                let shared: u32 = own.iter().zip(&target).map(|(a, b)| (a & b).count_ones()).sum();
                2 * shared as usize >= seen
            };
            coverage.frames += 1;
            if (0..boundary).any(half) {
                coverage.covered += 1;
                let best = rule.view(&poses[frame]).best(&poses[..boundary]);
                coverage.misled += u64::from(!best.is_some_and(half));
            }
        }
        coverage
    }

    /// Both counts together.
    pub fn merge(self, other: Self) -> Self {
        Self {
            frames: self.frames + other.frames,
            covered: self.covered + other.covered,
            misled: self.misled + other.misled,
        }
    }

    /// Share of the return frames that some memory covers; `None` without frames.
    pub fn covered_share(&self) -> Option<f64> {
        share(self.covered, self.frames)
    }

    /// Share of the covered frames for which overlap picks a memory that does not cover them.
    pub fn misled_share(&self) -> Option<f64> {
        share(self.misled, self.covered)
    }
}

pub(crate) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
