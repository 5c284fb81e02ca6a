//! Made-up recordings in every format of pictures, written by `scripts/make_import_sources.py`, come out
//! with the poses they were made with; wrong conventions and hostile files are refused by name.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use far_data::import::{
    Convention, ConventionChoice, ImportOptions, ImportPlan, Lens, ReturnRule, find_format,
};
use far_data::*;
use far_memory::Pose;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import_sources")
}

/// A copy of a source with its pictures in their places.
fn source(name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    copy(&fixtures().join(name), folder.path());
    let take = |name: &str| {
        let path = folder.path().join(name);
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let _ = std::fs::remove_file(path);
        text
    };
    // Videos are not opened here: the tests of the program decode them.
    for line in take("videos.txt").lines() {
        let place = folder.path().join(line.split(' ').next().expect("a path"));
        std::fs::create_dir_all(place.parent().expect("a folder")).expect("made");
        std::fs::write(place, "a video").expect("written");
    }
    let places = take("pictures.txt");
    for (frame, place) in places.lines().enumerate() {
        let place = folder.path().join(place);
        std::fs::create_dir_all(place.parent().expect("a folder")).expect("made");
        std::fs::copy(fixtures().join(format!("pictures/{frame:03}.png")), place).expect("copied");
    }
    folder
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("made");
    for entry in std::fs::read_dir(from).expect("listed") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        match path.is_dir() {
            true => copy(&path, &target),
            false => drop(std::fs::copy(&path, target).expect("copied")),
        }
    }
}

/// The poses that the sources were made with.
fn truth() -> Vec<Pose> {
    let text = std::fs::read_to_string(fixtures().join("truth.csv")).expect("there");
    let pose = |line: &str| {
        let numbers: Vec<f32> =
            line.split(',').map(|word| word.parse().expect("a number")).collect();
        Pose {
            position: numbers[1..4].try_into().expect("three"),
            rotation: numbers[4..8].try_into().expect("four"),
        }
    };
    text.lines().skip(1).map(pose).collect()
}

/// Options that read a source of `frames` in the given words.
fn options(words: &str) -> ImportOptions {
    let mut options = ImportOptions { lens: Some(Lens::Horizontal(80.0)), ..Default::default() };
    let mut words = words.split_whitespace();
    let convention = &mut options.convention;
    while let Some(word) = words.next() {
        let mut value = || words.next().expect("a value");
        match word {
            "axes" => convention.axes = Some(value().parse().expect("axes")),
            "up" => convention.up = Some(value().parse().expect("up")),
            "unit" => convention.unit = Some(value().parse().expect("a number")),
            "left" => convention.left_handed = Some(true),
            "inverse" => convention.world_to_camera = Some(true),
            "xyzw" => options.quaternions_xyzw = true,
            other => panic!("{other}"),
        }
    }
    options
}

fn plan(format: &str, source: &Path, options: &ImportOptions) -> Result<ImportPlan> {
    ImportPlan::new(find_format(format).expect("known"), source, options)
}

/// Imports a source as one episode.
fn import(format: &str, name: &str, options: &ImportOptions) -> (tempfile::TempDir, Dataset) {
    let source = source(name);
    let out = source.path().join("out");
    let plan =
        plan(format, source.path(), options).unwrap_or_else(|error| panic!("{name}: {error}"));
    plan.write(&out, &|_| ()).unwrap_or_else(|error| panic!("{name}: {error}"));
    let dataset = Dataset::open(&out).expect("opens");
    (source, dataset)
}

fn assert_near(found: &Pose, due: &Pose, what: &str) {
    let pairs = [
        (found.position, due.position),
        (found.forward(), due.forward()),
        (found.right(), due.right()),
    ];
    for (found, due) in pairs {
        let apart = (0..3).map(|axis| (found[axis] - due[axis]).abs()).fold(0.0, f32::max);
        assert!(apart < 1e-4, "{what}: {found:?} instead of {due:?}");
    }
}

#[test]
fn every_format_comes_out_with_the_poses_it_was_made_with() {
    for (format, name) in [
        ("frames", "frames-opencv"),
        ("frames", "frames-matrix"),
        ("seven-scenes", "seven-scenes"),
        ("tum", "tum"),
        ("transforms", "transforms"),
        ("colmap", "colmap-text"),
        ("colmap", "colmap-binary"),
        ("realestate10k", "realestate10k"),
        ("scannet", "scannet"),
        ("tartanair", "tartanair"),
        ("soundspaces", "soundspaces"),
        ("thor", "thor"),
    ] {
        // Where the source says what the camera sees, nobody else has to.
        let says = ["transforms", "colmap", "realestate10k", "scannet", "thor"].contains(&format);
        let options = if says { ImportOptions::default() } else { options("") };
        let (_folder, dataset) = import(format, name, &options);
        let episode = verify_episode(&dataset, 0).expect("whole");
        let truth = truth();
        assert_eq!(episode.len(), truth.len(), "{name}");
        // A model of COLMAP has a world of its own: only how poses lie to each other is known.
        let own = |poses: &[Pose], frame: usize| match format {
            "colmap" => poses[frame].relative_to(&poses[0]),
            _ => poses[frame],
        };
        for frame in 0..truth.len() {
            let what = format!("{name}, frame {frame}");
            assert_near(&own(episode.poses(), frame), &own(&truth, frame), &what);
        }
        // Kinects and scanners have a rate of their own.
        let rate = if ["seven-scenes", "scannet"].contains(&format) { 30.0 } else { 10.0 };
        assert_eq!(dataset.description().fps, rate, "{name}");
        let view = dataset.description().field_of_view;
        assert!((view.horizontal_degrees - 80.0).abs() < 0.01, "{name}: {view:?}");
        assert!(episode.boundary() < episode.len(), "{name} returns");
        let report = PoseReport::of_episode(&episode).expect("checked").expect("posed");
        assert_eq!(report.better, None, "{name}: {report:?}");
        let picture = std::fs::read(fixtures().join("pictures/007.png")).expect("there");
        let due = Picture::from_png(&picture, [32, 24]).expect("a picture");
        assert_eq!(episode.picture(7).expect("a picture"), due, "{name}");
    }
}

#[test]
fn every_convention_is_converted() {
    for (name, words) in [
        ("frames-opengl", "axes opengl"),
        ("frames-ros", "axes ros"),
        ("frames-unity", "axes unity left up y"),
        ("frames-left-matrix", "left up y"),
        ("frames-inverse", "inverse"),
        ("frames-millimeters", "unit 0.001"),
        ("frames-xyzw", "xyzw"),
    ] {
        let (_folder, dataset) = import("frames", name, &options(words));
        let episode = dataset.episode(0).expect("opens");
        for (frame, (found, due)) in episode.poses().iter().zip(truth()).enumerate() {
            assert_near(found, &due, &format!("{name}, frame {frame}"));
        }
    }
}

#[test]
fn every_mistake_is_named_and_nothing_is_written() {
    for (name, words, better) in [
        ("frames-opengl", "", "--axes opengl"),
        ("frames-unity", "up y", "--axes unity --handed left"),
        ("frames-inverse", "", "--world-to-camera"),
        ("frames-millimeters", "", "--unit mm"),
        ("frames-xyzw", "", "--quaternion xyzw"),
        ("frames-left-matrix", "up y", "--handed"),
    ] {
        let source = source(name);
        let error = plan("frames", source.path(), &options(words)).err().expect(name);
        let told = format!("{error} {}", error.hint());
        assert!(told.contains(better), "{name}: {told}");
        if name != "frames-left-matrix" {
            let trusting = ImportOptions { trust_poses: true, ..options(words) };
            assert!(plan("frames", source.path(), &trusting).is_ok(), "{name} can be trusted");
        }
    }
}

#[test]
fn resizing_cutting_and_resuming_give_the_same_bytes() {
    let source = source("frames-opencv");
    let wanted = ImportOptions {
        resize: Some([12, 12]),
        square: true,
        window: Some(10),
        return_rule: ReturnRule::Last(0.3),
        license: "CC0".into(),
        ..options("")
    };
    let plan = plan("frames", source.path(), &wanted).expect("planned");
    let [first, second] = ["first", "second"].map(|name| source.path().join(name));
    plan.write(&first, &|_| ()).expect("written");
    plan.write(&second, &|_| ()).expect("written");
    // As if killed in the middle: one episode is gone, another half there.
    std::fs::remove_file(second.join("episodes/000001.arrow")).expect("removed");
    std::fs::write(second.join("episodes/000001.arrow.partial"), "half").expect("written");
    std::fs::remove_file(second.join("episodes.arrow")).expect("removed");
    let result = plan.write(&second, &|_| ()).expect("goes on");
    assert_eq!((result.kept, result.episodes), (2, 3));
    for name in ["dataset.json", "episodes.arrow", "episodes/000000.arrow", "episodes/000001.arrow"]
    {
        let [a, b] =
            [&first, &second].map(|folder| std::fs::read(folder.join(name)).expect("there"));
        assert!(a == b, "{name} differs");
    }
    let dataset = Dataset::open(&first).expect("opens");
    let description = dataset.description();
    assert_eq!((description.resolution, description.license.as_str()), ([12, 12], "CC0"));
    // 24 of 32 pixels across are kept.
    let view = description.field_of_view;
    assert!((view.horizontal_degrees - view.vertical_degrees).abs() < 1e-3, "{view:?}");
    assert!(
        description.provenance.contains("frames") && description.provenance.contains("window 10")
    );
    let splits: Vec<Split> =
        dataset.ids().map(|id| dataset.summary(id).expect("there").facts.split).collect();
    assert_eq!(splits, [Split::Train, Split::Train, Split::Test]);
    let lengths: Vec<_> = dataset.ids().map(|id| dataset.lengths(id).expect("there")).collect();
    // A second of training is left out before the test.
    assert_eq!(lengths, [(10, 7), (10, 7), (6, 4)]);
    let other = ImportOptions { window: Some(12), ..wanted };
    let other = self::plan("frames", source.path(), &other).expect("planned");
    let error = other.write(&first, &|_| ()).expect_err("another import");
    assert!(matches!(error, DataError::Conflict { .. }), "{error}");
}

#[test]
fn the_return_is_found_read_or_refused() {
    let source = source("frames-opencv");
    let boundary = |rule| {
        let options = ImportOptions { return_rule: rule, ..options("") };
        plan("frames", source.path(), &options).map(|plan| plan.episodes[0].boundary)
    };
    // The column says two thirds, and what the source says goes before what poses say.
    assert_eq!(boundary(ReturnRule::Column).expect("a column"), 24);
    assert_eq!(boundary(ReturnRule::Automatic).expect("a column"), 24);
    assert_eq!(boundary(ReturnRule::Last(0.25)).expect("a share"), 27);
    // Without the column: one round takes 24 frames, and places are seen again a little before.
    let table = source.path().join("poses.csv");
    let text = std::fs::read_to_string(&table).expect("there").replace("phase", "other");
    std::fs::write(&table, &text).expect("written");
    let found = boundary(ReturnRule::Automatic).expect("found");
    assert!((20..=26).contains(&found), "{found}");
    assert!(boundary(ReturnRule::Column).unwrap_err().to_string().contains("phase"));
    // Half a round sees nothing again.
    let half: Vec<&str> = text.lines().take(13).collect();
    std::fs::write(&table, half.join("\n")).expect("written");
    (12..36).for_each(|frame| {
        std::fs::remove_file(source.path().join(format!("images/{frame:06}.png")))
            .expect("removed");
    });
    let error = boundary(ReturnRule::Automatic).unwrap_err();
    assert!(
        error.to_string().contains("no frame sees a place again: nothing to recall"),
        "{error}"
    );
    assert!(error.hint().contains("last:30%"));
}

#[test]
fn what_is_exported_is_imported_again() {
    let (folder, dataset) = import("frames", "frames-opencv", &options(""));
    let out = folder.path().join("nerf");
    assert_eq!(export_transforms(&dataset, 0, &out).expect("written"), 36);
    let error = export_transforms(&dataset, 0, &out).expect_err("already there");
    assert!(error.to_string().contains("is there already"), "{error}");
    let plan = plan("transforms", &out, &ImportOptions::default()).expect("planned");
    plan.write(&folder.path().join("again"), &|_| ()).expect("written");
    let again = Dataset::open(&folder.path().join("again")).expect("opens");
    let (first, second) = (dataset.episode(0).expect("opens"), again.episode(0).expect("opens"));
    for frame in 0..36 {
        assert_near(&second.poses()[frame], &first.poses()[frame], &format!("frame {frame}"));
        assert_eq!(second.image_bytes(frame), first.image_bytes(frame));
    }
    assert_eq!(first.times(), second.times());
    let [a, b] = [&dataset, &again].map(|dataset| dataset.description().field_of_view);
    assert!((a.horizontal_degrees - b.horizontal_degrees).abs() < 1e-3);
}

#[test]
fn lerobot_goes_there_and_back() {
    let (folder, dataset) = import("frames", "frames-opencv", &options(""));
    let out = folder.path().join("robot");
    let mut done = 0;
    assert_eq!(export_lerobot(&dataset, &out, || done += 1).expect("written"), (1, 36));
    assert_eq!(done, 1);
    assert!(export_lerobot(&dataset, &out, || ()).unwrap_err().to_string().contains("is there"));
    let options = ImportOptions {
        pose_column: Some("observation.camera_pose".into()),
        ..ImportOptions::default()
    };
    let plan = plan("lerobot", &out, &options).expect("planned");
    plan.write(&folder.path().join("again"), &|_| ()).expect("written");
    let again = Dataset::open(&folder.path().join("again")).expect("opens");
    let (first, second) = (dataset.episode(0).expect("opens"), again.episode(0).expect("opens"));
    assert_eq!((first.len(), first.boundary()), (second.len(), second.boundary()));
    let actions = second.numbers("robot_action").expect("a column");
    for frame in 0..36 {
        assert_near(&second.poses()[frame], &first.poses()[frame], &format!("frame {frame}"));
        assert_eq!(second.image_bytes(frame), first.image_bytes(frame));
        assert!((first.times()[frame] - second.times()[frame]).abs() < 1e-5);
        assert_eq!(actions.row(frame)[0], first.action(frame).forward);
    }
    let view = again.description().field_of_view;
    assert_eq!(view, dataset.description().field_of_view);
}

#[test]
fn a_source_without_poses_is_a_dataset_without_poses() {
    let source = source("frames-opencv");
    let options = ImportOptions { no_poses: true, ..options("") };
    let out = source.path().join("out");
    let plan = plan("frames", source.path(), &options).expect("planned");
    assert!(plan.reports.is_empty() && plan.notes[0].contains("no camera poses"));
    plan.write(&out, &|_| ()).expect("written");
    let dataset = Dataset::open(&out).expect("opens");
    assert_eq!((dataset.description().version, dataset.description().poses), (2, false));
    let episode = verify_episode(&dataset, 0).expect("whole");
    assert_eq!((episode.len(), episode.boundary(), episode.pose(3)), (36, 24, None));
    assert!(episode.poses().is_empty());
    assert_eq!(episode.action(5), far_memory::Displacement::default());
    assert_eq!(PoseReport::of_episode(&episode).expect("read"), None);
    let nerf = source.path().join("nerf");
    let error = export_transforms(&dataset, 0, &nerf).unwrap_err().to_string();
    assert!(error.contains("no poses") && !nerf.exists(), "{error}");
    // Without the column `phase`, pictures are compared. Its second round is another one than the first.
    let table = source.path().join("poses.csv");
    let text = std::fs::read_to_string(&table).expect("there").replace("phase", "other");
    std::fs::write(&table, &text).expect("written");
    let error = self::plan("frames", source.path(), &options).err().expect("no return");
    assert!(error.to_string().contains("pictures are alike by"), "{error}");
}

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
        assert!(reader.read(&opened, &options).is_ok(), "{name} is whole");
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
                if let Ok(recordings) = reader.read(&opened, &options) {
                    for recording in recordings {
                        let poses: Vec<_> =
                            recording.frames.iter().filter_map(|frame| frame.pose).collect();
                        let _ = reader.convention().convert(&poses);
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

#[test]
fn choices_replace_only_what_they_name() {
    let choice = ConventionChoice { unit: Some(0.01), ..Default::default() };
    let own = find_format("colmap").expect("known").convention();
    assert_eq!(choice.over(own), Convention { unit: 0.01, ..own });
}
