//! Visibility tests: whether a pose sees a point.
//!
//! The published rules use two tests. [`AngularSight`] compares azimuth and elevation (WorldMem),
//! [`FrustumSight`] projects into a pinhole image between two depths (Matrix-Game, I3DM, SPMem).
//! Both ignore occlusion. They are written without branches and without fused multiply-adds, so a
//! loop over points becomes SIMD code that gives the same bits on every processor.

use crate::overlap::dot;
use crate::{Camera, Pose};

/// A pose's field of view, prepared to be tested against many points.
pub(crate) trait Sight: Copy {
    /// Whether the point `(x, y, z)`, relative to the origin given at construction, is in view.
    /// A NaN coordinate is never in view.
    fn sees(&self, x: f32, y: f32, z: f32) -> bool;
}

/// WorldMem's test: |azimuth − yaw| and |elevation − pitch| both below half the field of view.
///
/// No near or far plane; roll is ignored. The arc tangents are compared through the tangents of
/// the half angles: with the direction turned into (along, across) the heading,
/// |azimuth| < h is |across| < along · tan h, which holds only ahead of the camera.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AngularSight {
    eye: [f32; 3],
    heading: [f32; 2],
    elevation: [f32; 2],
    tangent: [f32; 2],
}

impl AngularSight {
    /// The view of `pose` through `camera`, for points given relative to `origin`.
    pub(crate) fn new(pose: &Pose, camera: &Camera, origin: [f32; 3]) -> Self {
        let [east, north, up] = pose.forward();
        let level = east.hypot(north);
        Self {
            eye: std::array::from_fn(|axis| pose.position[axis] - origin[axis]),
            // Straight up or down there is no heading; yaw is then 0 by the convention of `Pose`.
            heading: if level > 0.0 { [east / level, north / level] } else { [1.0, 0.0] },
            elevation: [level, up],
            tangent: camera.half_tangents(),
        }
    }
}

impl Sight for AngularSight {
    #[inline(always)]
    fn sees(&self, x: f32, y: f32, z: f32) -> bool {
        let (x, y, z) = (x - self.eye[0], y - self.eye[1], z - self.eye[2]);
        let along = x * self.heading[0] + y * self.heading[1];
        let across = y * self.heading[0] - x * self.heading[1];
        let level = (x * x + y * y).sqrt();
        let ahead = level * self.elevation[0] + z * self.elevation[1];
        let above = z * self.elevation[0] - level * self.elevation[1];
        (across.abs() < along * self.tangent[0]) & (above.abs() < ahead * self.tangent[1])
    }
}

/// A pinhole frustum between two depths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrustumSight {
    eye: [f32; 3],
    right: [f32; 3],
    down: [f32; 3],
    forward: [f32; 3],
    near: f32,
    far: f32,
}

impl FrustumSight {
    /// The frustum of `pose` through `camera` between the depths `near` and `far`, for points given
    /// relative to `origin`.
    pub(crate) fn new(
        pose: &Pose,
        camera: &Camera,
        [near, far]: [f32; 2],
        origin: [f32; 3],
    ) -> Self {
        let [horizontal, vertical] = camera.half_tangents();
        Self {
            eye: std::array::from_fn(|axis| pose.position[axis] - origin[axis]),
            right: pose.right().map(|value| value / horizontal),
            down: pose.down().map(|value| value / vertical),
            forward: pose.forward(),
            near,
            far,
        }
    }

    /// The point relative to the eye, in world axes.
    #[inline(always)]
    pub(crate) fn offset(&self, x: f32, y: f32, z: f32) -> [f32; 3] {
        [x - self.eye[0], y - self.eye[1], z - self.eye[2]]
    }
}

impl Sight for FrustumSight {
    #[inline(always)]
    fn sees(&self, x: f32, y: f32, z: f32) -> bool {
        let offset = self.offset(x, y, z);
        let depth = dot(self.forward, offset);
        (depth >= self.near)
            & (depth <= self.far)
            & (dot(self.right, offset).abs() <= depth)
            & (dot(self.down, offset).abs() <= depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wrap_angle;
    use proptest::prelude::*;

    const CAMERA: (f32, f32) = (105.0, 75.0);

    #[test]
    fn a_point_one_meter_ahead_is_in_view_at_every_heading_and_pitch() {
        let camera = Camera::from_degrees(CAMERA.0, CAMERA.1);
        for heading in 0..24 {
            for pitch in [-30f32, 0.0, 30.0] {
                for height in [0.4f32, 1.6, 3.0] {
                    let yaw = (heading as f32 * 15.0).to_radians();
                    let pose = Pose::from_yaw_pitch([2.0, 3.0, height], yaw, pitch.to_radians());
                    let origin = [0.5, -1.0, 0.2];
                    let angular = AngularSight::new(&pose, &camera, origin);
                    let frustum = FrustumSight::new(&pose, &camera, [0.1, 30.0], origin);
                    let at = |distance: f32| {
                        let point = pose.to_world([0.0, 0.0, distance]);
                        std::array::from_fn::<f32, 3, _>(|axis| point[axis] - origin[axis])
                    };
                    let ([x, y, z], [u, v, w]) = (at(1.0), at(-1.0));
                    assert!(angular.sees(x, y, z) && frustum.sees(x, y, z));
                    assert!(!angular.sees(u, v, w) && !frustum.sees(u, v, w));
                }
            }
        }
    }

    #[test]
    fn cameras_at_unequal_heights_agree_about_a_shared_point() {
        // A low camera that looks up and a high one that looks down at the same point: a test with
        // the sign of pitch mirrored would let one of them miss it.
        let camera = Camera::from_degrees(40.0, 30.0);
        let point = [3.0f32, 0.0, 2.0];
        for height in [0.0f32, 1.0, 3.0, 4.0] {
            let pitch = (point[2] - height).atan2(point[0]);
            let pose = Pose::from_yaw_pitch([0.0, 0.0, height], 0.0, pitch);
            let mirrored = Pose::from_yaw_pitch([0.0, 0.0, height], 0.0, -pitch);
            let [x, y, z] = point;
            assert!(AngularSight::new(&pose, &camera, [0.0; 3]).sees(x, y, z));
            assert!(FrustumSight::new(&pose, &camera, [0.1, 9.0], [0.0; 3]).sees(x, y, z));
            assert!(!AngularSight::new(&mirrored, &camera, [0.0; 3]).sees(x, y, z));
            assert!(!FrustumSight::new(&mirrored, &camera, [0.1, 9.0], [0.0; 3]).sees(x, y, z));
        }
    }

    #[test]
    fn a_point_that_is_not_a_number_is_never_in_view() {
        let camera = Camera::from_degrees(CAMERA.0, CAMERA.1);
        let pose = Pose::identity();
        assert!(!AngularSight::new(&pose, &camera, [0.0; 3]).sees(f32::NAN, 0.0, 0.0));
        assert!(!FrustumSight::new(&pose, &camera, [0.0, 9.0], [0.0; 3]).sees(1.0, f32::NAN, 0.0));
    }

    proptest! {
        #[test]
        fn tangents_agree_with_arc_tangents(
            point in prop::array::uniform3(-10f32..10.0),
            eye in prop::array::uniform3(-10f32..10.0),
            yaw in -4f32..4.0,
            pitch in -1.2f32..1.2,
        ) {
            let camera = Camera::from_degrees(CAMERA.0, CAMERA.1);
            let pose = Pose::from_yaw_pitch(eye, yaw, pitch);
            let offset: [f32; 3] = std::array::from_fn(|axis| point[axis] - eye[axis]);
            let azimuth = wrap_angle(offset[1].atan2(offset[0]) - yaw).abs();
            let elevation = (offset[2].atan2(offset[0].hypot(offset[1])) - pitch).abs();
            let (horizontal, vertical) =
                ((0.5 * CAMERA.0).to_radians(), (0.5 * CAMERA.1).to_radians());
            // Points on the edge may fall to either side by rounding.
            prop_assume!((azimuth - horizontal).abs() > 1e-3 && (elevation - vertical).abs() > 1e-3);
            let expected = azimuth < horizontal && elevation < vertical;
            let sight = AngularSight::new(&pose, &camera, [0.0; 3]);
            prop_assert_eq!(sight.sees(point[0], point[1], point[2]), expected);
        }

        #[test]
        fn frustum_agrees_with_the_camera(
            point in prop::array::uniform3(-10f32..10.0),
            yaw in -4f32..4.0,
            pitch in -1.2f32..1.2,
        ) {
            let camera = Camera::from_degrees(CAMERA.0, CAMERA.1);
            let pose = Pose::from_yaw_pitch([1.0, -2.0, 0.5], yaw, pitch);
            let depth = pose.to_camera(point)[2];
            let margin = camera.project(&pose, point).map_or(1.0, |[x, y]| {
                (x.abs() - 1.0).abs().min((y.abs() - 1.0).abs())
            });
            prop_assume!(margin > 1e-3 && (depth - 0.1).abs() > 1e-3 && (depth - 8.0).abs() > 1e-3);
            let expected = camera.sees(&pose, point) && depth > 0.1 && depth < 8.0;
            let sight = FrustumSight::new(&pose, &camera, [0.1, 8.0], [0.0; 3]);
            prop_assert_eq!(sight.sees(point[0], point[1], point[2]), expected);
        }
    }
}
