//! Which look counts: how near the goal each frame of a context was seen, whether a newer one was, and
//! which three are held against each other.

use crate::world_model::context::{ContextBatch, FrameCondition};
use std::ops::Range;

/// Looks whose distances from the goal differ by less, in units, are from as near.
const AS_NEAR: f32 = 0.01;
/// Looks from less far, in units, show the goal's own place.
const WITHIN_REACH: f32 = 0.6;
/// Looks of every prediction: the nearest, the newest, and what was recalled first.
pub(crate) const LOOKS: usize = 3;

impl FrameCondition {
    /// How far it lies from the goal: meters in units of length, turns, as chords of a unit circle, and
    /// how far the acted door is open, taken together. What is shown before a shut door is elsewhere
    /// than what is shown before an open one.
    fn distance_from_goal(&self) -> f32 {
        let [forward, left, up, turn_sine, turn_cosine, tilt_sine, tilt_cosine] = self.from_goal;
        let turned = [turn_sine, turn_cosine - 1.0, tilt_sine, tilt_cosine - 1.0];
        let parts = [forward, left, up, self.door].into_iter().chain(turned);
        parts.map(|part| part * part).sum::<f32>().sqrt()
    }
}

impl ContextBatch<'_> {
    /// How far from its goal a context frame was seen.
    pub(crate) fn distance_from_goal(&self, frame: usize) -> f32 {
        self.condition_and_state(frame).0.distance_from_goal()
    }

    /// What is known of the memory in a slot; `None` if it is empty.
    fn memory_look(&self, prediction: usize, slot: usize) -> Option<Look> {
        let there = self.present()[prediction * self.slots() + slot];
        there.then(|| self.look(prediction, 1 + slot))
    }

    /// The same of any of the 1 + K frames of a prediction's context.
    fn look(&self, prediction: usize, frame: usize) -> Look {
        let condition = self.condition_and_state(prediction * (1 + self.slots()) + frame).0;
        Look { frame, distance: condition.distance_from_goal(), time: condition.time }
    }

    /// By how many newer memories from as near the goal each context frame of some predictions is
    /// superseded, [n, 1 + K]. The present is by none and supersedes none, because in a rollout it was
    /// imagined.
    pub(crate) fn superseded(&self, range: Range<usize>) -> Vec<f32> {
        let of_prediction = |prediction: usize| {
            let memory = move |slot| self.memory_look(prediction, slot);
            let newer = move |slot: usize| {
                let Some(own) = memory(slot) else { return 0.0 };
                let others = (0..self.slots()).filter_map(memory);
                others
                    .filter(|other| other.time > own.time && other.is_as_near(own.distance))
                    .count() as f32
            };
            std::iter::once(0.0).chain((0..self.slots()).map(newer))
        };
        range.flat_map(of_prediction).collect()
    }

    /// The looks of some predictions, as numbers of their context frames, [n, LOOKS]: that from nearest
    /// the goal, of those from as near the newest; the newest memory from within reach; the memory that
    /// was recalled first. Where there is no such memory the nearest look stands for it.
    pub(crate) fn looks(&self, range: Range<usize>) -> Vec<usize> {
        let of_prediction = |(place, prediction): (usize, usize)| {
            let memory = |slot| self.memory_look(prediction, slot);
            let memories: Vec<Look> = (0..self.slots()).filter_map(memory).collect();
            let current = self.look(prediction, 0);
            let least =
                memories.iter().fold(current.distance, |least, look| least.min(look.distance));
            let all = memories.iter().chain([&current]);
            let nearest = newest(all.filter(|look| look.is_as_near(least))).unwrap_or(&current);
            let within = memories.iter().filter(|look| look.distance <= WITHIN_REACH);
            let newest = newest(within).unwrap_or(nearest);
            let first = memories.first().unwrap_or(nearest);
            [nearest, newest, first].map(|look| place * (1 + self.slots()) + look.frame)
        };
        range.enumerate().flat_map(of_prediction).collect()
    }
}

/// A frame of a prediction's context: which, how far from the goal it was seen, and when.
#[derive(Clone, Copy)]
struct Look {
    frame: usize,
    distance: f32,
    time: f32,
}

impl Look {
    fn is_as_near(&self, distance: f32) -> bool {
        self.distance <= distance + AS_NEAR
    }
}

fn newest<'a>(looks: impl Iterator<Item = &'a Look>) -> Option<&'a Look> {
    looks.max_by(|a, b| a.time.total_cmp(&b.time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConditionScale, ContextTold, LatentShape, PredictionQuery, Remembered};
    use far_memory::Pose;

    /// One prediction per list of memories, each seen so many meters beside the goal and turned so far
    /// from it, at such a time. Two meters and four seconds are units.
    fn batch(predictions: &[&[(f32, f32, f64)]]) -> ContextBatch<'static> {
        let shape = LatentShape { channels: 2, height: 1, width: 1, patch: 1 };
        let scale = ConditionScale { length: 2.0, time: 4.0 };
        let mut batch = ContextBatch::new(shape, scale, 4, ContextTold::default());
        let pose = |side, turn| Pose::from_yaw_pitch([3.0, side, 0.0], 0.5 + turn, 0.0);
        let query = PredictionQuery {
            time: 10.0,
            pose: pose(5.0, 0.0),
            goal: pose(0.0, 0.0),
            stride: 2.0,
            signals: Vec::new(),
            state: Vec::new(),
            doors: [0.0; 2],
            goal_state: None,
        };
        for memories in predictions {
            let seen = memories.iter().map(|&(side, turn, time)| Remembered {
                time,
                pose: pose(side, turn),
                latent: &[5.0, 6.0],
                state: &[],
                door: 0.0,
            });
            batch.push(&query, &[1.0, 2.0], seen).unwrap();
        }
        batch
    }

    #[test]
    fn the_distance_from_the_goal_joins_ways_and_turns() {
        // A quarter turn is a chord of √2, six meters are three units.
        let batch = batch(&[&[(0.0, 0.0, 4.0), (6.0, std::f32::consts::FRAC_PI_2, 4.0)]]);
        let away = |frame| batch.distance_from_goal(frame);
        assert!(away(1) < 1e-3, "{}", away(1));
        assert!((away(2) - 11f32.sqrt()).abs() < 1e-3, "{}", away(2));
    }

    /// A shut door is as far from an open one as a unit of length.
    #[test]
    fn a_door_counts_in_the_distance() {
        let [shut, open] = [0.0, 1.0].map(|door| FrameCondition { door, ..Default::default() });
        let turned = |condition: FrameCondition| {
            let from_goal = [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0];
            FrameCondition { from_goal, ..condition }.distance_from_goal()
        };
        assert_eq!((turned(shut), turned(open)), (0.0, 1.0));
    }

    #[test]
    fn newer_looks_from_as_near_supersede() {
        // From the goal itself at 4, 6 and 5 s, and from a meter beside at 7 s.
        let all = [(0.0, 0.0, 4.0), (0.0, 0.0, 6.0), (1.0, 0.0, 7.0), (0.0, 0.0, 5.0)];
        // The look from beside is not as near; without it nothing else changes.
        let batch = batch(&[&all, &all[..2], &[(1.0, 0.0, 3.0), (0.0, 0.0, 3.5)], &[]]);
        assert_eq!(batch.superseded(0..1), [0.0, 2.0, 0.0, 0.0, 1.0]);
        assert_eq!(batch.superseded(1..2), [0.0, 1.0, 0.0, 0.0, 0.0]);
        // From beside and older than one from the goal.
        assert_eq!(batch.superseded(2..4)[..3], [0.0, 1.0, 0.0]);
        assert_eq!(batch.superseded(2..4)[3..], [0.0; 7]);
        // A meter is half a unit: the look from beside is within reach. The third has only two memories,
        // the fourth none but the present.
        assert_eq!(batch.looks(0..4), [2, 3, 1, 7, 7, 6, 12, 12, 11, 15, 15, 15]);
        assert_eq!(batch.looks(2..3), [2, 2, 1]);
    }
}
