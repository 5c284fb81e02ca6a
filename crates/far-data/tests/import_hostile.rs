//! Hostile and broken sources are refused by name and leave nothing behind; damaged tables never panic.

mod import_source;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use far_data::import::{self, ImportOptions, find_format};
use import_source::{options, plan, source};

/// Changes a source, imports it, and expects words in the error and nothing on the disk.
fn refused(name: &str, format: &str, words: &str, spoil: impl Fn(&Path)) {
    let source = source(name);
    spoil(source.path());
    let out = source.path().join("out");
    let result =
        plan(format, source.path(), &options("")).and_then(|plan| plan.write(&out, &|_| ()));
    let error = result.expect_err(words);
    assert!(error.to_string().contains(words), "{name}: {error} should say {words}");
    assert!(!out.exists(), "{name}: {words} leaves something behind");
}

#[test]
fn hostile_and_broken_sources_are_refused_by_name() {
    let write = |path: PathBuf, content: &str| std::fs::write(path, content).expect("written");
    let edit = |path: PathBuf, from: &str, to: &str| {
        let text = std::fs::read_to_string(&path).expect("there");
        assert!(text.contains(from));
        std::fs::write(&path, text.replacen(from, to, 1)).expect("written");
    };
    refused("frames-opencv", "frames", "35 pictures", |path| {
        std::fs::remove_file(path.join("images/000004.png")).expect("removed");
    });
    refused("frames-opencv", "frames", "neither a PNG nor a JPEG", |path| {
        write(path.join("images/000004.png"), "text");
    });
    refused("frames-opencv", "frames", "000004.png", |path| {
        let picture = path.join("images/000004.png");
        let bytes = std::fs::read(&picture).expect("there");
        std::fs::write(&picture, &bytes[..bytes.len() / 2]).expect("written");
    });
    refused("frames-opencv", "frames", "limits are exceeded", |path| {
        // A header that declares two billion pixels a side.
        let picture = path.join("images/000000.png");
        let mut bytes = std::fs::read(&picture).expect("there");
        bytes[16..20].copy_from_slice(&0x7fff_ffffu32.to_be_bytes());
        let mut header = crc(&bytes[12..29]).to_be_bytes().to_vec();
        bytes[29..33].swap_with_slice(&mut header);
        std::fs::write(&picture, bytes).expect("written");
    });
    refused("seven-scenes", "seven-scenes", "frame-000003.pose.txt", |path| {
        edit(path.join("seq-01/frame-000003.pose.txt"), "0 0 0 1", "0 0 nan 1");
    });
    refused("seven-scenes", "seven-scenes", "color picture is missing", |path| {
        std::fs::remove_file(path.join("seq-01/frame-000003.color.png")).expect("removed");
    });
    refused("scannet", "scannet", "pose/5.txt", |path| {
        write(path.join("scene0000_00/pose/5.txt"), "-inf 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1");
    });
    refused("transforms", "transforms", "leads out", |path| {
        edit(path.join("transforms.json"), "./images/frame_00003.png", "../../etc/passwd");
    });
    refused("transforms", "transforms", "EOF", |path| {
        let file = path.join("transforms.json");
        let text = std::fs::read_to_string(&file).expect("there");
        write(file, &text[..text.len() / 2]);
    });
    refused("tartanair", "tartanair", "36 poses for 35 pictures", |path| {
        std::fs::remove_file(path.join("office/Easy/P001/image_left/000004_left.png"))
            .expect("removed");
    });
    refused("tum", "tum", "is missing", |path| {
        std::fs::remove_file(path.join("rgb/100.300000.png")).expect("removed");
    });
    refused("colmap-binary", "colmap", "cut short", |path| {
        let file = path.join("sparse/0/images.bin");
        let bytes = std::fs::read(&file).expect("there");
        std::fs::write(&file, &bytes[..bytes.len() - 3]).expect("written");
    });
    refused("realestate10k", "realestate10k", "line 2", |path| {
        edit(path.join("00ab.txt"), "0 0 ", "")
    });
    refused("tum", "seven-scenes", "there is no frame-NNNNNN.pose.txt", |_| ());
    #[cfg(unix)]
    refused("frames-opencv", "frames", "link leads out", |path| {
        let picture = path.join("images/000004.png");
        std::fs::remove_file(&picture).expect("removed");
        std::os::unix::fs::symlink("/etc/hostname", picture).expect("linked");
    });
}

#[test]
fn what_sources_declare_is_not_believed() {
    // A few hundred kilobytes that unpack to more than any walk has.
    refused("worldmem", "worldmem", "`poses` unpacks to more than", |path| {
        let file = std::fs::File::create(path.join("training/plains/000001.npz")).expect("made");
        let mut bomb = zip::ZipWriter::new(file);
        let deflated = zip::write::SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Deflated);
        bomb.start_file("poses.npy", deflated).expect("begun");
        let zeros = vec![0u8; 1 << 20];
        (0..257).for_each(|_| bomb.write_all(&zeros).expect("written"));
        bomb.finish().expect("whole");
    });
    let declare = |path: PathBuf, at: usize, number: u64| {
        let mut bytes = std::fs::read(&path).expect("there");
        bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        std::fs::write(&path, bytes).expect("written");
    };
    refused("colmap-binary", "colmap", "images.bin", |path| {
        declare(path.join("sparse/0/images.bin"), 0, u64::MAX);
    });
    refused("colmap-binary", "colmap", "cameras.bin", |path| {
        declare(path.join("sparse/0/cameras.bin"), 0, u64::MAX / 2);
    });
    refused("lerobot-v2", "lerobot", "has 18 rows, its entry says 9000000000", |path| {
        let entry = r#"{"episode_index": 0, "length": 9000000000}"#;
        std::fs::write(path.join("meta/episodes.jsonl"), entry).expect("written");
    });
    refused("lerobot-v3", "lerobot", "file-000.parquet", |path| {
        // The footer declares a length far beyond the file.
        let path = path.join("data/chunk-000/file-000.parquet");
        let mut bytes = std::fs::read(&path).expect("there");
        let end = bytes.len() - 8;
        bytes[end..end + 4].copy_from_slice(&0x7fff_fff0u32.to_le_bytes());
        std::fs::write(&path, bytes).expect("written");
    });
}

/// Every format with the tables of its source.
const TABLES: [(&str, &str, &[&str]); 16] = [
    ("frames", "frames-opencv", &["poses.csv"]),
    ("frames", "frames-matrix", &["poses.csv"]),
    ("seven-scenes", "seven-scenes", &["seq-01/frame-000003.pose.txt", "TrainSplit.txt"]),
    ("tum", "tum", &["rgb.txt", "groundtruth.txt"]),
    ("transforms", "transforms", &["transforms.json"]),
    ("colmap", "colmap-text", &["sparse/0/cameras.txt", "sparse/0/images.txt"]),
    ("colmap", "colmap-binary", &["sparse/0/cameras.bin", "sparse/0/images.bin"]),
    ("realestate10k", "realestate10k", &["00ab.txt"]),
    (
        "scannet",
        "scannet",
        &["scene0000_00/pose/5.txt", "scene0000_00/intrinsic/intrinsic_color.txt"],
    ),
    ("tartanair", "tartanair", &["office/Easy/P001/pose_left.txt"]),
    ("soundspaces", "soundspaces", &["17DRP5sb8fy/0/trajectory.jsonl"]),
    ("thor", "thor", &["episode_0/metadata.jsonl"]),
    ("loopnav", "loopnav", &["ABA/plains_village_3/5/05-04_13-57-20.json"]),
    ("worldmem", "worldmem", &["training/plains/000001.npz"]),
    (
        "lerobot",
        "lerobot-v2",
        &["meta/info.json", "meta/episodes.jsonl", "data/chunk-000/episode_000000.parquet"],
    ),
    (
        "lerobot",
        "lerobot-v3",
        &[
            "meta/info.json",
            "meta/episodes/chunk-000/file-000.parquet",
            "data/chunk-000/file-000.parquet",
        ],
    ),
];

/// A small generator of numbers, the same on every run.
fn next(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

/// By default a few mutations of every table; with `FAR_FUZZ_SECONDS=180` three minutes for every format,
/// and with `FAR_FUZZ_FORMAT=colmap` of that format alone. The numbers then differ from run to run.
#[test]
fn damaged_tables_are_read_or_refused_and_never_panic() {
    let wanted = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let seconds: Option<u64> = wanted("FAR_FUZZ_SECONDS").and_then(|text| text.parse().ok());
    let only = wanted("FAR_FUZZ_FORMAT");
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let mut state = if seconds.is_some() { now().expect("a clock").as_nanos() as u64 } else { 7 };
    let chosen = TABLES.iter().filter(|(_, name, _)| only.as_ref().is_none_or(|only| only == name));
    for (format, name, tables) in chosen {
        let source = source(name);
        let options = ImportOptions {
            pose_column: (*format == "lerobot").then(|| "observation.camera_pose".into()),
            ..options("")
        };
        let opened = import::Source::open(source.path()).expect("there");
        let reader = find_format(format).expect("known");
        assert!((reader.read)(&opened, &options).is_ok(), "{name} is whole");
        let mut mutations = 0u64;
        let each = seconds.map(|seconds| Duration::from_secs(seconds) / tables.len() as u32);
        for table in *tables {
            let path = source.path().join(table);
            let whole = std::fs::read(&path).expect("there");
            let begin = Instant::now();
            let mut tried = 0;
            while each.map_or(tried < 150, |each| begin.elapsed() < each) {
                (tried, mutations) = (tried + 1, mutations + 1);
                let mut bytes = whole.clone();
                for _ in 0..1 + next(&mut state) % 4 {
                    let place = next(&mut state) % bytes.len();
                    match next(&mut state) % 4 {
                        0 => bytes.truncate(place.max(1)),
                        1 => drop(bytes.remove(place)),
                        2 => bytes.insert(place, b"0-9e\n"[next(&mut state) % 5]),
                        _ => bytes[place] = next(&mut state) as u8,
                    }
                    if bytes.is_empty() {
                        break;
                    }
                }
                std::fs::write(&path, &bytes).expect("written");
                // Poses that are read are converted, or refused, too.
                if let Ok(recordings) = (reader.read)(&opened, &options) {
                    for recording in recordings {
                        let poses: Vec<_> =
                            recording.frames.iter().filter_map(|frame| frame.pose).collect();
                        let _ = reader.convention.convert(&poses);
                    }
                }
            }
            std::fs::write(&path, &whole).expect("written");
        }
        println!("{name}: {mutations} mutations of {} tables", tables.len());
    }
}

/// CRC-32 as PNG has it, bit by bit.
fn crc(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        (0..8).for_each(|_| crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 });
    }
    !crc
}
