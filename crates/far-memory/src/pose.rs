//! Position and orientation of a camera, in one convention for the whole project.
//!
//! World: right-handed, X east, Y north, Z up, meters. Camera: x right, y down, z forward. Yaw is
//! counter-clockwise from X seen from above, pitch is positive upward, both in radians. Every
//! importer converts to this, so no other file handles another convention.

use std::f32::consts::{PI, TAU};

/// Wraps an angle in radians to (−π, π].
///
/// ```
/// use far_memory::wrap_angle;
/// assert!((wrap_angle(3.5 * std::f32::consts::PI) + 0.5 * std::f32::consts::PI).abs() < 1e-5);
/// ```
pub fn wrap_angle(angle: f32) -> f32 {
    let wrapped = angle.rem_euclid(TAU);
    if wrapped > PI { wrapped - TAU } else { wrapped }
}

/// A camera's position and orientation in the world.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pose {
    /// Position of the eye: X east, Y north, Z up, in meters.
    pub position: [f32; 3],
    /// Unit quaternion (w, x, y, z) that rotates camera axes into world axes.
    pub rotation: [f32; 4],
}

/// A pose in the level frame of another: how actions are expressed.
///
/// "Level" means that only the heading of the frame counts, so walking ahead is `(d, 0, 0)` whether
/// the camera points up or down.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Displacement {
    /// Meters along the frame's heading.
    pub forward: f32,
    /// Meters to the left of the frame's heading.
    pub left: f32,
    /// Meters upward.
    pub up: f32,
    /// Change of yaw in radians, counter-clockwise, in (−π, π].
    pub turn: f32,
    /// Change of pitch in radians, positive upward.
    pub tilt: f32,
}

impl Pose {
    /// The pose at the world's origin that faces X (east).
    pub fn identity() -> Self {
        Self::from_yaw_pitch([0.0; 3], 0.0, 0.0)
    }

    /// A level-horizon pose from a position and two angles in radians.
    pub fn from_yaw_pitch(position: [f32; 3], yaw: f32, pitch: f32) -> Self {
        // q = Rz(yaw) · Ry(−pitch) · B, where B turns camera axes into (X forward, Y left, Z up).
        let base = [0.5, -0.5, 0.5, -0.5];
        let (sin_yaw, cos_yaw) = (0.5 * yaw).sin_cos();
        let (sin_pitch, cos_pitch) = (-0.5 * pitch).sin_cos();
        let turned = multiply([cos_yaw, 0.0, 0.0, sin_yaw], [cos_pitch, 0.0, sin_pitch, 0.0]);
        Self { position, rotation: multiply(turned, base) }
    }

    /// The viewing direction, a unit vector in the world.
    pub fn forward(&self) -> [f32; 3] {
        rotate(self.rotation, [0.0, 0.0, 1.0])
    }

    /// The direction of the image's right edge, a unit vector in the world.
    pub fn right(&self) -> [f32; 3] {
        rotate(self.rotation, [1.0, 0.0, 0.0])
    }

    /// The direction of the image's lower edge, a unit vector in the world.
    pub fn down(&self) -> [f32; 3] {
        rotate(self.rotation, [0.0, 1.0, 0.0])
    }

    /// Heading in radians, counter-clockwise from X, in (−π, π].
    pub fn yaw(&self) -> f32 {
        let [x, y, _] = self.forward();
        y.atan2(x)
    }

    /// Elevation of the viewing direction in radians, positive upward.
    pub fn pitch(&self) -> f32 {
        self.forward()[2].clamp(-1.0, 1.0).asin()
    }

    /// A world point in camera axes (x right, y down, z forward).
    pub fn to_camera(&self, point: [f32; 3]) -> [f32; 3] {
        rotate(conjugate(self.rotation), subtract(point, self.position))
    }

    /// A point in camera axes as a world point.
    pub fn to_world(&self, point: [f32; 3]) -> [f32; 3] {
        let turned = rotate(self.rotation, point);
        std::array::from_fn(|axis| turned[axis] + self.position[axis])
    }

    /// This pose re-centered on `frame`: position and rotation in the camera axes of `frame`.
    pub fn relative_to(&self, frame: &Pose) -> Pose {
        Pose {
            position: frame.to_camera(self.position),
            rotation: multiply(conjugate(frame.rotation), self.rotation),
        }
    }

    /// The displacement that leads from `frame` to this pose, in the level frame of `frame`.
    ///
    /// ```
    /// use far_memory::Pose;
    /// let start = Pose::from_yaw_pitch([3.0, 4.0, 1.6], 2.0, 0.3);
    /// let ahead = Pose::from_yaw_pitch([3.0 + 2f32.cos(), 4.0 + 2f32.sin(), 1.6], 2.0, 0.3);
    /// let step = ahead.displacement_from(&start);
    /// assert!((step.forward - 1.0).abs() < 1e-5 && step.left.abs() < 1e-5);
    /// ```
    pub fn displacement_from(&self, frame: &Pose) -> Displacement {
        let [dx, dy, dz] = subtract(self.position, frame.position);
        let (sin, cos) = frame.yaw().sin_cos();
        Displacement {
            forward: dx * cos + dy * sin,
            left: dy * cos - dx * sin,
            up: dz,
            turn: wrap_angle(self.yaw() - frame.yaw()),
            tilt: self.pitch() - frame.pitch(),
        }
    }

    /// Where a displacement leads from here, with a level horizon: the inverse of
    /// [`displacement_from`](Self::displacement_from).
    pub fn advanced(&self, step: &Displacement) -> Pose {
        let (sin, cos) = self.yaw().sin_cos();
        let [x, y, z] = self.position;
        let position = [
            x + step.forward * cos - step.left * sin,
            y + step.forward * sin + step.left * cos,
            z + step.up,
        ];
        Self::from_yaw_pitch(position, self.yaw() + step.turn, self.pitch() + step.tilt)
    }

    /// Straight-line distance between the two positions, in meters.
    pub fn distance(&self, other: &Pose) -> f32 {
        subtract(self.position, other.position).iter().map(|d| d * d).sum::<f32>().sqrt()
    }

    /// Whether all numbers are finite and the quaternion has unit length within 1e-3.
    pub fn is_valid(&self) -> bool {
        let norm = self.rotation.iter().map(|q| q * q).sum::<f32>();
        self.position.iter().all(|x| x.is_finite()) && (norm - 1.0).abs() < 2e-3
    }
}

impl Default for Pose {
    fn default() -> Self {
        Self::identity()
    }
}

fn subtract(a: [f32; 3], b: [f32; 3]) -> [f32; 3] {
    std::array::from_fn(|axis| a[axis] - b[axis])
}

fn conjugate([w, x, y, z]: [f32; 4]) -> [f32; 4] {
    [w, -x, -y, -z]
}

/// Hamilton product: first `b` turns, then `a`.
fn multiply(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
    let ([aw, ax, ay, az], [bw, bx, by, bz]) = (a, b);
    [
        aw * bw - ax * bx - ay * by - az * bz,
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
    ]
}

fn rotate(rotation: [f32; 4], [x, y, z]: [f32; 3]) -> [f32; 3] {
    let turned = multiply(multiply(rotation, [0.0, x, y, z]), conjugate(rotation));
    [turned[1], turned[2], turned[3]]
}

/// The unit quaternion (w, x, y, z) with w ≥ 0 of a rotation matrix that may be off by rounding. Of the
/// four ways to compute it, the one that divides by the largest number.
pub fn quaternion_of(rotation: &[[f64; 3]; 3]) -> [f64; 4] {
    let r = rotation;
    let squares = [
        1.0 + r[0][0] + r[1][1] + r[2][2],
        1.0 + r[0][0] - r[1][1] - r[2][2],
        1.0 - r[0][0] + r[1][1] - r[2][2],
        1.0 - r[0][0] - r[1][1] + r[2][2],
    ];
    let largest = (1..4).fold(0, |best, at| if squares[at] > squares[best] { at } else { best });
    let parts = match largest {
        0 => [squares[0], r[2][1] - r[1][2], r[0][2] - r[2][0], r[1][0] - r[0][1]],
        1 => [r[2][1] - r[1][2], squares[1], r[0][1] + r[1][0], r[0][2] + r[2][0]],
        2 => [r[0][2] - r[2][0], r[0][1] + r[1][0], squares[2], r[1][2] + r[2][1]],
        _ => [r[1][0] - r[0][1], r[0][2] + r[2][0], r[1][2] + r[2][1], squares[3]],
    };
    let length = parts.iter().map(|part| part * part).sum::<f64>().sqrt();
    let sign = if parts[0] < 0.0 { -1.0 } else { 1.0 };
    parts.map(|part| sign * part / length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: [f32; 3], b: [f32; 3]) -> bool {
        subtract(a, b).iter().all(|d| d.abs() < 1e-5)
    }

    #[test]
    fn axes_follow_the_convention() {
        let east = Pose::identity();
        assert!(close(east.forward(), [1.0, 0.0, 0.0]));
        assert!(close(east.right(), [0.0, -1.0, 0.0]));
        assert!(close(east.down(), [0.0, 0.0, -1.0]));
    }

    #[test]
    fn angles_survive_the_quaternion() {
        for heading in -6..=6 {
            for elevation in -5..=5 {
                let (yaw, pitch) = (heading as f32 * 0.5, elevation as f32 * 0.25);
                let pose = Pose::from_yaw_pitch([1.0, 2.0, 3.0], yaw, pitch);
                assert!((wrap_angle(pose.yaw() - yaw)).abs() < 1e-4);
                assert!((pose.pitch() - pitch).abs() < 1e-3);
                assert!(pose.is_valid());
            }
        }
    }

    #[test]
    fn one_meter_ahead_is_forward_at_every_heading() {
        for heading in 0..16 {
            let yaw = heading as f32 * TAU / 16.0;
            for pitch in [-0.5f32, 0.0, 0.5] {
                let start = Pose::from_yaw_pitch([5.0, -2.0, 1.6], yaw, pitch);
                let position = [5.0 + yaw.cos(), -2.0 + yaw.sin(), 1.6];
                let step =
                    Pose::from_yaw_pitch(position, yaw + 0.2, pitch).displacement_from(&start);
                assert!((step.forward - 1.0).abs() < 1e-5 && step.left.abs() < 1e-5);
                assert!((step.turn - 0.2).abs() < 1e-4);
            }
        }
    }

    #[test]
    fn a_displacement_leads_to_the_pose_that_it_was_measured_from() {
        for heading in 0..16 {
            let start = Pose::from_yaw_pitch([5.0, -2.0, 1.6], heading as f32 * 0.4, 0.3);
            let end = Pose::from_yaw_pitch([3.0, 1.0, 1.9], heading as f32 * 0.7 - 2.0, -0.2);
            let found = start.advanced(&end.displacement_from(&start));
            assert!(close(found.position, end.position) && close(found.forward(), end.forward()));
        }
    }

    #[test]
    fn camera_and_world_axes_are_inverse() {
        let pose = Pose::from_yaw_pitch([1.0, 2.0, 3.0], 0.7, -0.4);
        let point = [4.0, -1.0, 2.5];
        assert!(close(pose.to_world(pose.to_camera(point)), point));
        assert!(close(pose.to_world([0.0, 0.0, 1.0]), {
            let forward = pose.forward();
            std::array::from_fn(|axis| pose.position[axis] + forward[axis])
        }));
        let own = pose.relative_to(&pose);
        assert!(close(own.position, [0.0; 3]) && (own.rotation[0].abs() - 1.0).abs() < 1e-5);
    }
}
