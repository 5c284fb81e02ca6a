//! `tartanair`: TartanAir, `image_left/NNNNNN_left.png` and `pose_left.txt`, one pose per line.
//!
//! Poses are position and quaternion (real part last), camera to world, in aircraft axes: x
//! forward, y right, z down, for camera and world. The field of view is 90 degrees.

use super::super::source::exactly;
use super::super::{
    CameraAxes, Convention, ImportOptions, Lens, PictureSource, RecordedFrame, Recording,
    RigidPose, Source, Up,
};
use super::{
    Format, Parsed, each_folder, inside, is_picture, name_of, numbered_lines, parse_lines,
};
use crate::Result;

/// Frames per second when nothing says so: the set has no times.
const FPS: f64 = 10.0;

/// TartanAir.
pub const FORMAT: Format = Format {
    name: "tartanair",
    about: "TartanAir: image_left and pose_left.txt per trajectory (V2: image_lcam_front)",
    convention: Convention { axes: CameraAxes::NED, up: Up::Axis(2, true), ..Convention::OURS },
    read,
};

fn read(source: &Source, options: &ImportOptions) -> Result<Vec<Recording>> {
    let layout = |folder: &str| {
        ["left", "lcam_front"].into_iter().find(|camera| {
            source.has(inside(folder, &format!("pose_{camera}.txt")))
                && source.has(inside(folder, &format!("image_{camera}")))
        })
    };
    let is_one = |folder: &str| layout(folder).is_some();
    let read =
        |folder: &str| read_trajectory(source, folder, layout(folder).unwrap_or("left"), options);
    each_folder(source, 4, is_one, "folder with image_left and pose_left.txt", read)
}

fn read_trajectory(
    source: &Source,
    folder: &str,
    camera: &str,
    options: &ImportOptions,
) -> Result<Recording> {
    let fps = options.source_fps.unwrap_or(FPS);
    let path = inside(folder, &format!("pose_{camera}.txt"));
    let poses = parse(&source.text(&path)?).map_err(|reason| source.refuse(&path, reason))?;
    let images = inside(folder, &format!("image_{camera}"));
    let names: Vec<String> =
        source.list(&images)?.into_iter().filter(|name| is_picture(name)).collect();
    if names.len() != poses.len() {
        let reason = format!("{} poses for {} pictures", poses.len(), names.len());
        return Err(source.refuse(&path, reason));
    }
    let mut frames = Vec::with_capacity(poses.len());
    for (index, (pose, name)) in poses.into_iter().zip(&names).enumerate() {
        let picture = PictureSource::File(source.file(inside(&images, name))?);
        frames.push(RecordedFrame::new(index as f64 / fps, pose, picture));
    }
    // ENVIRONMENT/Easy/P001: the environment is the scene.
    let scene = folder.split('/').next().filter(|_| folder.contains('/'));
    let scene = scene.map_or_else(|| source.name(), String::from);
    let mut recording = Recording::new(name_of(source, folder), scene, frames);
    recording.fps = Some(fps);
    recording.lens = Some(Lens::Horizontal(90.0));
    Ok(recording)
}

fn parse(text: &str) -> Parsed<Vec<RigidPose>> {
    parse_lines(numbered_lines(text), |line| {
        let [x, y, z, qx, qy, qz, qw] = exactly(line)?;
        RigidPose::from_quaternion([qw, qx, qy, qz], [x, y, z])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[0-9. \ne-]{0,200}") {
            let _ = parse(&text);
        }
    }

    #[test]
    fn lines_are_counted() {
        assert_eq!(parse("1 2 3 0 0 0 1\n\n").expect("read").len(), 1);
        assert!(parse("1 2 3 0 0 0 1\n1 2").unwrap_err().contains("line 2"));
    }
}
