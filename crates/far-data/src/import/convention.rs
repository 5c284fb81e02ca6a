//! Which way the axes of a source point, and the one place where its poses become ours.
//!
//! Ours: world right-handed, Z up, meters; camera x right, y down, z forward; camera to world.

use std::fmt;
use std::str::FromStr;

use far_memory::Pose;

use super::CameraAxes;
use super::rigid_pose::{RigidPose, product, turned};

/// Positions beyond this are damage: single precision has no centimeters there, in meters.
const FARTHEST: f64 = 1e6;

/// Which way is up in the source's world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Up {
    /// An axis, 0 to 2 for x to z, and whether its negative end points up.
    Axis(usize, bool),
    /// The mean of what the cameras have above them: for worlds that are not level.
    Cameras,
}

impl FromStr for Up {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let axis = |letter| "xyz".find(letter);
        let mut letters = text.chars();
        match (text, letters.next(), letters.next()) {
            ("cameras", ..) => Ok(Self::Cameras),
            (_, Some('-'), Some(letter)) if text.len() == 2 && axis(letter).is_some() => {
                Ok(Self::Axis(axis(letter).unwrap_or_default(), true))
            }
            (_, Some(letter), None) if axis(letter).is_some() => {
                Ok(Self::Axis(axis(letter).unwrap_or_default(), false))
            }
            _ => Err(format!("`{text}` is not x, y, z, -x, -y, -z or cameras")),
        }
    }
}

impl fmt::Display for Up {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Axis(axis, down) => {
                write!(formatter, "{}{}", if *down { "-" } else { "" }, ["x", "y", "z"][*axis])
            }
            Self::Cameras => formatter.write_str("cameras"),
        }
    }
}

/// What poses of a source mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Convention {
    /// Directions of the camera's axes.
    pub axes: CameraAxes,
    /// Whether the world's axes are left-handed, as Unity's and Unreal's are.
    pub left_handed: bool,
    /// Which way is up in the world.
    pub up: Up,
    /// Meters in one unit of length.
    pub unit: f64,
    /// Whether poses turn world points into camera points, as COLMAP's do.
    pub world_to_camera: bool,
}

impl Convention {
    /// The convention of this project and of its datasets.
    pub const OURS: Self = Self {
        axes: CameraAxes::OPENCV,
        left_handed: false,
        up: Up::Axis(2, false),
        unit: 1.0,
        world_to_camera: false,
    };

    /// Poses of one recording in our axes.
    ///
    /// # Errors
    /// A sentence, when the rotations come out mirrored (axes and handedness do not fit the poses), or
    /// a position is absurdly far away.
    pub fn convert(&self, poses: &[RigidPose]) -> Result<Vec<Pose>, String> {
        let camera = self.axes.matrix();
        let level = self.world(poses);
        let mut converted = Vec::with_capacity(poses.len());
        for (frame, pose) in poses.iter().enumerate() {
            let to_world = if self.world_to_camera { pose.inverse() } else { *pose };
            let rotation = product(&product(&level, &to_world.rotation), &camera);
            let ours = RigidPose { rotation, translation: turned(&level, to_world.translation) };
            if ours.determinant() < 0.0 {
                return Err(self.mirrored(frame, pose.determinant() < 0.0));
            }
            let position = ours.translation.map(|x| x * self.unit);
            if let Some(far) = position.iter().find(|x| x.abs() > FARTHEST) {
                return Err(format!("pose {frame} lies {far:e} m from the origin"));
            }
            converted.push(Pose {
                position: position.map(|x| x as f32),
                rotation: ours.quaternion().map(|x| x as f32),
            });
        }
        Ok(converted)
    }

    fn mirrored(&self, frame: usize, mirror_in_source: bool) -> String {
        let handed = |left: bool| if left { "left" } else { "right" };
        let (world, camera) = (handed(self.left_handed), handed(self.axes.is_left_handed()));
        let source = if mirror_in_source {
            "the matrix has determinant -1, so exactly one of world and camera is left-handed"
        } else {
            "the rotation has no mirror, so world and camera are both left-handed or both right-handed"
        };
        format!(
            "pose {frame} comes out mirrored: {source}, but the world is {world}-handed and the camera's \
             axes `{}` are {camera}-handed; change --handed or --axes",
            self.axes
        )
    }

    /// The matrix that turns the source's world axes into ours.
    fn world(&self, poses: &[RigidPose]) -> [[f64; 3]; 3] {
        let mut rows = match self.up {
            Up::Axis(axis, down) => level_rows(axis, down),
            Up::Cameras => rows_above(self.above(poses)),
        };
        if self.left_handed {
            rows[1] = rows[1].map(|x| -x);
        }
        rows
    }

    /// The mean direction above the cameras, in the source's world axes.
    fn above(&self, poses: &[RigidPose]) -> [f64; 3] {
        let camera = self.axes.matrix();
        let mut sum = [0.0; 3];
        for pose in poses {
            let to_world = if self.world_to_camera { pose.inverse() } else { *pose };
            let above = turned(&to_world.rotation, turned(&camera, [0.0, -1.0, 0.0]));
            (0..3).for_each(|axis| sum[axis] += above[axis]);
        }
        sum
    }
}

impl fmt::Display for Convention {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let handed = if self.left_handed { "left" } else { "right" };
        let direction = if self.world_to_camera { "world-to-camera" } else { "camera-to-world" };
        let Self { axes, up, unit, .. } = self;
        write!(formatter, "axes {axes}, {handed}-handed, up {up}, unit {unit} m, {direction}")
    }
}

/// Rows of the right-handed matrix that makes an axis (or its negative end) point up. Where y is up
/// and z points south, X stays east.
fn level_rows(axis: usize, down: bool) -> [[f64; 3]; 3] {
    let [x, y, z] = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    let minus = |row: [f64; 3]| row.map(|number: f64| 0.0 - number);
    match (axis, down) {
        (0, false) => [y, z, x],
        (0, true) => [minus(y), z, minus(x)],
        (1, false) => [x, minus(z), y],
        (1, true) => [x, z, minus(y)],
        (_, false) => [x, y, z],
        (_, true) => [x, minus(y), minus(z)],
    }
}

/// Rows of a rotation that brings `above` upright; level worlds are left as they are.
fn rows_above(above: [f64; 3]) -> [[f64; 3]; 3] {
    let dot = |a: [f64; 3], b: [f64; 3]| (0..3).map(|axis| a[axis] * b[axis]).sum::<f64>();
    let length = dot(above, above).sqrt();
    if length < 1e-9 {
        return level_rows(2, false);
    }
    let up = above.map(|x| x / length);
    // The source's axis that is farthest from upright shows where X goes.
    let axis =
        (1..3).fold(0, |best, axis| if up[axis].abs() < up[best].abs() { axis } else { best });
    let mut east = [0.0; 3];
    east[axis] = 1.0;
    let leaning = dot(east, up);
    (0..3).for_each(|at| east[at] -= leaning * up[at]);
    let length = dot(east, east).sqrt();
    let east = east.map(|x| x / length);
    let north = std::array::from_fn(|at| {
        let (next, last) = ((at + 1) % 3, (at + 2) % 3);
        up[next] * east[last] - up[last] * east[next]
    });
    [east, north, up]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::rigid_pose::{about_x, about_y, transposed};
    use proptest::prelude::*;

    fn convention(axes: CameraAxes, left_handed: bool, up: &str) -> Convention {
        Convention { axes, left_handed, up: up.parse().expect("known"), ..Convention::OURS }
    }

    fn one(convention: Convention, pose: RigidPose) -> Pose {
        convention.convert(&[pose]).expect("converts")[0]
    }

    #[test]
    fn words_say_which_way_is_up() {
        for up in ["x", "-y", "z", "cameras"] {
            assert_eq!(up.parse::<Up>().expect("up").to_string(), up);
        }
        assert!(
            "w".parse::<Up>().is_err() && "-".parse::<Up>().is_err() && "xy".parse::<Up>().is_err()
        );
    }

    #[test]
    fn yaw_of_known_worlds_turns_the_right_way() {
        // Minecraft through three.js: y up, z south, yaw counter-clockwise, 0 is north.
        let minecraft = convention(CameraAxes::OPENGL, false, "y");
        // Unity: y up, z north, yaw clockwise, 0 is north.
        let unity = convention(CameraAxes::UNITY, true, "y");
        for degrees in [0.0f64, 30.0, 90.0, 200.0, 350.0] {
            let yaw = degrees.to_radians();
            let [mine, theirs] = [about_y(yaw), about_y(-yaw)];
            let translation = [1.0, 1.6, -2.0];
            let pose = one(minecraft, RigidPose { rotation: mine, translation });
            let due = far_memory::wrap_angle(yaw as f32 + std::f32::consts::FRAC_PI_2);
            assert!(far_memory::wrap_angle(pose.yaw() - due).abs() < 1e-5, "{degrees}");
            assert_eq!(pose.position, [1.0, 2.0, 1.6]);
            let pose = one(unity, RigidPose { rotation: theirs, translation: [1.0, 1.6, 2.0] });
            assert!(far_memory::wrap_angle(pose.yaw() - due).abs() < 1e-5, "{degrees}");
            assert_eq!(pose.position, [1.0, 2.0, 1.6]);
        }
        let down = RigidPose { rotation: about_x(0.3), translation: [0.0; 3] };
        assert!(
            (one(unity, down).pitch() + 0.3).abs() < 1e-6,
            "Unity looks down by positive angles"
        );
        assert!((one(minecraft, down).pitch() - 0.3).abs() < 1e-6);
    }

    #[test]
    fn mirrors_are_named() {
        let identity = RigidPose { rotation: about_x(0.0), translation: [0.0; 3] };
        let error = convention(CameraAxes::OPENCV, true, "y").convert(&[identity]).unwrap_err();
        assert!(error.contains("--handed") && error.contains("left-handed"), "{error}");
        let mut mirror = identity;
        mirror.rotation[0][0] = -1.0;
        let error = Convention::OURS.convert(&[mirror]).unwrap_err();
        assert!(error.contains("determinant -1"), "{error}");
        assert!(convention(CameraAxes::OPENCV, true, "z").convert(&[mirror]).is_ok());
    }

    proptest! {
        /// Ours, written in any convention, is read back.
        #[test]
        fn every_convention_is_undone(
            axes in 0usize..5, axis in 0usize..3, down: bool, world_to_camera: bool, unit in 0usize..3,
            yaw in -3.0f32..3.0, pitch in -1.4f32..1.4, position in prop::array::uniform3(-9.0f32..9.0),
        ) {
            let axes = CameraAxes::NAMED[axes].1;
            let unit = [1.0, 0.01, 0.001][unit];
            let convention = Convention {
                axes, left_handed: axes.is_left_handed(), up: Up::Axis(axis, down), unit, world_to_camera,
            };
            let pose = Pose::from_yaw_pitch(position, yaw, pitch);
            let ours = RigidPose::from_quaternion(pose.rotation.map(f64::from), position.map(f64::from))
                .expect("a pose");
            let back = transposed(&convention.world(&[]));
            let camera = transposed(&axes.matrix());
            let theirs = RigidPose {
                rotation: product(&product(&back, &ours.rotation), &camera),
                translation: turned(&back, ours.translation).map(|x| x / unit),
            };
            let stored = if world_to_camera { theirs.inverse() } else { theirs };
            let read = one(convention, stored);
            let pairs = [
                (read.position, position),
                (read.forward(), pose.forward()),
                (read.down(), pose.down()),
            ];
            for (found, expected) in pairs {
                prop_assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-4));
            }
        }

        #[test]
        fn cameras_stand_upright_after_leveling(
            roll in -3.0f64..3.0, tilt in -3.0f64..3.0, turns in prop::collection::vec(-3.0f32..3.0, 1..9),
        ) {
            let lean = product(&about_x(tilt), &about_y(roll));
            let poses: Vec<RigidPose> = turns.iter().map(|&turn| {
                let level = Pose::from_yaw_pitch([0.0; 3], turn, 0.0).rotation.map(f64::from);
                let level = RigidPose::from_quaternion(level, [0.0; 3]).expect("a pose");
                RigidPose { rotation: product(&lean, &level.rotation), ..level }
            }).collect();
            let upright = Convention { up: Up::Cameras, ..Convention::OURS };
            for pose in upright.convert(&poses).expect("converts") {
                prop_assert!(pose.down()[2] < -0.9999);
            }
        }
    }
}
