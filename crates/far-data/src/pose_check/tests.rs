//! Deliberate mistakes are named, right poses are left alone.

use super::*;
use crate::import::{CameraAxes, Up};
use crate::pose_warp::tests::sky;

const SIZE: [u32; 2] = [48, 36];

fn camera() -> Camera {
    Camera::from_degrees(80.0, 64.0)
}

/// A walk around a bend with a look up and down.
fn walk() -> Vec<Pose> {
    let mut position = [0.0f32, 0.0, 1.6];
    (0..80)
        .map(|step| {
            let step = step as f32;
            let (yaw, pitch) = (0.07 * step, 0.35 * (0.23 * step).sin());
            position[0] += 0.1 * yaw.cos();
            position[1] += 0.1 * yaw.sin();
            Pose::from_yaw_pitch(position, yaw, pitch)
        })
        .collect()
}

fn rigid(poses: &[Pose]) -> Vec<RigidPose> {
    let one = |pose: &Pose| {
        RigidPose::from_quaternion(pose.rotation.map(f64::from), pose.position.map(f64::from))
    };
    poses.iter().map(|pose| one(pose).expect("a pose")).collect()
}

fn check(raw: &[RigidPose], convention: Convention) -> PoseReport {
    let truth = walk();
    let times: Vec<f64> = (0..raw.len()).map(|frame| frame as f64 / 10.0).collect();
    let check = PoseCheck { poses: raw, convention, times: &times, camera: camera() };
    let mut picture = |frame: usize| Ok(sky(&truth[frame], camera(), SIZE));
    check.run(Some(&mut picture)).expect("checked")
}

#[test]
fn right_poses_are_left_alone() {
    let report = check(&rigid(&walk()), Convention::OURS);
    assert_eq!((report.better.as_deref(), report.contradicted), (None, false), "{report:?}");
    assert!(report.forward_share > 0.9 && report.upright > 0.9, "{report:?}");
    assert!((report.speed - 1.0).abs() < 0.05 && report.jumps.is_empty(), "{report:?}");
    let warp = report.warp.as_ref().expect("it turns");
    assert!(warp.warped_db > warp.unwarped_db + 3.0, "{warp:?}");
    assert!(report.warnings().is_empty());
}

#[test]
fn each_mistake_is_named() {
    let truth = rigid(&walk());
    let ours = Convention::OURS;
    let mut quaternions = truth.clone();
    for pose in &mut quaternions {
        // Written as xyzw and read as wxyz.
        let [w, x, y, z] = pose.quaternion();
        *pose = RigidPose::from_quaternion([x, y, z, w], pose.translation).expect("unit");
    }
    let inverse: Vec<RigidPose> = truth.iter().map(RigidPose::inverse).collect();
    let millimeters: Vec<RigidPose> = truth
        .iter()
        .map(|pose| RigidPose { translation: pose.translation.map(|x| 1000.0 * x), ..*pose })
        .collect();
    // Camera axes of OpenGL: x right, y up, z back, so the second and third column change sign.
    let flip = |signs: [f64; 3]| -> Vec<RigidPose> {
        let one = |pose: &RigidPose| RigidPose {
            rotation: pose.rotation.map(|row| std::array::from_fn(|at| row[at] * signs[at])),
            ..*pose
        };
        truth.iter().map(one).collect()
    };
    let opengl = flip([1.0, -1.0, -1.0]);
    // Unity: y and z of the world exchanged, camera's y up.
    let unity: Vec<RigidPose> = flip([1.0, -1.0, 1.0])
        .iter()
        .map(|pose| {
            let [x, y, z] = pose.rotation;
            let [a, b, c] = pose.translation;
            RigidPose { rotation: [x, z, y], translation: [a, c, b] }
        })
        .collect();
    let y_up = Convention { up: Up::Axis(1, false), ..ours };
    let y_up_opengl = Convention { axes: CameraAxes::OPENGL, ..y_up };
    for (raw, convention, options) in [
        (&quaternions, ours, "--quaternion xyzw"),
        (&inverse, ours, "--world-to-camera"),
        (&millimeters, ours, "--unit mm"),
        (&opengl, ours, "--axes opengl"),
        (&unity, y_up, "--axes unity --handed left"),
        (&unity, y_up_opengl, "--axes unity --handed left"),
    ] {
        let report = check(raw, convention);
        assert_eq!(report.options, options, "{report:?}");
        assert!(report.better.is_some() && report.contradicted, "{report:?}");
        assert!(report.warnings()[0].contains(options));
    }
}

#[test]
fn jumps_are_counted_and_mirrors_refused() {
    let mut poses = walk();
    poses[40..].iter_mut().for_each(|pose| pose.position[0] += 30.0);
    let report = check(&rigid(&poses), Convention::OURS);
    assert_eq!(report.jumps, [40]);
    assert!(report.warnings().iter().any(|line| line.contains("frame 40")));
    let mut mirrored = rigid(&walk());
    mirrored.iter_mut().for_each(|pose| pose.rotation[0] = pose.rotation[0].map(|x| -x));
    let check = PoseCheck {
        poses: &mirrored,
        convention: Convention::OURS,
        times: &[0.0; 80],
        camera: camera(),
    };
    let error = check.run(None).unwrap_err().to_string();
    assert!(error.contains("determinant -1"), "{error}");
}
