//! Any bytes as the tables of a recording, in every format: reading is an error or works, never a
//! panic. The first byte chooses the format; the rest is cut into its tables at zero bytes, or is the
//! only one.
//!
//! ```text
//! cargo +nightly fuzz run import_source fuzz/corpus/import_source
//! ```

#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use far_data::Picture;
use far_data::import::{ImportOptions, Source, find_format};
use libfuzzer_sys::fuzz_target;

/// Formats with the tables they read and a picture or video they look for.
const SOURCES: [(&str, &[&str], &str); 15] = [
    ("frames", &["poses.csv"], "images/0.png"),
    ("seven-scenes", &["frame-000000.pose.txt"], "frame-000000.color.png"),
    ("tum", &["rgb.txt", "groundtruth.txt"], "0.png"),
    ("transforms", &["transforms.json"], "0.png"),
    ("colmap", &["sparse/0/cameras.txt", "sparse/0/images.txt"], "images/0.png"),
    ("colmap", &["sparse/0/images.bin"], "images/0.png"),
    ("realestate10k", &["a.txt"], "a/0.png"),
    ("scannet", &["pose/0.txt", "intrinsic/intrinsic_color.txt"], "color/0.png"),
    ("tartanair", &["pose_left.txt"], "image_left/0.png"),
    ("lerobot", &["meta/info.json", "meta/episodes.jsonl"], "video.mp4"),
    ("lerobot", &["meta/episodes/0.parquet"], "video.mp4"),
    ("loopnav", &["a.json"], "a.avi"),
    ("worldmem", &["a.npz"], "a.mp4"),
    ("soundspaces", &["trajectory.jsonl"], "rgb/0.png"),
    ("thor", &["metadata.jsonl"], "frames/0.png"),
];

/// Tables that stay as they are, so that the others are reached: by number of the source.
fn fixed() -> [(usize, &'static str, Vec<u8>); 2] {
    let mut cameras = 1u64.to_le_bytes().to_vec();
    cameras.extend([1u32, 1].iter().flat_map(|number| number.to_le_bytes()));
    cameras.extend([4u64, 3].iter().flat_map(|side| side.to_le_bytes()));
    cameras.extend([3.0f64, 3.0, 2.0, 1.5].iter().flat_map(|number| number.to_le_bytes()));
    let info = r#"{"codebase_version": "v3.0", "fps": 10, "data_path": "meta/episodes/0.parquet",
        "video_path": "video.mp4", "features": {"camera": {"dtype": "video"}}}"#;
    [(5, "sparse/0/cameras.bin", cameras), (10, "meta/info.json", info.as_bytes().to_vec())]
}

static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    for (number, (_, tables, picture)) in SOURCES.iter().enumerate() {
        let root = folder.path().join(number.to_string());
        for path in tables.iter().chain([picture]) {
            std::fs::create_dir_all(root.join(path).parent().expect("a folder")).expect("made");
        }
        std::fs::write(root.join(picture), Picture::filled(4, 3, [9; 3]).to_png())
            .expect("written");
    }
    for (number, path, bytes) in fixed() {
        std::fs::write(folder.path().join(number.to_string()).join(path), bytes).expect("written");
    }
    folder
});

fn write(root: &Path, tables: &[&str], data: &[u8]) {
    let mut parts = data.splitn(tables.len(), |byte| *byte == 0);
    for table in tables {
        std::fs::write(root.join(table), parts.next().unwrap_or_default()).expect("written");
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else { return };
    let number = usize::from(*first) % SOURCES.len();
    let (format, tables, _) = SOURCES[number];
    let root = FOLDER.path().join(number.to_string());
    write(&root, tables, rest);
    let format = find_format(format).expect("known");
    let source = Source::open(&root).expect("there");
    let options = ImportOptions { still_camera: true, ..ImportOptions::default() };
    if let Ok(recordings) = format.read(&source, &options) {
        for mut recording in recordings {
            let poses: Vec<_> = recording.frames.iter().filter_map(|frame| frame.pose).collect();
            let _ = format.convention().convert(&poses);
            recording.resample(5.0);
        }
    }
});
