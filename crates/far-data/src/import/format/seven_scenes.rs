//! `seven-scenes`: Microsoft's 7-Scenes, `frame-NNNNNN.color.png` with `frame-NNNNNN.pose.txt`.
//!
//! Folders `seq-NN` of a scene; `TrainSplit.txt` and `TestSplit.txt` beside them say which sequence
//! trains (`sequence1`). Depth pictures are left alone. The world is the first camera's, y down.

use super::super::source::numbers;
use super::super::{
    Convention, ImportOptions, Lens, PictureSource, RecordedFrame, Recording, RigidPose, Source, Up,
};
use super::{Format, each_folder, inside, name_of, scene_above};
use crate::{Result, Split};

/// Focal length and picture size of the Kinect, as the dataset's page gives them.
const FOCAL: f64 = 585.0;
const SIZE: [f64; 2] = [640.0, 480.0];

/// Frames per second of the Kinect.
const FPS: f64 = 30.0;

/// Microsoft's 7-Scenes.
pub const FORMAT: Format = Format {
    name: "seven-scenes",
    about: "7-Scenes: frame-NNNNNN.color.png and .pose.txt, in one folder or in seq-NN of scenes",
    convention: Convention { up: Up::Axis(1, true), ..Convention::OURS },
    read,
};

fn read(source: &Source, options: &ImportOptions) -> Result<Vec<Recording>> {
    let has_poses = |names: Vec<String>| names.iter().any(|name| frame_number(name).is_some());
    let is_one = |folder: &str| source.list(folder).is_ok_and(has_poses);
    let read = |folder: &str| read_sequence(source, folder, options);
    each_folder(source, 3, is_one, "frame-NNNNNN.pose.txt", read)
}

fn read_sequence(source: &Source, folder: &str, options: &ImportOptions) -> Result<Recording> {
    let names = source.list(folder)?;
    let fps = options.source_fps.unwrap_or(FPS);
    let mut frames = Vec::new();
    for name in &names {
        let Some(number) = frame_number(name) else { continue };
        let path = inside(folder, name);
        let pose = numbers(&source.text(&path)?)
            .and_then(|numbers| RigidPose::from_rows(&numbers))
            .map_err(|reason| source.refuse(&path, reason))?;
        let stem = name.trim_end_matches(".pose.txt");
        let picture = ["png", "jpg"]
            .iter()
            .map(|ending| format!("{stem}.color.{ending}"))
            .find(|picture| names.contains(picture))
            .ok_or_else(|| source.refuse(&path, "its color picture is missing"))?;
        let picture = PictureSource::File(source.file(inside(folder, &picture))?);
        frames.push(RecordedFrame::new(f64::from(number) / fps, pose, picture));
    }
    let mut recording =
        Recording::new(name_of(source, folder), scene_above(source, folder), frames);
    recording.lens = Some(
        Lens::from_pixels([FOCAL; 2], SIZE.map(|side| 0.5 * side), SIZE)
            .map_err(|reason| source.refuse(folder, reason))?,
    );
    recording.split = split_of(source, folder)?;
    Ok(recording)
}

/// The number of a frame, from the name of its pose.
fn frame_number(name: &str) -> Option<u32> {
    name.strip_prefix("frame-")?.strip_suffix(".pose.txt")?.parse().ok()
}

/// The part that the scene's own lists give a sequence to.
fn split_of(source: &Source, folder: &str) -> Result<Option<Split>> {
    let (scene, sequence) = folder.rsplit_once('/').unwrap_or(("", folder));
    let Some(number) = sequence.strip_prefix("seq-").and_then(|number| number.parse::<u32>().ok())
    else {
        return Ok(None);
    };
    for (list, split) in [("TrainSplit.txt", Split::Train), ("TestSplit.txt", Split::Test)] {
        let path = inside(scene, list);
        if source.has(&path) {
            let text = source.text(&path)?;
            let lines = text.lines().filter_map(|line| line.trim().strip_prefix("sequence"));
            if lines.filter_map(|number| number.parse().ok()).any(|listed: u32| listed == number) {
                return Ok(Some(split));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_frames_are_told_from_others() {
        assert_eq!(frame_number("frame-000012.pose.txt"), Some(12));
        for other in ["frame-000012.color.png", "frame-x.pose.txt", "000012.pose.txt", ""] {
            assert_eq!(frame_number(other), None);
        }
    }
}
