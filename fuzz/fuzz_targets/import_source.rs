//! Any bytes as the tables of a recording, in every format: reading is an error or works, never a
//! panic. The first byte chooses the source; the rest is cut into its tables at zero bytes, or is the
//! only one. With `FAR_FUZZ_FORMAT`, the name of one of the `SOURCES`, the whole input is its tables.
//!
//! ```text
//! FAR_FUZZ_FORMAT=colmap-binary cargo +nightly fuzz run import_source fuzz/corpus/colmap-binary \
//!     fuzz/seeds/import_source/colmap-binary -- -max_total_time=180
//! ```

#![no_main]

use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use far_data::import::{ImportOptions, Source as Imported, find_format};
use far_data::{
    DatasetDescription, DatasetWriter, EpisodeFacts, Frame, FrameImage, Phase, Picture, Split,
};
use far_memory::Pose;
use libfuzzer_sys::fuzz_target;

/// A kind of input.
struct Source {
    name: &'static str,
    format: &'static str,
    /// What the fuzzer writes.
    tables: &'static [&'static str],
    /// A picture or video that the format looks for.
    picture: &'static str,
    /// Tables that stay as they are, so that the others are reached.
    fixed: &'static [(&'static str, &'static [u8])],
}

/// A table of the made-up sources that the tests import.
macro_rules! made_up {
    ($path:literal) => {
        include_bytes!(concat!("../../crates/far-data/tests/import_sources/", $path)).as_slice()
    };
}

const INFO: (&str, &[u8]) = ("meta/info.json", made_up!("lerobot-v3/meta/info.json"));
const EPISODES: &str = "meta/episodes/chunk-000/file-000.parquet";
const DATA: &str = "data/chunk-000/file-000.parquet";
const OLD_DATA: (&str, &[u8]) = (
    "data/chunk-000/episode_000000.parquet",
    made_up!("lerobot-v2/data/chunk-000/episode_000000.parquet"),
);
const VIDEO: &str = "videos/observation.images.front/chunk-000/file-000.mp4";
const OLD_VIDEO: &str = "videos/chunk-000/observation.images.front/episode_000000.mp4";

macro_rules! source {
    ($name:literal, $format:literal, $tables:expr, $picture:expr) => {
        source!($name, $format, $tables, $picture, &[])
    };
    ($name:literal, $format:literal, $tables:expr, $picture:expr, $fixed:expr) => {
        Source { name: $name, format: $format, tables: $tables, picture: $picture, fixed: $fixed }
    };
}

const SOURCES: [Source; 18] = [
    source!("frames", "frames", &["poses.csv"], "images/0.png"),
    source!("seven-scenes", "seven-scenes", &["frame-000000.pose.txt"], "frame-000000.color.png"),
    source!("tum", "tum", &["rgb.txt", "groundtruth.txt"], "0.png"),
    source!("transforms", "transforms", &["transforms.json"], "0.png"),
    source!(
        "colmap-text",
        "colmap",
        &["sparse/0/cameras.txt", "sparse/0/images.txt"],
        "images/0.png"
    ),
    source!(
        "colmap-binary",
        "colmap",
        &["sparse/0/images.bin"],
        "images/0.png",
        &[("sparse/0/cameras.bin", made_up!("colmap-binary/sparse/0/cameras.bin"))]
    ),
    source!("realestate10k", "realestate10k", &["a.txt"], "a/0.png"),
    source!("scannet", "scannet", &["pose/0.txt", "intrinsic/intrinsic_color.txt"], "color/0.png"),
    source!("tartanair", "tartanair", &["pose_left.txt"], "image_left/0.png"),
    source!(
        "lerobot-v2",
        "lerobot",
        &["meta/info.json", "meta/episodes.jsonl"],
        OLD_VIDEO,
        &[OLD_DATA]
    ),
    source!(
        "lerobot-v3-episodes",
        "lerobot",
        &[EPISODES],
        VIDEO,
        &[INFO, (DATA, made_up!("lerobot-v3/data/chunk-000/file-000.parquet"))]
    ),
    source!(
        "lerobot-v3-data",
        "lerobot",
        &[DATA],
        VIDEO,
        &[INFO, (EPISODES, made_up!("lerobot-v3/meta/episodes/chunk-000/file-000.parquet"))]
    ),
    source!("loopnav", "loopnav", &["a.json"], "a.avi"),
    source!("worldmem", "worldmem", &["a.npz"], "a.mp4"),
    source!("soundspaces", "soundspaces", &["trajectory.jsonl"], "rgb/0.png"),
    source!("thor", "thor", &["metadata.jsonl"], "frames/0.png"),
    source!("dataset", "dataset", &["dataset.json"], "0.png"),
    source!("dataset-index", "dataset", &["episodes.arrow"], "0.png"),
];

static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    for source in &SOURCES {
        let root = folder.path().join(source.name);
        if source.format == "dataset" {
            write_dataset(&root);
        }
        let picture = Picture::filled(4, 3, [9; 3]).to_png();
        for (path, bytes) in source.fixed.iter().chain([&(source.picture, &*picture)]) {
            place(&root.join(path), bytes);
        }
    }
    folder
});

fn place(path: &Path, bytes: &[u8]) {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    std::fs::write(path, bytes).expect("written");
}

/// A dataset of one episode of two frames.
fn write_dataset(root: &Path) {
    let description = DatasetDescription::new("fuzz", 10.0, [4, 3], [90.0, 73.7]);
    let writer = DatasetWriter::create(root, description).expect("a dataset");
    let mut episode =
        writer.episode(0, EpisodeFacts::new("room", Split::Train, 0)).expect("an episode");
    for (frame, phase) in [Phase::Explore, Phase::Return].into_iter().enumerate() {
        let image = FrameImage::Encoded(Picture::filled(4, 3, [9; 3]).to_png());
        let pose = Pose::from_yaw_pitch([0.0; 3], 0.0, 0.0);
        episode.push(Frame::new(frame as f64 / 10.0, pose, phase, image)).expect("a frame");
    }
    episode.finish().expect("an episode");
    writer.finish().expect("a dataset");
}

/// The source that the input is for, and its tables.
fn choose(data: &[u8]) -> Option<(&'static Source, &[u8])> {
    static ONLY: LazyLock<Option<&'static Source>> = LazyLock::new(|| {
        let name = std::env::var("FAR_FUZZ_FORMAT").ok()?;
        let found = SOURCES.iter().find(|source| source.name == name);
        Some(found.unwrap_or_else(|| panic!("FAR_FUZZ_FORMAT={name} is none of the sources")))
    });
    match *ONLY {
        Some(source) => Some((source, data)),
        None => {
            let (first, rest) = data.split_first()?;
            Some((&SOURCES[usize::from(*first) % SOURCES.len()], rest))
        }
    }
}

/// An archive whose checksum fits: otherwise no array would ever be read.
fn archive(array: &[u8]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    writer.start_file("poses.npy", options).expect("begun");
    writer.write_all(array).expect("written");
    writer.finish().expect("whole").into_inner()
}

fn write(source: &Source, root: &Path, data: &[u8]) {
    if source.name == "worldmem" && !data.starts_with(b"PK") {
        return place(&root.join(source.tables[0]), &archive(data));
    }
    let mut parts = data.splitn(source.tables.len(), |byte| *byte == 0);
    for table in source.tables {
        place(&root.join(table), parts.next().unwrap_or_default());
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((source, tables)) = choose(data) else { return };
    let root: PathBuf = FOLDER.path().join(source.name);
    write(source, &root, tables);
    let format = find_format(source.format).expect("known");
    let opened = Imported::open(&root).expect("there");
    let posed = source.name.starts_with("lerobot-v3");
    let options = ImportOptions {
        still_camera: !posed,
        pose_column: posed.then(|| "observation.camera_pose".into()),
        ..ImportOptions::default()
    };
    if let Ok(recordings) = (format.read)(&opened, &options) {
        for mut recording in recordings {
            let poses: Vec<_> = recording.frames.iter().filter_map(|frame| frame.pose).collect();
            let _ = format.convention.convert(&poses);
            recording.resample(5.0);
        }
    }
});
