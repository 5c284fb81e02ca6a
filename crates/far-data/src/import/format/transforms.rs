//! `transforms`: the `transforms.json` of nerfstudio, DL3DV and instant-ngp.
//!
//! Camera to world, OpenGL axes, z up. Focal lengths are given in pixels (`fl_x`, `w`, …) for all
//! frames or each, or as an angle (`camera_angle_x`). Frames are ordered by their file names.

use serde::Deserialize;

use super::super::{
    CameraAxes, Convention, ImportOptions, Lens, PictureSource, RecordedFrame, Recording,
    RigidPose, Source,
};
use super::{Format, Parsed, inside, name_of, scene_above, some_found};
use crate::{Result, Split};

/// Frames per second when nothing says so: these sets keep a few frames of a video.
const FPS: f64 = 10.0;

/// Names of the file, with the part that it stands for.
const NAMES: [(&str, Option<Split>); 4] = [
    ("transforms.json", None),
    ("transforms_train.json", Some(Split::Train)),
    ("transforms_val.json", Some(Split::Validation)),
    ("transforms_test.json", Some(Split::Test)),
];

#[derive(Deserialize)]
struct File {
    #[serde(flatten)]
    camera: Camera,
    frames: Vec<FileFrame>,
}

#[derive(Deserialize)]
struct FileFrame {
    file_path: String,
    transform_matrix: Vec<Vec<f64>>,
    #[serde(default)]
    time: Option<f64>,
    #[serde(flatten)]
    camera: Camera,
}

/// What a file, or a frame of it, may say of the camera.
#[derive(Clone, Copy, Deserialize)]
struct Camera {
    fl_x: Option<f64>,
    fl_y: Option<f64>,
    cx: Option<f64>,
    cy: Option<f64>,
    w: Option<f64>,
    h: Option<f64>,
    camera_angle_x: Option<f64>,
    k1: Option<f64>,
}

/// nerfstudio, DL3DV, instant-ngp.
pub const FORMAT: Format = Format {
    name: "transforms",
    about: "transforms.json of nerfstudio, DL3DV, instant-ngp",
    convention: Convention { axes: CameraAxes::OPENGL, ..Convention::OURS },
    read,
};

fn read(source: &Source, options: &ImportOptions) -> Result<Vec<Recording>> {
    let has = |folder: &str| NAMES.iter().any(|(name, _)| source.has(inside(folder, name)));
    let mut recordings = Vec::new();
    for folder in source.recordings(3, &has)? {
        for (name, split) in NAMES {
            if source.has(inside(&folder, name)) {
                recordings.push(read_file(source, &folder, name, split, options)?);
            }
        }
    }
    some_found(source, recordings, "transforms.json")
}

fn read_file(
    source: &Source,
    folder: &str,
    name: &str,
    split: Option<Split>,
    options: &ImportOptions,
) -> Result<Recording> {
    let path = inside(folder, name);
    let mut file = parse(&source.read(&path)?).map_err(|reason| source.refuse(&path, reason))?;
    file.frames.sort_by(|a, b| a.file_path.cmp(&b.file_path));
    let fps = options.source_fps.unwrap_or(FPS);
    let timed = file.frames.iter().all(|frame| frame.time.is_some());
    let mut frames = Vec::with_capacity(file.frames.len());
    for (index, frame) in file.frames.iter().enumerate() {
        let pose = RigidPose::from_rows(&frame.transform_matrix.concat())
            .map_err(|reason| source.refuse(&path, format!("{}: {reason}", frame.file_path)))?;
        let picture = PictureSource::File(find_picture(source, folder, &frame.file_path)?);
        let time = frame.time.filter(|_| timed && options.source_fps.is_none());
        frames.push(RecordedFrame::new(time.unwrap_or(index as f64 / fps), pose, picture));
    }
    let recording_name = match split {
        Some(split) => inside(&name_of(source, folder), split.name()),
        None => name_of(source, folder),
    };
    let scene = if split.is_some() {
        name_of(source, folder)
    } else {
        scene_above(source, &inside(folder, name))
    };
    let mut recording = Recording::new(recording_name, scene, frames);
    recording.split = split;
    recording.lens = lens(&file).map_err(|reason| source.refuse(&path, reason))?;
    if file.camera.k1.is_some_and(|k1| k1.abs() > 0.01) {
        recording.notes.push(format!("{path}: the lens distorts (k1), which is not undone"));
    }
    Ok(recording)
}

/// The picture of a frame; Blender's exports leave the ending away.
fn find_picture(source: &Source, folder: &str, name: &str) -> Result<std::path::PathBuf> {
    let name = name.trim_start_matches("./");
    let with_ending = format!("{name}.png");
    match source.has(inside(folder, &with_ending)) {
        true => source.file(inside(folder, &with_ending)),
        false => source.file(inside(folder, name)),
    }
}

/// The camera of the whole file, or of its first frame.
fn lens(file: &File) -> Parsed<Option<Lens>> {
    let first = file.frames.first().map(|frame| frame.camera);
    for camera in [Some(file.camera), first].into_iter().flatten() {
        if let (Some(focal), Some(width), Some(height)) = (camera.fl_x, camera.w, camera.h) {
            let focal = [focal, camera.fl_y.unwrap_or(focal)];
            let center = [camera.cx.unwrap_or(0.5 * width), camera.cy.unwrap_or(0.5 * height)];
            return Lens::from_pixels(focal, center, [width, height]).map(Some);
        }
        if let Some(angle) = camera.camera_angle_x {
            return angle.to_degrees().to_string().parse().map(Some);
        }
    }
    Ok(None)
}

fn parse(bytes: &[u8]) -> Parsed<File> {
    let file: File = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if file.frames.is_empty() {
        return Err("`frames` is empty".into());
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cameras_are_read_from_file_frame_or_angle() {
        let matrix = "[[1,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1]]";
        for (top, inner, degrees) in [
            (r#""fl_x": 320, "w": 640, "h": 480,"#, "", 90.0),
            ("", r#""fl_x": 320, "w": 640, "h": 480,"#, 90.0),
            (r#""camera_angle_x": 1.0471975511965976,"#, "", 60.0),
        ] {
            let text = format!(
                r#"{{{top} "frames": [{{{inner} "file_path": "a.png", "transform_matrix": {matrix}}}]}}"#
            );
            let file = parse(text.as_bytes()).expect("read");
            let lens = lens(&file).expect("a lens").expect("there");
            assert!((lens.angles([640, 480], [640, 480])[0] - degrees).abs() < 1e-3);
        }
        for wrong in ["", "[]", "{}", r#"{"frames": []}"#, r#"{"frames": [{"file_path": 3}]}"#] {
            assert!(parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }
    }
}
