//! A dataset as LeRobot v3 reads it: the way back of `lerobot`. Pictures lie in the tables, as LeRobot's
//! feature type `image` has them.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::parquet_writer::{Values, write};
use crate::{DataError, Dataset, Episode, NumericColumn, Result, durable};

/// The camera's feature.
const CAMERA: &str = "observation.images.camera";
/// The camera's pose: position and quaternion, real part first.
const POSE: &str = "observation.camera_pose";
/// 1 in frames of the return.
pub(crate) const RETURNING: &str = "observation.returning";
/// How a camera moved, number by number.
const MOTION: [&str; 5] = ["forward", "left", "up", "turn", "tilt"];
/// The task that all episodes share.
const TASK: &str = "explore and return";
/// Files in a chunk.
const CHUNK: usize = 1000;

/// Writes all episodes into `out`, one table each: pictures, poses where there are any, actions, and
/// which frames return. Returns the number of episodes and frames. `done` is called after each episode.
///
/// # Errors
/// If `out` is there already, or the episodes hold no pictures.
pub fn export_lerobot(
    dataset: &Dataset,
    out: &Path,
    mut done: impl FnMut(),
) -> Result<(usize, usize)> {
    check_export(dataset, 0, out)?;
    let mut listed = Listed::default();
    for id in dataset.ids() {
        let episode = dataset.episode(id)?;
        let number = listed.lengths.len();
        let path = out.join(format!(
            "data/chunk-{:03}/file-{:03}.parquet",
            number / CHUNK,
            number % CHUNK
        ));
        folder_of(&path)?;
        write(&path, &table(&episode, number, listed.frames)?)?;
        listed.frames += episode.len();
        listed.lengths.push(episode.len());
        done();
    }
    listed.write(out)?;
    let info = info(dataset, &listed);
    let text = serde_json::to_string_pretty(&info).expect("plain data always serializes") + "\n";
    durable::write(&out.join("meta/info.json"), text.as_bytes())?;
    durable::write(&out.join("meta/stats.json"), b"{}\n")?;
    Ok((listed.lengths.len(), listed.frames))
}

/// Refuses to export what is not there, or over something else.
pub(crate) fn check_export(dataset: &Dataset, episode: u32, out: &Path) -> Result<()> {
    if !dataset.description().images.in_episodes() {
        let reason = "its frames are not in the episode files".into();
        return Err(DataError::Episode { episode, reason });
    }
    if out.exists() {
        let reason = format!("{} is there already", out.display());
        return Err(DataError::Setting { setting: "--out", reason });
    }
    Ok(())
}

fn folder_of(path: &Path) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder).map_err(DataError::io("create", folder))
}

/// The rows of one episode.
fn table(episode: &Episode, number: usize, first: usize) -> Result<Vec<(&'static str, Values)>> {
    let frames = 0..episode.len();
    let whole = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
    let motion = |frame: usize| {
        let action = episode.action(frame);
        [action.forward, action.left, action.up, action.turn, action.tilt]
    };
    // A robot's own commands are its action; without them it is how the camera moved.
    let actions = match &episode.description().robot_action {
        Some(commands) => commands.stored(episode)?,
        None => {
            NumericColumn { width: MOTION.len(), values: frames.clone().flat_map(motion).collect() }
        }
    };
    let returning = |frame: usize| i64::from(frame >= episode.boundary());
    let picture = |frame: usize| episode.picture_file(frame);
    let mut columns = vec![
        (CAMERA, Values::Pictures(frames.clone().map(picture).collect::<Result<_>>()?)),
        ("action", Values::Lists(actions.width, actions.values)),
        (RETURNING, Values::Whole(frames.clone().map(returning).collect())),
        ("timestamp", Values::Single(episode.times().iter().map(|&time| time as f32).collect())),
        ("frame_index", Values::Whole(frames.clone().map(whole).collect())),
        ("episode_index", Values::Whole(vec![whole(number); episode.len()])),
        ("index", Values::Whole(frames.map(|frame| whole(first + frame)).collect())),
        ("task_index", Values::Whole(vec![0; episode.len()])),
    ];
    if episode.description().poses {
        let numbers = episode.poses().iter().flat_map(|pose| {
            let ([x, y, z], [w, i, j, k]) = (pose.position, pose.rotation);
            [x, y, z, w, i, j, k]
        });
        columns.push((POSE, Values::Lists(7, numbers.collect())));
    }
    Ok(columns)
}

/// The episodes written so far.
#[derive(Default)]
struct Listed {
    lengths: Vec<usize>,
    frames: usize,
}

impl Listed {
    /// Writes the tables of episodes and of tasks.
    fn write(&self, out: &Path) -> Result<()> {
        let count = self.lengths.len();
        let numbers = |value: &dyn Fn(usize) -> usize| {
            Values::Whole((0..count).map(|episode| value(episode) as i64).collect())
        };
        let first = |episode: usize| self.lengths[..episode].iter().sum::<usize>();
        let path = out.join("meta/episodes/chunk-000/file-000.parquet");
        folder_of(&path)?;
        write(
            &path,
            &[
                ("episode_index", numbers(&|episode| episode)),
                ("tasks", Values::TextLists(vec![TASK.into(); count])),
                ("length", numbers(&|episode| self.lengths[episode])),
                ("data/chunk_index", numbers(&|episode| episode / CHUNK)),
                ("data/file_index", numbers(&|episode| episode % CHUNK)),
                ("dataset_from_index", numbers(&first)),
                ("dataset_to_index", numbers(&|episode| first(episode + 1))),
                ("meta/episodes/chunk_index", numbers(&|_| 0)),
                ("meta/episodes/file_index", numbers(&|_| 0)),
            ],
        )?;
        let tasks = [
            ("task_index", Values::Whole(vec![0])),
            // The name that pandas gives an index.
            ("__index_level_0__", Values::Text(vec![TASK.into()])),
        ];
        write(&out.join("meta/tasks.parquet"), &tasks)
    }
}

/// `meta/info.json`.
fn info(dataset: &Dataset, listed: &Listed) -> Value {
    let description = dataset.description();
    let [width, height] = description.resolution;
    let view = description.field_of_view;
    // LeRobot wants a whole number where it is one.
    let fps = if description.fps.fract() == 0.0 {
        json!(description.fps as u32)
    } else {
        json!(description.fps)
    };
    let feature = |dtype: &str, size: u32, names: Value| json!({"dtype": dtype, "shape": [size], "names": names});
    let mut features = Map::new();
    features.insert(
        CAMERA.into(),
        json!({
            "dtype": "image", "shape": [height, width, 3], "names": ["height", "width", "channels"],
            "info": {"field_of_view": [view.horizontal_degrees, view.vertical_degrees]},
        }),
    );
    let action = match &description.robot_action {
        Some(commands) => feature("float32", commands.width() as u32, Value::Null),
        None => feature("float32", MOTION.len() as u32, json!(MOTION)),
    };
    features.insert("action".into(), action);
    if description.poses {
        let numbers = json!(["x", "y", "z", "qw", "qx", "qy", "qz"]);
        features.insert(POSE.into(), feature("float32", 7, numbers));
    }
    features.insert("timestamp".into(), feature("float32", 1, Value::Null));
    for name in [RETURNING, "frame_index", "episode_index", "index", "task_index"] {
        features.insert(name.into(), feature("int64", 1, Value::Null));
    }
    json!({
        "codebase_version": "v3.0", "robot_type": description.corpus, "fps": fps,
        "total_episodes": listed.lengths.len(), "total_frames": listed.frames, "total_tasks": 1,
        "chunks_size": CHUNK, "data_files_size_in_mb": 100, "video_files_size_in_mb": 200,
        "splits": {"train": format!("0:{}", listed.lengths.len())},
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": null, "features": features,
    })
}
