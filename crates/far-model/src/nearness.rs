//! Which look counts: how near the goal each frame of a context was seen, and whether a newer one was.

use crate::context::{ContextBatch, FrameCondition};
use std::ops::Range;

/// Looks whose distances from the goal differ by less, in units, are from as near.
const AS_NEAR: f32 = 0.01;

impl FrameCondition {
    /// How far it lies from the goal: meters in units of length and turns, as chords of a unit circle,
    /// taken together.
    fn distance_from_goal(&self) -> f32 {
        let [forward, left, up, turn_sine, turn_cosine, tilt_sine, tilt_cosine] = self.from_goal;
        let turned = [turn_sine, turn_cosine - 1.0, tilt_sine, tilt_cosine - 1.0];
        let parts = [forward, left, up].into_iter().chain(turned);
        parts.map(|part| part * part).sum::<f32>().sqrt()
    }
}

impl ContextBatch<'_> {
    /// How far from its goal a context frame was seen.
    pub(crate) fn distance_from_goal(&self, frame: usize) -> f32 {
        self.condition_and_state(frame).0.distance_from_goal()
    }

    /// By how many newer memories from as near the goal each context frame of some predictions is
    /// superseded, [n, 1 + K]. The present is by none and supersedes none, because in a rollout it was
    /// imagined.
    pub(crate) fn superseded(&self, range: Range<usize>) -> Vec<f32> {
        let slots = self.slots();
        let of_prediction = |prediction: usize| {
            let seen = move |slot: usize| {
                let frame = prediction * (1 + slots) + 1 + slot;
                let time = self.condition_and_state(frame).0.time;
                let there = self.present()[prediction * slots + slot];
                there.then(|| (self.distance_from_goal(frame), time))
            };
            let newer = move |slot: usize| {
                let Some((distance, time)) = seen(slot) else { return 0.0 };
                let others = (0..slots).filter_map(seen);
                others.filter(|other| other.1 > time && other.0 <= distance + AS_NEAR).count()
                    as f32
            };
            std::iter::once(0.0).chain((0..slots).map(newer))
        };
        range.flat_map(of_prediction).collect()
    }
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
            goal_state: None,
        };
        for memories in predictions {
            let seen = memories.iter().map(|&(side, turn, time)| Remembered {
                time,
                pose: pose(side, turn),
                latent: &[5.0, 6.0],
                state: &[],
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
    }
}
