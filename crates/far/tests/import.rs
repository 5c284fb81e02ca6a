//! `far data import`, `far data export` and `far memory build` as a person meets them. Videos are decoded
//! by a stand-in for `ffmpeg` that hands out the pixmaps it is given, so nothing has to be installed.

#![cfg(unix)]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use far_data::{
    Dataset, DatasetDescription, DatasetWriter, EpisodeFacts, Frame, FrameImage, ImageEncoding,
    Phase, Picture, Split, SplitRule,
};
use far_memory::Pose;

const FRAMES: usize = 36;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../far-data/tests/import_sources")
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

/// A source with its videos (as rows of pixmaps) or pictures in place, and a decoder beside it.
fn source(name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("source");
    copy(&fixtures().join(name), &root);
    let place = |path: &str, bytes: &[u8]| {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, bytes).expect("written");
    };
    let file = |frame: usize| {
        std::fs::read(fixtures().join(format!("pictures/{frame:03}.png"))).expect("there")
    };
    if let Ok(videos) = std::fs::read_to_string(root.join("videos.txt")) {
        for line in videos.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [from, to] = [1, 2].map(|at| words[at].parse::<usize>().expect("a number"));
            let mut stream = Vec::new();
            for frame in from..to {
                stream.extend(b"P6\n32 24\n255\n");
                stream.extend(Picture::from_png(&file(frame), [32, 24]).expect("a picture").pixels);
            }
            place(words[0], &stream);
        }
    }
    if let Ok(places) = std::fs::read_to_string(root.join("pictures.txt")) {
        places.lines().enumerate().for_each(|(frame, path)| place(path, &file(frame)));
    }
    let decoder = folder.path().join("decoder");
    let script = "#!/bin/sh\nfor word; do case \"$word\" in file:*) exec cat \"${word#file:}\";; esac; done\n";
    std::fs::write(&decoder, script).expect("written");
    std::fs::set_permissions(&decoder, PermissionsExt::from_mode(0o755)).expect("allowed");
    folder
}

fn far(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_far"))
        .args(arguments)
        .env("FAR_FFMPEG", folder.join("decoder"))
        .current_dir(folder)
        .output()
        .expect("the program runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn truth() -> Vec<Pose> {
    let table = std::fs::read_to_string(fixtures().join("truth.csv")).expect("there");
    let pose = |line: &str| {
        let numbers: Vec<f32> =
            line.split(',').map(|word| word.parse().expect("a number")).collect();
        Pose {
            position: numbers[1..4].try_into().expect("three"),
            rotation: numbers[4..8].try_into().expect("four"),
        }
    };
    table.lines().skip(1).map(pose).collect()
}

#[test]
fn videos_come_out_with_their_poses_and_pictures() {
    for (format, name, own) in [
        ("loopnav", "loopnav", &["--fov", "80"][..]),
        ("worldmem", "worldmem", &["--fov", "80"]),
        (
            "lerobot",
            "lerobot-v2",
            &["--fov", "80", "--pose-column", "observation.camera_pose", "--return", "last:30%"],
        ),
        (
            "lerobot",
            "lerobot-v3",
            &["--fov", "80", "--pose-column", "observation.camera_pose", "--return", "last:30%"],
        ),
    ] {
        let folder = source(name);
        let command = [&["data", "import", format, "source", "--out", "out"][..], own].concat();
        let output = far(folder.path(), &command);
        assert!(output.status.success(), "{name}: {}", text(&output.stderr));
        let dataset = Dataset::open(&folder.path().join("out")).expect("opens");
        let truth = truth();
        let mut frame = 0;
        for id in dataset.ids() {
            let episode = far_data::verify_episode(&dataset, id).expect("whole");
            for at in 0..episode.len() {
                let (found, due) = (episode.poses()[at], truth[frame]);
                for (found, due) in [
                    (found.position, due.position),
                    (found.forward(), due.forward()),
                    (found.down(), due.down()),
                ] {
                    let apart =
                        (0..3).map(|axis| (found[axis] - due[axis]).abs()).fold(0.0, f32::max);
                    assert!(apart < 1e-4, "{name}, frame {frame}: {found:?} instead of {due:?}");
                }
                let picture = std::fs::read(fixtures().join(format!("pictures/{frame:03}.png")))
                    .expect("there");
                let picture = Picture::from_png(&picture, [32, 24]).expect("a picture");
                assert_eq!(
                    episode.picture(at).expect("a picture"),
                    picture,
                    "{name}, frame {frame}"
                );
                frame += 1;
            }
        }
        assert_eq!(frame, FRAMES, "{name}");
        if name == "loopnav" {
            let summary = dataset.summary(0).expect("there");
            assert_eq!((summary.boundary, summary.facts.tier), (24, Some(5)));
            assert_eq!(
                (summary.facts.scene.as_str(), summary.facts.route.as_str()),
                ("plains_village_3", "ABA")
            );
        }
    }
}

#[test]
fn what_cannot_be_decoded_is_said_plainly() {
    let folder = source("loopnav");
    let import = ["data", "import", "loopnav", "source", "--out", "out"];
    let video = folder.path().join("source/ABA/plains_village_3/5/05-04_13-57-20.avi");
    let whole = std::fs::read(&video).expect("there");
    std::fs::write(&video, &whole[..whole.len() / 2]).expect("written");
    let output = far(folder.path(), &import);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("frame 18 cannot be read: the video ends"),
        "{}",
        text(&output.stderr)
    );
    assert!(!folder.path().join("out").exists(), "nothing is left behind");
    std::fs::remove_file(folder.path().join("decoder")).expect("removed");
    let output = far(folder.path(), &import);
    let message = text(&output.stderr);
    assert!(
        message.contains("cannot be started to decode") && message.contains("install ffmpeg"),
        "{message}"
    );
    std::fs::remove_file(&video).expect("removed");
    let message = text(&far(folder.path(), &import).stderr);
    assert!(message.contains("there is no STEM.json beside STEM.avi"), "{message}");
}

/// The reader of Parquet files panics when one of these bytes of the footer is 255; what a person sees is
/// an error all the same.
#[test]
fn damaged_tables_are_refused_without_a_panic() {
    let folder = source("lerobot-v3");
    let table = folder.path().join("source/data/chunk-000/file-000.parquet");
    let whole = std::fs::read(&table).expect("there");
    let import = ["data", "import", "lerobot", "source", "--out", "out"];
    let import = [&import[..], &["--pose-column", "observation.camera_pose"]].concat();
    for from_end in [1340, 1241, 1145, 1031] {
        let mut bytes = whole.clone();
        bytes[whole.len() - from_end] = 255;
        std::fs::write(&table, bytes).expect("written");
        let output = far(folder.path(), &import);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains("the file is damaged") && message.contains("hint: "), "{message}");
        assert!(!message.contains("panicked"), "{message}");
    }
    assert!(!folder.path().join("out").exists());
}

#[test]
fn sources_without_poses_become_datasets_without_poses() {
    let folder = source("lerobot-v3");
    let import = ["data", "import", "lerobot", "source", "--out", "out", "--fov", "80"];
    let last = [&import[..], &["--return", "last:30%"]].concat();
    let output = far(folder.path(), &last);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let message = text(&output.stderr);
    assert!(message.contains("no camera poses"), "{message}");
    assert!(message.contains("--pose-column observation.camera_pose"), "{message}");
    let dataset = Dataset::open(&folder.path().join("out")).expect("opens");
    assert!(!dataset.description().poses);
    let output = far(folder.path(), &["data", "inspect", "out"]);
    assert!(text(&output.stdout).contains("the dataset has no poses"), "{}", text(&output.stderr));
    for wrong in ["nearest-pose", "worldmem"] {
        let arm = format!("arm.id={wrong}");
        let train = ["train", "--config", "quick", "--data", "out", "--out", wrong, "--set", &arm];
        let message = text(&far(folder.path(), &train).stderr);
        assert!(message.contains("poses") && message.contains(wrong), "{message}");
    }
    std::fs::remove_dir_all(folder.path().join("out")).expect("removed");
    let still = [&import[..], &["--still-camera"]].concat();
    let message = text(&far(folder.path(), &still).stderr);
    assert!(message.contains("no frame sees a place again: nothing to recall"), "{message}");
    let last = [&still[..], &["--return", "last:30%"]].concat();
    let output = far(folder.path(), &last);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn datasets_with_videos_are_decoded_once() {
    let folder = source("lerobot-v3");
    let video = fixtures().join("lerobot-v3/videos.txt");
    let video = std::fs::read_to_string(video).expect("there");
    let video = video.split(' ').next().expect("a path").to_owned();
    let data = folder.path().join("clips");
    let mut description = DatasetDescription::new("clips", 10.0, [32, 24], [80.0, 64.0]);
    description.images = ImageEncoding::Video;
    let writer = DatasetWriter::create(&data, description).expect("a recording");
    for id in 0..2 {
        let split = if id == 0 { Split::Train } else { Split::Test };
        let facts =
            EpisodeFacts { video: Some("walk.ppm".into()), ..EpisodeFacts::new("room", split, 0) };
        let mut episode = writer.episode(id, facts).expect("an episode");
        for (frame, pose) in truth().into_iter().take(12).enumerate() {
            let phase = if frame < 8 { Phase::Explore } else { Phase::Return };
            let image = FrameImage::VideoFrame(frame as u64);
            episode.push(Frame::new(frame as f64 / 10.0, pose, phase, image)).expect("a frame");
        }
        episode.finish().expect("an episode");
    }
    writer.finish().expect("a recording");
    std::fs::copy(folder.path().join("source").join(video), data.join("walk.ppm")).expect("copied");
    let train =
        far(folder.path(), &["train", "--config", "quick", "--data", "clips", "--out", "run"]);
    let message = text(&train.stderr);
    let clips = folder.path().join("clips").canonicalize().expect("there");
    let hint = format!("far data import dataset {0} --out {0}-frames", clips.display());
    assert!(message.contains(&hint), "{message}");
    let import = ["data", "import", "dataset", "clips", "--out", "clips-frames"];
    let output = far(folder.path(), &import);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let dataset = Dataset::open(&folder.path().join("clips-frames")).expect("opens");
    assert_eq!(dataset.description().images, ImageEncoding::Png);
    for id in dataset.ids() {
        let episode = far_data::verify_episode(&dataset, id).expect("whole");
        assert_eq!((episode.len(), episode.boundary()), (12, 8));
        let due = std::fs::read(fixtures().join("pictures/005.png")).expect("there");
        let due = Picture::from_png(&due, [32, 24]).expect("a picture");
        assert_eq!(episode.picture(5).expect("a picture"), due);
    }
    assert_eq!(dataset.select(SplitRule::Episode, Split::Test).expect("parts"), [1]);
}

#[test]
fn a_dataset_becomes_a_store_and_goes_back() {
    let folder = source("frames-opencv");
    let import =
        ["data", "import", "frames", "source", "--out", "out", "--fov", "80", "--license", "CC0"];
    let output = far(folder.path(), &import);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("36 frames"), "{}", text(&output.stdout));
    let again = far(folder.path(), &import);
    assert!(text(&again.stdout).contains("1 kept from before"), "{}", text(&again.stdout));
    let inspected = far(folder.path(), &["data", "inspect", "out"]);
    assert!(
        text(&inspected.stdout).contains("% of the way forward"),
        "{}",
        text(&inspected.stdout)
    );
    let warning = text(&inspected.stderr);
    assert!(warning.contains("no episode has split \"test\""), "{warning}");
    let built = far(folder.path(), &["memory", "build", "out", "--out", "store", "--pictures"]);
    assert!(text(&built.stdout).contains("24 records of episode 0"), "{}", text(&built.stderr));
    assert!(far(folder.path(), &["memory", "verify", "store"]).status.success());
    // Sealed files are plain Arrow files, which others open.
    let sealed = folder.path().join("store/sealed-000000000000.arrow");
    let sealed = std::fs::File::open(sealed).expect("a sealed file");
    let sealed = arrow_ipc::reader::FileReader::try_new(sealed, None).expect("an Arrow file");
    let rows: usize = sealed.map(|batch| batch.expect("a batch").num_rows()).sum();
    assert_eq!(rows, 24);
    let stat = far(folder.path(), &["memory", "stat", "store"]);
    assert!(text(&stat.stdout).contains("pixels"), "{}", text(&stat.stdout));
    let refused = far(folder.path(), &["memory", "build", "out", "--out", "store"]);
    assert!(!refused.status.success() && text(&refused.stderr).contains("there already"));
    // A frame that cannot be read leaves no store behind.
    let file = folder.path().join("out/episodes/000000.arrow");
    let whole = std::fs::read(&file).expect("there");
    let header = whole.windows(4).rposition(|bytes| bytes == b"IHDR").expect("a picture");
    let mut broken = whole.clone();
    broken[header + 4..header + 8].fill(0xff);
    std::fs::write(&file, broken).expect("written");
    let refused = far(folder.path(), &["memory", "build", "out", "--out", "half", "--whole"]);
    assert!(!refused.status.success(), "{}", text(&refused.stdout));
    assert!(!folder.path().join("half").exists(), "{}", text(&refused.stderr));
    std::fs::write(&file, whole).expect("written");
    let exported = far(folder.path(), &["data", "export", "transforms", "out", "--out", "nerf"]);
    assert!(exported.status.success() && folder.path().join("nerf/transforms.json").is_file());
    let wrong = far(folder.path(), &["data", "import", "lerobo", "source", "--out", "x"]);
    assert!(text(&wrong.stderr).contains("seven-scenes"), "{}", text(&wrong.stderr));
}
