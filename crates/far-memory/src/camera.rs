//! A pinhole camera with a horizontal and a vertical field of view.

use crate::Pose;

/// A pinhole camera, given by its full opening angles in radians, each below π.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Camera {
    /// Full horizontal field of view in radians.
    pub horizontal_field_of_view: f32,
    /// Full vertical field of view in radians.
    pub vertical_field_of_view: f32,
}

impl Camera {
    /// A camera from its two full opening angles in degrees.
    pub fn from_degrees(horizontal: f32, vertical: f32) -> Self {
        Self {
            horizontal_field_of_view: horizontal.to_radians(),
            vertical_field_of_view: vertical.to_radians(),
        }
    }

    /// Half of what is in view at distance 1, to the right and downward.
    pub fn half_tangents(&self) -> [f32; 2] {
        [self.horizontal_field_of_view, self.vertical_field_of_view]
            .map(|angle| (0.5 * angle).tan())
    }

    /// Image coordinates of a world point: x rightward and y downward, both in [−1, 1] when the
    /// point is in view; `None` when it lies behind the camera.
    ///
    /// ```
    /// use far_memory::{Camera, Pose};
    /// let camera = Camera::from_degrees(90.0, 60.0);
    /// let [x, y] = camera.project(&Pose::identity(), [2.0, -1.0, 0.0]).unwrap();
    /// assert!((x - 0.5).abs() < 1e-5 && y.abs() < 1e-5);
    /// ```
    pub fn project(&self, pose: &Pose, point: [f32; 3]) -> Option<[f32; 2]> {
        let [right, down, forward] = pose.to_camera(point);
        let [across, along] = self.half_tangents();
        (forward > 1e-6).then(|| [right / (forward * across), down / (forward * along)])
    }

    /// The unit direction in the world of the ray through image coordinates in [−1, 1].
    pub fn ray(&self, pose: &Pose, [x, y]: [f32; 2]) -> [f32; 3] {
        let [across, along] = self.half_tangents();
        let (right, down) = (x * across, y * along);
        let length = (right * right + down * down + 1.0).sqrt();
        let end = pose.to_world([right / length, down / length, 1.0 / length]);
        std::array::from_fn(|axis| end[axis] - pose.position[axis])
    }

    /// Whether a world point falls inside the image (occlusion is not considered).
    pub fn sees(&self, pose: &Pose, point: [f32; 3]) -> bool {
        self.project(pose, point).is_some_and(|[x, y]| x.abs() <= 1.0 && y.abs() <= 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_one_meter_ahead_is_seen_at_every_heading_and_pitch() {
        let camera = Camera::from_degrees(105.0, 75.0);
        for heading in 0..12 {
            for pitch in [-30f32, 0.0, 30.0] {
                for height in [0.4, 1.6, 3.0] {
                    let yaw = (heading as f32 * 30.0).to_radians();
                    let pose = Pose::from_yaw_pitch([2.0, 3.0, height], yaw, pitch.to_radians());
                    assert!(camera.sees(&pose, pose.to_world([0.0, 0.0, 1.0])));
                    assert!(!camera.sees(&pose, pose.to_world([0.0, 0.0, -1.0])));
                }
            }
        }
    }

    #[test]
    fn ray_and_projection_are_inverse() {
        let camera = Camera::from_degrees(80.0, 50.0);
        let pose = Pose::from_yaw_pitch([1.0, 2.0, 3.0], 2.1, -0.3);
        for image in [[0.0, 0.0], [0.9, -0.8], [-1.0, 1.0]] {
            let ray = camera.ray(&pose, image);
            let point = std::array::from_fn(|axis| pose.position[axis] + 7.0 * ray[axis]);
            let [x, y] = camera.project(&pose, point).expect("in front");
            assert!((x - image[0]).abs() < 1e-4 && (y - image[1]).abs() < 1e-4);
        }
    }
}
