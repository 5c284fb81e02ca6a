//! Other readings of the same poses, for finding out which one was meant.

use far_memory::Pose;

use crate::import::{CameraAxes, Convention, RigidPose};

/// One way to read the poses of a recording.
pub(crate) struct Candidate {
    /// In words: "OpenGL camera axes".
    pub name: String,
    /// The options of `far data import` that read them so; "" as they are read now.
    pub options: String,
    /// The poses, so read.
    pub poses: Vec<Pose>,
}

/// The poses as `convention` reads them, then other readings, those that change one thing first.
/// Readings that come out mirrored are left out.
pub(crate) fn candidates(raw: &[RigidPose], convention: &Convention) -> Vec<Candidate> {
    let mut found = Vec::new();
    let mut add =
        |names: Vec<String>, options: Vec<String>, raw: &[RigidPose], other: &Convention| {
            if let Ok(poses) = other.convert(raw) {
                found.push(Candidate { name: names.join(", "), options: options.join(" "), poses });
            }
        };
    add(vec!["as read".into()], Vec::new(), raw, convention);
    let flipped = Convention { world_to_camera: !convention.world_to_camera, ..*convention };
    let direction = if flipped.world_to_camera { "world-to-camera" } else { "camera-to-world" };
    let (direction, direction_option) = (direction.to_string(), format!("--{direction}"));
    add(vec![direction.clone()], vec![direction_option.clone()], raw, &flipped);
    let mirrored = raw.first().is_some_and(|pose| pose.determinant() < 0.0);
    let others: Vec<(CameraAxes, bool)> = CameraAxes::NAMED
        .iter()
        .map(|&(_, axes)| (axes, axes.is_left_handed() != mirrored))
        .filter(|&(axes, left_handed)| {
            (axes, left_handed) != (convention.axes, convention.left_handed)
        })
        .collect();
    for base in [convention, &flipped] {
        let turned = base.world_to_camera != convention.world_to_camera;
        for &(axes, left_handed) in &others {
            let other = Convention { axes, left_handed, ..*base };
            let mut names = vec![format!("{axes} camera axes")];
            let mut options = vec![format!("--axes {axes}")];
            if left_handed != convention.left_handed {
                let handed = if left_handed { "left" } else { "right" };
                names.push(format!("{handed}-handed"));
                options.push(format!("--handed {handed}"));
            }
            if turned {
                names.push(direction.clone());
                options.push(direction_option.clone());
            }
            add(names, options, raw, &other);
        }
    }
    for (order, places) in [("xyzw", [3, 0, 1, 2]), ("wxyz", [1, 2, 3, 0])] {
        let reordered: Option<Vec<RigidPose>> = raw
            .iter()
            .map(|pose| {
                let stored = pose.quaternion();
                let read = places.map(|place: usize| stored[place]);
                RigidPose::from_quaternion(read, pose.translation).ok()
            })
            .collect();
        if let Some(reordered) = reordered.filter(|_| !mirrored) {
            let names = vec![format!("quaternions in the order {order}")];
            add(names, vec![format!("--quaternion {order}")], &reordered, convention);
        }
    }
    found
}
