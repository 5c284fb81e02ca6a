//! `loopnav`: LoopNav, a video and a JSON array of records of one stem, one record per frame.
//!
//! Folders are `ABA|ABCA / scene / tier` with scene and tier in either order. Minecraft's axes: x east,
//! y up, z south; yaw in radians, counter-clockwise from north; positions are those of the feet. The
//! return begins after the last goal that is not home.

use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;

use super::super::rigid_pose::{about_x, about_y, product};
use super::super::{
    CameraAxes, Convention, ImportOptions, Lens, PictureSource, RecordedFrame, Recording,
    RigidPose, Source, Up,
};
use super::{Format, Parsed, some_found};
use crate::Result;

/// Blocks from feet to eyes.
const EYE: f64 = 1.6;

/// Frames per second of the recorder.
const FPS: f64 = 20.0;

/// The recorder's vertical field of view in degrees.
const VERTICAL: f64 = 75.0;

/// A goal within this many blocks of the start, in x and in z, is home.
const HOME: f64 = 2.0;

#[derive(Deserialize)]
struct Record {
    x: f64,
    y: f64,
    z: f64,
    yaw: f64,
    pitch: f64,
    #[serde(default)]
    goal: Option<Goal>,
}

#[derive(Deserialize)]
struct Goal {
    x: f64,
    z: f64,
}

/// LoopNav.
pub const FORMAT: Format = Format {
    name: "loopnav",
    about: "LoopNav: STEM.avi or .mp4 with STEM.json, in ABA|ABCA / scene / tier",
    convention: Convention { axes: CameraAxes::OPENGL, up: Up::Axis(1, false), ..Convention::OURS },
    read,
};

fn read(source: &Source, _: &ImportOptions) -> Result<Vec<Recording>> {
    let mut recordings = Vec::new();
    for path in source.files(5, ".json")? {
        let stem = path.trim_end_matches(".json");
        let videos = ["avi", "mp4"].map(|ending| format!("{stem}.{ending}"));
        if let Some(video) = videos.iter().find(|video| source.has(video)) {
            recordings.push(read_episode(source, &path, video)?);
        }
    }
    some_found(source, recordings, "STEM.json beside STEM.avi or STEM.mp4")
}

fn read_episode(source: &Source, path: &str, video: &str) -> Result<Recording> {
    let records = parse(&source.read(path)?).map_err(|reason| source.refuse(path, reason))?;
    let video: Arc<Path> = source.file(video)?.into();
    let mut frames = Vec::with_capacity(records.len());
    for (index, record) in records.iter().enumerate() {
        let pose = pose(record)
            .map_err(|reason| source.refuse(path, format!("record {index}: {reason}")))?;
        let picture = PictureSource::Video { path: video.clone(), frame: index as u64 };
        frames.push(RecordedFrame::new(index as f64 / FPS, pose, picture));
    }
    let folders: Vec<&str> = path.split('/').rev().skip(1).collect();
    let is_route =
        |part: &&&str| part.starts_with('A') && part.chars().all(|letter| "ABC".contains(letter));
    let is_tier = |part: &&&str| part.parse::<u32>().is_ok();
    let scene = folders.iter().find(|part| !is_route(part) && !is_tier(part));
    let scene = scene.map_or_else(|| source.name(), |scene| (*scene).to_string());
    let mut recording = Recording::new(path.trim_end_matches(".json"), scene, frames);
    recording.fps = Some(FPS);
    recording.lens = Some(Lens::Vertical(VERTICAL));
    recording.route =
        folders.iter().find(is_route).map_or_else(String::new, |part| (*part).to_string());
    recording.tier = folders.iter().find(is_tier).and_then(|part| part.parse().ok());
    recording.boundary = boundary(&records);
    if recording.boundary.is_none() {
        recording
            .notes
            .push(format!("{path}: no goal turns home; the poses say where the return begins"));
    }
    Ok(recording)
}

fn pose(record: &Record) -> Parsed<RigidPose> {
    let numbers = [record.x, record.y, record.z, record.yaw, record.pitch];
    if let Some(wrong) = numbers.iter().find(|number| !number.is_finite()) {
        return Err(format!("a number is {wrong}"));
    }
    Ok(RigidPose {
        rotation: product(&about_y(record.yaw), &about_x(record.pitch)),
        translation: [record.x, record.y + EYE, record.z],
    })
}

/// The first record after the last goal that is not home.
fn boundary(records: &[Record]) -> Option<usize> {
    let start = records.first()?;
    let away = |record: &Record| {
        let goal = record.goal.as_ref();
        goal.is_some_and(|goal| (goal.x - start.x).abs() > HOME || (goal.z - start.z).abs() > HOME)
    };
    let last = records.iter().rposition(away)?;
    (last + 1 < records.len()).then_some(last + 1)
}

fn parse(bytes: &[u8]) -> Parsed<Vec<Record>> {
    let records: Vec<Record> = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if records.is_empty() {
        return Err("it has no records".into());
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(goal: Option<(f64, f64)>) -> Record {
        let goal = goal.map(|(x, z)| Goal { x, z });
        Record { x: 10.0, y: 64.0, z: 20.0, yaw: 0.0, pitch: 0.0, goal }
    }

    #[test]
    fn the_return_begins_after_the_last_goal_that_is_not_home() {
        let goals = [
            None,
            Some((40.0, 20.0)),
            Some((40.0, 20.0)),
            None,
            Some((10.0, 21.0)),
            Some((10.0, 21.0)),
        ];
        let records: Vec<Record> = goals.into_iter().map(record).collect();
        assert_eq!(boundary(&records), Some(3));
        assert_eq!(boundary(&records[..3]), None, "no way back is recorded");
        assert_eq!(boundary(&records[4..]), None, "nobody leaves");
        assert_eq!(boundary(&[]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }
    }
}
