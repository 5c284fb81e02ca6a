//! `lerobot`: LeRobot datasets of versions 2.x and 3.0: Parquet tables and one video per camera.
//!
//! Most have no camera poses, and the dataset then has none. `--pose-column` names a feature of seven
//! numbers (position and quaternion, real part first) that is one; `--still-camera` says that the camera
//! never moves. Other features of numbers become columns of the dataset.

mod episode;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;

use self::episode::{Episode, new_episodes, old_episodes};
use super::{Format, Parsed};
use crate::export_lerobot::RETURNING;
use crate::import::parquet_table::ParquetTable;
use crate::import::{
    Convention, ImportOptions, Lens, PictureSource, RecordedFrame, Recording, RigidPose, Source,
};
use crate::{DataError, ROBOT_ACTION, Result, Split};

/// Numbers in a column at most.
const LARGEST_COLUMN: u64 = 4096;

#[derive(Deserialize)]
struct Info {
    codebase_version: String,
    fps: f64,
    features: BTreeMap<String, Feature>,
    data_path: String,
    #[serde(default)]
    video_path: Option<String>,
    #[serde(default)]
    chunks_size: Option<u64>,
    #[serde(default)]
    splits: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Feature {
    dtype: String,
    #[serde(default)]
    shape: Vec<u64>,
    #[serde(default)]
    info: FeatureInfo,
}

/// What our own export notes of a camera.
#[derive(Default, Deserialize)]
#[serde(default)]
struct FeatureInfo {
    field_of_view: Option<[f64; 2]>,
}

/// LeRobot.
pub const FORMAT: Format = Format {
    name: "lerobot",
    about: "LeRobot v2 and v3: meta/info.json, data, videos (--camera, --pose-column or --still-camera)",
    convention: Convention::OURS,
    read,
};

fn read(source: &Source, options: &ImportOptions) -> Result<Vec<Recording>> {
    let path = "meta/info.json";
    let info: Info = serde_json::from_slice(&source.read(path)?)
        .map_err(|error| source.refuse(path, error.to_string()))?;
    if !(info.fps.is_finite() && info.fps > 0.0) {
        return Err(source.refuse(path, format!("`fps` is {}", info.fps)));
    }
    let camera = choose_camera(&info, options)
        .map_err(|reason| DataError::Setting { setting: "--camera", reason })?;
    choose_pose(&info, options)?;
    let columns = number_columns(&info, options);
    let episodes = match info.codebase_version.trim_start_matches('v').split('.').next() {
        Some("2") => old_episodes(source, &info, &camera)?,
        Some("3") => new_episodes(source, &info, &camera)?,
        _ => {
            let reason = format!("version {} is neither 2 nor 3", info.codebase_version);
            return Err(source.refuse(path, reason));
        }
    };
    let hint = pose_hint(&info, options);
    let mut tables: BTreeMap<&str, BTreeMap<u64, Vec<Sample>>> = BTreeMap::new();
    for episode in &episodes {
        if !tables.contains_key(episode.data.as_str()) {
            tables.insert(
                &episode.data,
                read_samples(source, &episode.data, &info, &camera, &columns, options)?,
            );
        }
    }
    let mut recordings = Vec::with_capacity(episodes.len());
    for episode in &episodes {
        let samples =
            tables.get_mut(episode.data.as_str()).and_then(|table| table.remove(&episode.index));
        let mut recording = assemble(source, &info, episode, samples.unwrap_or_default())?;
        recording.lens = lens(&info, &camera);
        recording.columns = columns.iter().map(|(_, name, width)| (name.clone(), *width)).collect();
        recordings.push(recording);
    }
    if let Some(first) = recordings.first_mut() {
        first.notes.extend(hint);
    }
    Ok(recordings)
}

/// The camera that is asked for, or the first.
fn choose_camera(info: &Info, options: &ImportOptions) -> Parsed<String> {
    let is_camera = |feature: &&Feature| ["video", "image"].contains(&feature.dtype.as_str());
    let cameras: Vec<&String> = info
        .features
        .iter()
        .filter(|(_, feature)| is_camera(feature))
        .map(|(name, _)| name)
        .collect();
    let listed = || cameras.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
    match &options.camera {
        Some(wanted) => {
            let ends = |name: &&&String| **name == wanted || name.ends_with(&format!(".{wanted}"));
            let found = cameras.iter().find(ends).map(|name| (*name).clone());
            found.ok_or_else(|| format!("there is no camera `{wanted}`, only {}", listed()))
        }
        None if cameras.is_empty() => {
            Err("the source has none: no feature of type video or image".into())
        }
        None if cameras.len() > 1 => {
            Err(format!("the source has several, choose one: {}", listed()))
        }
        None => Ok(cameras[0].clone()),
    }
}

/// What a camera sees, where the source says so.
fn lens(info: &Info, camera: &str) -> Option<Lens> {
    let [horizontal, vertical] = info.features.get(camera)?.info.field_of_view?;
    format!("{horizontal}x{vertical}").parse().ok()
}

/// Features of numbers that are kept, with the names and widths of their columns: `observation.state`
/// becomes `observation_state`, `action` becomes `robot_action`, since `action` moves a camera.
fn number_columns(info: &Info, options: &ImportOptions) -> Vec<(String, String, usize)> {
    let kept = info.features.iter().filter_map(|(name, feature)| {
        let [width] = feature.shape[..] else { return None };
        let is_pose = options.pose_column.as_ref() == Some(name);
        let numbers = feature.dtype.starts_with("float") && name != "timestamp" && !is_pose;
        let fits = (1..=LARGEST_COLUMN).contains(&width);
        let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
        let column: String = name.to_lowercase().chars().map(plain).collect();
        let column = if column == "action" { ROBOT_ACTION.into() } else { column };
        (numbers && fits).then(|| (name.clone(), column, width as usize))
    });
    kept.collect()
}

/// Features of seven numbers, which may be poses.
fn sevens(info: &Info) -> Vec<&str> {
    let seven = |feature: &Feature| feature.shape == [7] && feature.dtype.starts_with("float");
    info.features.iter().filter(|(_, own)| seven(own)).map(|(name, _)| name.as_str()).collect()
}

/// What a person who imports no poses may want to know.
fn pose_hint(info: &Info, options: &ImportOptions) -> Option<String> {
    let given = options.pose_column.is_some() || options.still_camera || options.no_poses;
    let first = sevens(info).first().copied().filter(|_| !given)?;
    Some(format!(
        "`{first}` has seven numbers; if they are the camera's position and quaternion, add \
         --pose-column {first}"
    ))
}

/// A column that is asked for must be one of poses.
fn choose_pose(info: &Info, options: &ImportOptions) -> Result<()> {
    let seven = sevens(info);
    let wrong = |reason: String| Err(DataError::Setting { setting: "--pose-column", reason });
    match &options.pose_column {
        Some(column) if seven.contains(&column.as_str()) => Ok(()),
        Some(column) => wrong(format!(
            "`{column}` is not a feature of seven numbers (x y z qw qx qy qz); those are: {}",
            if seven.is_empty() { "none".into() } else { seven.join(", ") }
        )),
        None => Ok(()),
    }
}

/// One row of a data table.
struct Sample {
    time: f64,
    frame: u64,
    pose: Option<RigidPose>,
    numbers: Vec<f32>,
    returns: bool,
    picture: Option<Vec<u8>>,
}

/// The rows of a data table by episode.
fn read_samples(
    source: &Source,
    path: &str,
    info: &Info,
    camera: &str,
    numbers: &[(String, String, usize)],
    options: &ImportOptions,
) -> Result<BTreeMap<u64, Vec<Sample>>> {
    let wrong = |reason| source.refuse(path, reason);
    let inside = info.features.get(camera).is_some_and(|feature| feature.dtype == "image");
    let mut columns = vec!["timestamp", "frame_index", "episode_index"];
    columns.extend(options.pose_column.as_deref());
    columns.extend(inside.then_some(camera));
    let says_return = info.features.contains_key(RETURNING);
    columns.extend(says_return.then_some(RETURNING));
    columns.extend(numbers.iter().map(|(name, ..)| name.as_str()));
    let table = ParquetTable::open(source.read(path)?).map_err(wrong)?;
    let mut samples: BTreeMap<u64, Vec<Sample>> = BTreeMap::new();
    for (number, row) in table.rows(&columns).map_err(wrong)?.enumerate() {
        let read = || -> Parsed<(u64, Sample)> {
            let row = row?;
            let pose = match &options.pose_column {
                Some(column) => Some(pose(&row.numbers(column)?, options.quaternions_xyzw)?),
                None => options.still_camera.then(level_pose),
            };
            let mut kept = Vec::new();
            for (name, _, width) in numbers {
                let found = row.vector(name)?;
                if found.len() != *width {
                    return Err(format!(
                        "`{name}` has {} numbers, its entry says {width}",
                        found.len()
                    ));
                }
                kept.extend(found.iter().map(|&number| number as f32));
            }
            if kept.iter().any(|number| !number.is_finite()) {
                return Err("a number is not finite".into());
            }
            let returns = says_return && row.vector(RETURNING)?.first().is_some_and(|at| *at > 0.0);
            let picture = if inside { Some(row.picture(camera)?) } else { None };
            let (time, frame) = (row.number("timestamp")?, row.index("frame_index")?);
            Ok((
                row.index("episode_index")?,
                Sample { time, frame, pose, numbers: kept, returns, picture },
            ))
        };
        let (episode, sample) =
            read().map_err(|reason| wrong(format!("row {number}: {reason}")))?;
        samples.entry(episode).or_default().push(sample);
    }
    Ok(samples)
}

fn pose(numbers: &[f64], xyzw: bool) -> Parsed<RigidPose> {
    let [x, y, z, a, b, c, d] = numbers
        .try_into()
        .map_err(|_| format!("{} numbers where a pose has seven", numbers.len()))?;
    RigidPose::from_quaternion(if xyzw { [d, a, b, c] } else { [a, b, c, d] }, [x, y, z])
}

/// A camera that looks ahead from the origin.
fn level_pose() -> RigidPose {
    RigidPose {
        rotation: [[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]],
        translation: [0.0; 3],
    }
}

fn assemble(
    source: &Source,
    info: &Info,
    episode: &Episode,
    mut samples: Vec<Sample>,
) -> Result<Recording> {
    samples.sort_by_key(|sample| sample.frame);
    if samples.len() as u64 != episode.length {
        let reason = format!(
            "episode {} has {} rows, its entry says {}",
            episode.index,
            samples.len(),
            episode.length
        );
        return Err(source.refuse(&episode.data, reason));
    }
    let video: Option<Arc<Path>> = match &episode.video {
        Some(path) if samples.iter().all(|sample| sample.picture.is_none()) => {
            Some(source.file(path)?.into())
        }
        _ => None,
    };
    let boundary = samples.iter().position(|sample| sample.returns);
    let first = (episode.from * info.fps).round().max(0.0) as u64;
    let mut frames = Vec::with_capacity(samples.len());
    for sample in samples {
        let picture = match (sample.picture, &video) {
            (Some(bytes), _) => PictureSource::Bytes(bytes.into()),
            (None, Some(path)) => {
                PictureSource::Video { path: path.clone(), frame: first + sample.frame }
            }
            (None, None) => return Err(source.refuse(&episode.data, "its camera has no video")),
        };
        let frame = RecordedFrame::new(sample.time, sample.pose, picture);
        frames.push(RecordedFrame { numbers: sample.numbers, ..frame });
    }
    let mut recording = Recording::new(format!("episode {}", episode.index), source.name(), frames);
    recording.fps = Some(info.fps);
    recording.boundary = boundary;
    recording.split = split_of(info, episode.index);
    Ok(recording)
}

/// The part of an episode, where the dataset has more than one: `{"train": "0:40", "test": "40:50"}`.
fn split_of(info: &Info, index: u64) -> Option<Split> {
    if info.splits.len() < 2 {
        return None;
    }
    let holds = |range: &str| {
        let (from, to) = range.split_once(':')?;
        Some((from.parse::<u64>().ok()?..to.parse().ok()?).contains(&index))
    };
    let (name, _) = info.splits.iter().find(|(_, range)| holds(range) == Some(true))?;
    match name.as_str() {
        "val" => Some(Split::Validation),
        name => Split::from_name(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_those_of_the_dataset() {
        let info = |splits: &str| -> Info {
            let text = format!(
                r#"{{"codebase_version": "v3.0", "fps": 30, "features": {{}}, "data_path": "", "splits": {splits}}}"#
            );
            serde_json::from_str(&text).expect("read")
        };
        let two = info(r#"{"train": "0:4", "val": "4:6"}"#);
        assert_eq!(
            [split_of(&two, 3), split_of(&two, 4)],
            [Some(Split::Train), Some(Split::Validation)]
        );
        assert_eq!(split_of(&two, 9), None);
        // Everything in train is no split: it is dealt out.
        assert_eq!(split_of(&info(r#"{"train": "0:4"}"#), 3), None);
    }
}
