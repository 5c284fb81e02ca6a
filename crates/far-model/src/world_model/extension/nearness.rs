//! Which view counts: how near the goal each frame of a context was seen, whether a newer one was, and
//! which three are held against each other.

use crate::world_model::context::ContextBatch;
use crate::world_model::frame_condition::ContextFrame;
use std::ops::Range;

/// Views whose distances from the goal differ by less, in units, are from as near.
const AS_NEAR: f32 = 0.01;
/// Views from less far, in units, show the goal's own place.
const WITHIN_REACH: f32 = 0.6;
/// Views of every prediction: the nearest, the newest, and what was recalled first.
pub(crate) const VIEWS: usize = 3;

impl ContextFrame<'_> {
    /// How far it was seen from the goal: meters in units of length, turns as chords of a unit circle,
    /// and what else viewpoints have, taken together.
    fn distance_from_goal(&self) -> f32 {
        let [forward, left, up, turn_sine, turn_cosine, tilt_sine, tilt_cosine] =
            self.condition.from_goal;
        let turned = [turn_sine, turn_cosine - 1.0, tilt_sine, tilt_cosine - 1.0];
        let placed = [forward, left, up].into_iter().chain(self.viewpoint.iter().copied());
        placed.chain(turned).map(|part| part * part).sum::<f32>().sqrt()
    }
}

impl ContextBatch<'_> {
    /// How far from its goal a context frame was seen.
    pub(crate) fn distance_from_goal(&self, frame: usize) -> f32 {
        self.frame(frame).distance_from_goal()
    }

    /// What is known of the memory in a slot; `None` if it is empty.
    fn memory_view(&self, prediction: usize, slot: usize) -> Option<View> {
        let there = self.present()[prediction * self.slots() + slot];
        there.then(|| self.view_at(prediction, 1 + slot))
    }

    /// The same of any of the 1 + K frames of a prediction's context.
    fn view_at(&self, prediction: usize, frame: usize) -> View {
        let own = self.frame(prediction * (1 + self.slots()) + frame);
        View { frame, distance: own.distance_from_goal(), time: own.condition.time }
    }

    /// By how many newer memories from as near the goal each context frame of some predictions is
    /// superseded, [n, 1 + K]. The present is by none and supersedes none, because in a rollout it was
    /// imagined.
    pub(crate) fn superseded(&self, range: Range<usize>) -> Vec<f32> {
        let of_prediction = |prediction: usize| {
            let memory = move |slot| self.memory_view(prediction, slot);
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

    /// The views of some predictions, as numbers of their context frames, [n, VIEWS]: that from nearest
    /// the goal, of those from as near the newest; the newest memory from within reach; the memory that
    /// was recalled first. Where there is no such memory the nearest view stands for it.
    pub(crate) fn views(&self, range: Range<usize>) -> Vec<usize> {
        let of_prediction = |(place, prediction): (usize, usize)| {
            let memory = |slot| self.memory_view(prediction, slot);
            let memories: Vec<View> = (0..self.slots()).filter_map(memory).collect();
            let current = self.view_at(prediction, 0);
            let least =
                memories.iter().fold(current.distance, |least, view| least.min(view.distance));
            let all = memories.iter().chain([&current]);
            let nearest = newest(all.filter(|view| view.is_as_near(least))).unwrap_or(&current);
            let within = memories.iter().filter(|view| view.distance <= WITHIN_REACH);
            let newest = newest(within).unwrap_or(nearest);
            let first = memories.first().unwrap_or(nearest);
            [nearest, newest, first].map(|view| place * (1 + self.slots()) + view.frame)
        };
        range.enumerate().flat_map(of_prediction).collect()
    }
}

/// A frame of a prediction's context: which, how far from the goal it was seen, and when.
#[derive(Clone, Copy)]
struct View {
    frame: usize,
    distance: f32,
    time: f32,
}

impl View {
    fn is_as_near(&self, distance: f32) -> bool {
        self.distance <= distance + AS_NEAR
    }
}

fn newest<'a>(views: impl Iterator<Item = &'a View>) -> Option<&'a View> {
    views.max_by(|a, b| a.time.total_cmp(&b.time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world_model::frame_condition::FrameCondition;
    use crate::{
        ConditionScale, FrameSignals, LatentShape, PredictionQuery, Remembered, SignalLayout,
    };
    use far_memory::Pose;

    /// One prediction per list of memories, each seen so many meters beside the goal and turned so far
    /// from it, at such a time. Two meters and four seconds are units.
    fn batch(predictions: &[&[(f32, f32, f64)]]) -> ContextBatch<'static> {
        let shape = LatentShape { channels: 2, height: 1, width: 1, patch: 1 };
        let scale = ConditionScale { length: 2.0, time: 4.0 };
        let mut batch = ContextBatch::new(shape, scale, 4, SignalLayout::default());
        let pose = |side, turn| Pose::from_yaw_pitch([3.0, side, 0.0], 0.5 + turn, 0.0);
        let query = PredictionQuery::new(10.0, pose(5.0, 0.0), pose(0.0, 0.0), 2.0);
        for memories in predictions {
            let seen = memories.iter().map(|&(side, turn, time)| Remembered {
                time,
                pose: Some(pose(side, turn)),
                latent: &[5.0, 6.0],
                signals: FrameSignals::default(),
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

    /// A difference of 1 in a signal is as far as a unit of length.
    #[test]
    fn signals_of_the_viewpoint_count_in_the_distance() {
        let from_goal = [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0];
        let condition = &FrameCondition { from_goal, ..Default::default() };
        let away =
            |viewpoint| ContextFrame { condition, viewpoint, state: &[] }.distance_from_goal();
        assert_eq!((away(&[]), away(&[0.0]), away(&[1.0])), (0.0, 0.0, 1.0));
    }

    #[test]
    fn newer_looks_from_as_near_supersede() {
        // From the goal itself at 4, 6 and 5 s, and from a meter beside at 7 s.
        let all = [(0.0, 0.0, 4.0), (0.0, 0.0, 6.0), (1.0, 0.0, 7.0), (0.0, 0.0, 5.0)];
        // The view from beside is not as near; without it nothing else changes.
        let batch = batch(&[&all, &all[..2], &[(1.0, 0.0, 3.0), (0.0, 0.0, 3.5)], &[]]);
        assert_eq!(batch.superseded(0..1), [0.0, 2.0, 0.0, 0.0, 1.0]);
        assert_eq!(batch.superseded(1..2), [0.0, 1.0, 0.0, 0.0, 0.0]);
        // From beside and older than one from the goal.
        assert_eq!(batch.superseded(2..4)[..3], [0.0, 1.0, 0.0]);
        assert_eq!(batch.superseded(2..4)[3..], [0.0; 7]);
        // A meter is half a unit: the view from beside is within reach. The third has only two memories,
        // the fourth none but the present.
        assert_eq!(batch.views(0..4), [2, 3, 1, 7, 7, 6, 12, 12, 11, 15, 15, 15]);
        assert_eq!(batch.views(2..3), [2, 2, 1]);
    }
}
