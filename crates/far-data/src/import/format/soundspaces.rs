//! `soundspaces`: walks through Habitat's simulator: `trajectory.jsonl` and one picture per line.
//!
//! A line is the state of the color camera: `position` [x, y, z] and `rotation` [x, y, z, w] in the
//! simulator's axes (x right, y up, −z ahead), with `time` and `image` where the recorder has them.
//! SoundSpaces itself stores no walks; these are what its agents see. Sound is not imported.

use serde::Deserialize;

use super::super::{
    CameraAxes, Convention, ImportOptions, Lens, PictureSource, RecordedFrame, Recording,
    RigidPose, Source, Up,
};
use super::{Format, each_folder, inside, json_lines, name_of, numbered_pictures, scene_above};
use crate::Result;

/// Steps per second when there are no times.
const FPS: f64 = 10.0;

/// The simulator's horizontal field of view in degrees, unless `--fov` says otherwise.
const HORIZONTAL: f64 = 90.0;

#[derive(Deserialize)]
struct State {
    position: [f64; 3],
    rotation: [f64; 4],
    #[serde(default)]
    time: Option<f64>,
    #[serde(default)]
    image: Option<String>,
}

/// SoundSpaces and other walks through Habitat.
pub const FORMAT: Format = Format {
    name: "soundspaces",
    about: "SoundSpaces, Habitat: trajectory.jsonl (position, rotation xyzw of the camera) and rgb/NNNNN.png",
    convention: Convention { axes: CameraAxes::OPENGL, up: Up::Axis(1, false), ..Convention::OURS },
    read,
};

fn read(source: &Source, options: &ImportOptions) -> Result<Vec<Recording>> {
    let is_one = |folder: &str| source.has(inside(folder, "trajectory.jsonl"));
    let read = |folder: &str| read_walk(source, folder, options);
    each_folder(source, 4, is_one, "trajectory.jsonl", read)
}

fn read_walk(source: &Source, folder: &str, options: &ImportOptions) -> Result<Recording> {
    let path = inside(folder, "trajectory.jsonl");
    let states: Vec<State> =
        json_lines(&source.read(&path)?).map_err(|reason| source.refuse(&path, reason))?;
    let fps = options.source_fps.unwrap_or(FPS);
    let named = states.iter().map(|state| state.image.clone()).collect();
    let pictures = numbered_pictures(source, folder, "rgb", named, &path)?;
    let mut frames = Vec::with_capacity(states.len());
    for (index, (state, picture)) in states.iter().zip(pictures).enumerate() {
        let [x, y, z, w] = state.rotation;
        let pose = RigidPose::from_quaternion([w, x, y, z], state.position)
            .map_err(|reason| source.refuse(&path, format!("line {}: {reason}", index + 1)))?;
        let time = state.time.unwrap_or(index as f64 / fps);
        frames.push(RecordedFrame::new(time, pose, PictureSource::File(picture)));
    }
    let mut recording =
        Recording::new(name_of(source, folder), scene_above(source, folder), frames);
    recording.lens = Some(Lens::Horizontal(HORIZONTAL));
    Ok(recording)
}
