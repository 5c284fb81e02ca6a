//! What a memory repeats of one that is already recalled.
//!
//! The overlap of memories i and j for a goal is `o_ij = exp(−Σ_f w_f·φ_f(i, j))`, between 0 and 1, with
//! weights `w = exp(learned) > 0`. Its features say how far apart the two are; lengths are divided by
//! `length`, times by `time`.
//!
//! | index | feature |
//! |---|---|
//! | 0 | square of the way between them along the goal's line of sight |
//! | 1 | square of the way between them across it |
//! | 2 | square of the difference of their viewing directions (2 − 2·cos of the angle) |
//! | 3 | square of the way, across the goal's line of sight, between what they look at `length` ahead |
//! | 4 | `ln(1 + time between them)` |
//! | 5 | 1 − cosine of their keys; 0 where one has no key |
//!
//! Features 0 to 3 are 0 where one of the two has no pose.

use crate::{FeatureScale, Pose, RecallQuery};

/// Numbers that distinguish two memories.
pub const OVERLAP_FEATURES: usize = 6;

/// The logarithm of an overlap's weight stays within ± this, so that no file makes it infinite.
const LARGEST_EXPONENT: f32 = 30.0;

/// One memory of a pair.
#[derive(Clone, Copy, Debug)]
pub struct Sighting {
    /// When it was seen, in seconds.
    pub time: f64,
    /// Where the camera was and where it looked, a unit vector; `None` without a pose.
    pub view: Option<[[f32; 3]; 2]>,
}

impl Sighting {
    /// From a time and a pose.
    pub fn new(time: f64, pose: Option<&Pose>) -> Self {
        Self { time, view: pose.map(|pose| [pose.position, pose.forward()]) }
    }
}

/// The direction in which the goal of a query is seen; zero if its pose is unknown.
pub fn line_of_sight(query: &RecallQuery) -> [f32; 3] {
    query.goal().map_or([0.0; 3], Pose::forward)
}

/// The features of a pair of memories for a goal that is seen along `sight`, a unit vector, or zero if its
/// pose is unknown; `cosine` is that of their keys.
pub fn overlap_features(
    sight: [f32; 3],
    first: &Sighting,
    second: &Sighting,
    cosine: Option<f32>,
    scale: FeatureScale,
) -> [f32; OVERLAP_FEATURES] {
    // Without two poses nothing tells the two views apart.
    let views = first.view.zip(second.view);
    let between = |part: usize, unit: f32| {
        views.map_or([0.0; 3], |(first, second)| {
            std::array::from_fn(|axis| (first[part][axis] - second[part][axis]) * unit)
        })
    };
    let (way, turn): ([f32; 3], [f32; 3]) = (between(0, 1.0 / scale.length), between(1, 1.0));
    let gaze: [f32; 3] = std::array::from_fn(|axis| way[axis] + turn[axis]);
    let along = dot(way, sight).powi(2);
    let gap = (first.time - second.time).abs() as f32 * (1.0 / scale.time);
    [
        along,
        (dot(way, way) - along).max(0.0),
        dot(turn, turn),
        (dot(gaze, gaze) - dot(gaze, sight).powi(2)).max(0.0),
        gap.ln_1p(),
        cosine.filter(|cosine| cosine.is_finite()).map_or(0.0, |cosine| (1.0 - cosine).max(0.0)),
    ]
}

#[inline(always)]
pub(crate) fn dot(left: [f32; 3], right: [f32; 3]) -> f32 {
    left[0] * right[0] + left[1] * right[1] + left[2] * right[2]
}

/// e to a learned logarithm.
pub(crate) fn positive(logarithm: f32) -> f32 {
    logarithm.clamp(-LARGEST_EXPONENT, LARGEST_EXPONENT).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCALE: FeatureScale = FeatureScale { length: 2.0, time: 1.0 };
    const EAST: [f32; 3] = [1.0, 0.0, 0.0];

    fn sighting(x: f32, y: f32, yaw: f32) -> Sighting {
        Sighting::new(5.0, Some(&Pose::from_yaw_pitch([x, y, 0.0], yaw, 0.0)))
    }

    fn assert_near(found: [f32; OVERLAP_FEATURES], expected: [f32; OVERLAP_FEATURES]) {
        for (found, expected) in found.into_iter().zip(expected) {
            assert!((found - expected).abs() < 1e-5, "{found:?} {expected:?}");
        }
    }

    #[test]
    fn a_memory_repeats_itself() {
        let one = sighting(1.0, 2.0, 0.3);
        assert_near(overlap_features(EAST, &one, &one, Some(1.0), SCALE), [0.0; 6]);
    }

    #[test]
    fn ways_are_told_apart_by_the_goals_line_of_sight() {
        let (here, ahead, aside) =
            (sighting(0.0, 0.0, 0.0), sighting(4.0, 0.0, 0.0), sighting(0.0, 4.0, 0.0));
        assert_near(
            overlap_features(EAST, &here, &ahead, None, SCALE),
            [4.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        );
        assert_near(
            overlap_features(EAST, &here, &aside, None, SCALE),
            [0.0, 4.0, 0.0, 4.0, 0.0, 0.0],
        );
    }

    #[test]
    fn cameras_that_look_at_one_point_are_near_by_their_gaze() {
        // From (0, 2) looking south-east and from (0, −2) looking north-east, both at (2, 0).
        let quarter = std::f32::consts::FRAC_PI_4;
        let scale = FeatureScale { length: 8f32.sqrt(), time: 1.0 };
        let (north, south) = (sighting(0.0, 2.0, -quarter), sighting(0.0, -2.0, quarter));
        let mut later = south;
        later.time += std::f64::consts::E - 1.0;
        assert_near(
            overlap_features(EAST, &north, &later, Some(0.25), scale),
            [0.0, 2.0, 2.0, 0.0, 1.0, 0.75],
        );
        let broken = overlap_features(EAST, &north, &south, Some(f32::NAN), scale);
        assert_eq!(broken[5], 0.0);
        let unplaced = Sighting::new(5.0, None);
        assert_near(overlap_features(EAST, &north, &unplaced, None, scale), [0.0; 6]);
    }
}
