//! `scannet`: ScanNet as its own exporter leaves it: `color/N.jpg`, `pose/N.txt`, `intrinsic/`.
//!
//! Camera to world, OpenCV axes, meters, z up. Where tracking was lost the matrix is −inf
//! throughout; such frames are left out and counted. Any other number that is not one is refused.

use super::super::source::numbers;
use super::super::{
    Convention, ImportOptions, Lens, PictureSource, RecordedFrame, Recording, RigidPose, Source,
};
use super::{Format, Parsed, each_folder, inside, name_of};
use crate::{Picture, Result};

/// Frames per second of the Structure sensor.
const FPS: f64 = 30.0;

/// ScanNet.
pub const FORMAT: Format = Format {
    name: "scannet",
    about: "ScanNet: color/N.jpg, pose/N.txt and intrinsic/intrinsic_color.txt per scan",
    convention: Convention::OURS,
    read,
};

fn read(source: &Source, options: &ImportOptions) -> Result<Vec<Recording>> {
    let has = |folder: &str, name: &str| source.has(inside(folder, name));
    let is_one = |folder: &str| has(folder, "color") && has(folder, "pose");
    let read = |folder: &str| read_scan(source, folder, options);
    each_folder(source, 3, is_one, "folder with color and pose", read)
}

fn read_scan(source: &Source, folder: &str, options: &ImportOptions) -> Result<Recording> {
    let fps = options.source_fps.unwrap_or(FPS);
    let poses = inside(folder, "pose");
    let listed = source.list(&poses)?;
    let mut numbered: Vec<(u32, &String)> = listed
        .iter()
        .filter_map(|name| Some((name.strip_suffix(".txt")?.parse().ok()?, name)))
        .collect();
    numbered.sort();
    let mut lost = 0;
    let mut frames = Vec::with_capacity(numbered.len());
    for (number, name) in numbered {
        let path = inside(&poses, name);
        let parsed =
            parse_pose(&source.text(&path)?).map_err(|reason| source.refuse(&path, reason))?;
        let Some(pose) = parsed else {
            lost += 1;
            continue;
        };
        let names =
            ["jpg", "png"].map(|ending| inside(folder, &format!("color/{number}.{ending}")));
        let picture = names.iter().find(|name| source.has(name)).unwrap_or(&names[0]);
        let picture = PictureSource::File(source.file(picture)?);
        frames.push(RecordedFrame::new(f64::from(number) / fps, pose, picture));
    }
    let name = name_of(source, folder);
    // `scene0000_01` is the second scan of `scene0000`.
    let scene = name.rsplit_once('_').map_or(&*name, |(scene, _)| scene).to_string();
    let lens = frames.first().map(|frame| read_lens(source, folder, frame)).transpose()?;
    let mut recording = Recording::new(&*name, scene, frames);
    recording.lens = lens.flatten();
    recording.fps = None;
    if lost > 0 {
        recording.notes.push(format!("{name}: {lost} frames without tracking (-inf) are left out"));
    }
    Ok(recording)
}

/// The pose, or nothing where tracking was lost.
fn parse_pose(text: &str) -> Parsed<Option<RigidPose>> {
    let found = numbers(text)?;
    if found.len() == 16 && found[..12].iter().all(|number| *number == f64::NEG_INFINITY) {
        return Ok(None);
    }
    RigidPose::from_rows(&found).map(Some)
}

/// Intrinsics in pixels of the first picture.
fn read_lens(source: &Source, folder: &str, frame: &RecordedFrame) -> Result<Option<Lens>> {
    let path = inside(folder, "intrinsic/intrinsic_color.txt");
    if !source.has(&path) {
        return Ok(None);
    }
    let PictureSource::File(picture) = &frame.picture else { return Ok(None) };
    let bytes = super::super::source::read_limited(picture)?;
    let found = numbers(&source.text(&path)?).map_err(|reason| source.refuse(&path, reason))?;
    let wrong = |reason| source.refuse(&path, reason);
    if found.len() != 16 {
        return Err(wrong(format!("{} numbers where a 4x4 matrix has 16", found.len())));
    }
    let size = Picture::declared_size(&bytes).map_err(wrong)?.map(f64::from);
    Lens::from_pixels([found[0], found[5]], [found[2], found[6]], size).map(Some).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_tracking_is_told_from_damage() {
        let lost = "-inf -inf -inf -inf\n".repeat(4);
        assert_eq!(parse_pose(&lost), Ok(None));
        let partly = lost.replacen("-inf", "1", 1);
        assert!(parse_pose(&partly).unwrap_err().contains("-inf"));
        assert!(parse_pose("nan ".repeat(16).as_str()).unwrap_err().contains("NaN"));
        assert!(parse_pose("1 0 0 5 0 1 0 6 0 0 1 7 0 0 0 1").expect("read").is_some());
    }
}
