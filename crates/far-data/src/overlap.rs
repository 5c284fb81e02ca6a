//! How much two cameras' fields of view overlap, occlusion not considered.
//!
//! The rule behind WorldMem's recall: points are spread in a ball around the camera that looks for
//! a memory, and a memory scores by the share of the points in that camera's view that it has in
//! view too. The rule knows nothing of walls.

use far_memory::{Camera, Pose};
use rand::RngExt;

use crate::stream::stream;

/// Points per ball: about 700 of them fall into a 90° × 90° view.
const POINTS: usize = 4096;

/// A fixed set of points and the camera that looks at them.
pub struct OverlapRule {
    camera: Camera,
    /// Offsets from the ball's center, in meters.
    points: Vec<[f32; 3]>,
}

/// The points one camera has in view, ready to be counted in other views.
pub struct View<'a> {
    rule: &'a OverlapRule,
    center: [f32; 3],
    /// Offsets from `center`, one array per axis so that the count runs in vector registers.
    axes: [Vec<f32>; 3],
}

impl OverlapRule {
    /// The rule for a camera and a ball of `radius` meters, the same points every time.
    pub fn new(camera: Camera, radius: f32) -> Self {
        let mut random = stream(0, "overlap", 0, 0);
        let mut points = Vec::with_capacity(POINTS);
        while points.len() < POINTS {
            let point: [f32; 3] = std::array::from_fn(|_| random.random_range(-1.0..1.0f32));
            if point.iter().map(|x| x * x).sum::<f32>() <= 1.0 {
                points.push(point.map(|x| x * radius));
            }
        }
        Self { camera, points }
    }

    /// What a camera at `pose` has in view.
    pub fn view(&self, pose: &Pose) -> View<'_> {
        let mut axes: [Vec<f32>; 3] = Default::default();
        for point in &self.points {
            if self.camera.sees(pose, std::array::from_fn(|axis| pose.position[axis] + point[axis]))
            {
                axes.iter_mut().zip(point).for_each(|(axis, &value)| axis.push(value));
            }
        }
        View { rule: self, center: pose.position, axes }
    }
}

impl View<'_> {
    /// How many points of this view a camera at `pose` has in view too.
    ///
    /// The same test as [`Camera::sees`], written as one branch-free pass.
    pub fn shared(&self, pose: &Pose) -> u32 {
        let [horizontal, vertical] = self.rule.camera.half_tangents();
        let (right, down, forward) = (pose.right(), pose.down(), pose.forward());
        let offset: [f32; 3] = std::array::from_fn(|axis| pose.position[axis] - self.center[axis]);
        let [xs, ys, zs] = &self.axes;
        xs.iter().zip(ys).zip(zs).fold(0, |count, ((x, y), z)| {
            let [x, y, z] = [x - offset[0], y - offset[1], z - offset[2]];
            let along = |axis: [f32; 3]| x * axis[0] + y * axis[1] + z * axis[2];
            let depth = along(forward);
            let inside = (along(right).abs() <= depth * horizontal)
                & (along(down).abs() <= depth * vertical)
                & (depth > 1e-6);
            count + u32::from(inside)
        })
    }

    /// The share of this view that a camera at `pose` has in view too.
    pub fn share(&self, pose: &Pose) -> f64 {
        f64::from(self.shared(pose)) / (self.axes[0].len() as f64).max(1.0)
    }

    /// The pose that shares the most points with this view; among equals the last one.
    pub fn best(&self, poses: &[Pose]) -> Option<usize> {
        (0..poses.len()).max_by_key(|&index| self.shared(&poses[index]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reference(rule: &OverlapRule, from: &Pose, to: &Pose) -> u32 {
        let world =
            |point: &[f32; 3]| std::array::from_fn(|axis| from.position[axis] + point[axis]);
        let seen = |pose: &Pose, point| rule.camera.sees(pose, world(point));
        rule.points.iter().filter(|point| seen(from, point) && seen(to, point)).count() as u32
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn the_fast_count_is_the_plain_count(
            x in -20f32..20.0, y in -20f32..20.0, yaw in -3f32..3.0, other in -3f32..3.0, pitch in -0.5f32..0.5,
        ) {
            let rule = OverlapRule::new(Camera::from_degrees(105.0, 75.0), 30.0);
            let from = Pose::from_yaw_pitch([3.0, -2.0, 1.6], yaw, 0.0);
            let to = Pose::from_yaw_pitch([x, y, 1.6], other, pitch);
            let (fast, plain) = (rule.view(&from).shared(&to), reference(&rule, &from, &to));
            // A point on the very edge may round to either side.
            prop_assert!(fast.abs_diff(plain) <= 1, "{} {}", fast, plain);
        }
    }

    #[test]
    fn the_same_pose_overlaps_most_and_the_last_of_equals_wins() {
        let rule = OverlapRule::new(Camera::from_degrees(90.0, 60.0), 10.0);
        let here = Pose::from_yaw_pitch([1.0, 1.0, 1.6], 0.3, 0.0);
        let back = Pose::from_yaw_pitch([1.0, 1.0, 1.6], 0.3 + std::f32::consts::PI, 0.0);
        let view = rule.view(&here);
        assert_eq!(view.shared(&back), 0);
        assert_eq!(view.best(&[back, here, back, here]), Some(3));
        assert_eq!(view.best(&[]), None);
    }
}
