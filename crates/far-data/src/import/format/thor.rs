//! `thor`: AI2-THOR, its metadata as JSON lines: `metadata.jsonl` and one picture per line.
//!
//! A line is `event.metadata` of one step. Unity's axes: x, y up, z, left-handed; `agent.rotation.y` in
//! degrees, clockwise from z; `cameraHorizon` positive downward. Pictures are those of the folder
//! `frames` in order, or named by an entry `image`.

use serde::Deserialize;

use super::super::rigid_pose::{about_x, about_y, product};
use super::super::{
    CameraAxes, Convention, ImportOptions, Lens, PictureSource, RecordedFrame, Recording,
    RigidPose, Source, Up,
};
use super::{Format, Parsed, each_folder, inside, json_lines, name_of, numbered_pictures};
use crate::Result;

/// Steps per second when nothing says so.
const FPS: f64 = 10.0;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Step {
    #[serde(default)]
    scene_name: String,
    camera_position: Position,
    agent: Agent,
    fov: f64,
    #[serde(default)]
    image: Option<String>,
}

#[derive(Deserialize)]
struct Position {
    x: f64,
    y: f64,
    z: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Agent {
    rotation: Position,
    camera_horizon: f64,
}

/// AI2-THOR.
pub const FORMAT: Format = Format {
    name: "thor",
    about: "AI2-THOR: metadata.jsonl (event.metadata per line) and frames/NNNNN.png",
    convention: Convention {
        axes: CameraAxes::UNITY,
        up: Up::Axis(1, false),
        left_handed: true,
        ..Convention::OURS
    },
    read,
};

fn read(source: &Source, options: &ImportOptions) -> Result<Vec<Recording>> {
    let is_one = |folder: &str| source.has(inside(folder, "metadata.jsonl"));
    let read = |folder: &str| read_episode(source, folder, options);
    each_folder(source, 4, is_one, "metadata.jsonl", read)
}

fn read_episode(source: &Source, folder: &str, options: &ImportOptions) -> Result<Recording> {
    let path = inside(folder, "metadata.jsonl");
    let steps: Vec<Step> =
        json_lines(&source.read(&path)?).map_err(|reason| source.refuse(&path, reason))?;
    let fps = options.source_fps.unwrap_or(FPS);
    let named = steps.iter().map(|step| step.image.clone()).collect();
    let pictures = numbered_pictures(source, folder, "frames", named, &path)?;
    let mut frames = Vec::with_capacity(steps.len());
    for (index, (step, picture)) in steps.iter().zip(pictures).enumerate() {
        let pose =
            pose(step).map_err(|reason| source.refuse(&path, format!("step {index}: {reason}")))?;
        frames.push(RecordedFrame::new(index as f64 / fps, pose, PictureSource::File(picture)));
    }
    let first = &steps[0];
    let scene = if first.scene_name.is_empty() {
        name_of(source, folder)
    } else {
        first.scene_name.clone()
    };
    let mut recording = Recording::new(name_of(source, folder), scene, frames);
    recording.fps = Some(fps);
    // Unity's angle is the vertical one.
    recording.lens = Some(Lens::Vertical(first.fov));
    if !(1.0..179.0).contains(&first.fov) {
        return Err(source.refuse(&path, format!("`fov` is {}", first.fov)));
    }
    Ok(recording)
}

fn pose(step: &Step) -> Parsed<RigidPose> {
    let Position { x, y, z } = step.camera_position;
    let (yaw, horizon) = (step.agent.rotation.y, step.agent.camera_horizon);
    if let Some(wrong) = [x, y, z, yaw, horizon].iter().find(|number| !number.is_finite()) {
        return Err(format!("a number is {wrong}"));
    }
    let rotation = product(&about_y(yaw.to_radians()), &about_x(horizon.to_radians()));
    Ok(RigidPose { rotation, translation: [x, y, z] })
}
