//! `far data` as a user runs it: output, exit status, hints.

use std::path::Path;
use std::process::{Command, Output};

use far_data::{
    DatasetDescription, DatasetWriter, EpisodeFacts, Frame, FrameImage, Phase, Picture, Signal,
    Split,
};
use far_memory::Pose;

/// Two episodes of a walk east and back; every frame sees the face of its meter.
fn record(folder: &Path) {
    let mut description = DatasetDescription::new("walk", 10.0, [16, 16], [90.0, 90.0]);
    description.signals = vec![Signal::Events, Signal::VisibleFaces];
    description.labels = vec!["wave".into()];
    let writer = DatasetWriter::create(folder, description).expect("begins");
    for id in 0..2 {
        let split = if id == 0 { Split::Train } else { Split::Test };
        let facts = EpisodeFacts::new("lane", split, u64::from(id));
        let mut episode = writer.episode(id, facts).expect("begins");
        for step in 0..40u32 {
            let (phase, meters) =
                if step < 20 { (Phase::Explore, step) } else { (Phase::Return, 40 - step) };
            let pose = Pose::from_yaw_pitch([meters as f32, 0.0, 1.6], 0.0, 0.0);
            let image = FrameImage::Pixels(Picture::filled(16, 16, [meters as u8 * 10, 80, 90]));
            let mut frame = Frame::new(f64::from(step) / 10.0, pose, phase, image);
            frame.visible_faces = vec![meters];
            frame.events = if step == 5 { vec![0] } else { vec![] };
            episode.push(frame).expect("written");
        }
        episode.finish().expect("ends");
    }
    writer.finish().expect("ends");
}

fn far(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_far")).args(arguments).output().expect("the program runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn verify_says_that_all_is_good_or_what_is_wrong() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("walk");
    record(&path);
    let shown = path.to_str().expect("text");
    let good = far(&["data", "verify", shown]);
    assert!(good.status.success());
    assert!(text(&good.stdout).contains("2 episodes, 80 frames, all good"));

    let file = path.join("episodes/000001.arrow");
    let bytes = std::fs::read(&file).expect("there");
    std::fs::write(&file, &bytes[..bytes.len() - 100]).expect("writable");
    let bad = far(&["data", "verify", shown]);
    assert_eq!(bad.status.code(), Some(1));
    let message = text(&bad.stderr);
    assert!(message.contains("000001.arrow is damaged"), "{message}");
    assert!(message.contains("1 of 2 episodes is wrong") && message.contains("\nhint: "));
    let json = far(&["data", "verify", shown, "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(report["problems"].as_array().map(Vec::len), Some(1));
}

#[test]
fn inspect_prints_shares_and_draws() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("walk");
    record(&path);
    let shown = path.to_str().expect("text");
    let output = far(&["data", "inspect", shown]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    // Meters 1 to 19 were seen on the way out, meter 20 was not: 38 of 40 return frames.
    for line in ["2 in 1 scene\n", "test 1, train 1", "80 (40 return)", "95.0 % of return frames"] {
        assert!(table.contains(line), "{table} should say {line}");
    }
    assert!(std::fs::read_to_string(path.join("inspect/map.svg")).expect("drawn").contains("wave"));
    assert!(path.join("inspect/contact-sheet.png").is_file());
    let json = far(&["data", "inspect", shown, "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(report["coverage"]["frames"], 40);
    assert_eq!(report["covered_share"], 0.95);
}

#[test]
fn a_folder_without_a_dataset_has_a_hint() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = far(&["data", "inspect", folder.path().to_str().expect("text")]);
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    assert!(message.contains("dataset.json is missing"), "{message}");
    assert!(message.contains("hint: give the folder that holds dataset.json"), "{message}");
}

/// Changes `dataset.json` by replacing one text by another.
fn describe(folder: &Path, from: &str, to: &str) {
    let path = folder.join("dataset.json");
    let before = std::fs::read_to_string(&path).expect("there");
    assert!(before.contains(from), "{from} is not in {before}");
    std::fs::write(&path, before.replacen(from, to, 1)).expect("writable");
}

/// What `far data verify` says of a dataset that was changed: exit status and messages.
fn verdict(change: impl FnOnce(&Path)) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("walk");
    record(&path);
    change(&path);
    let output = far(&["data", "verify", path.to_str().expect("text")]);
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

#[test]
fn verify_names_the_entry_of_dataset_json_that_is_wrong() {
    let cases = [
        ("\"vision\"", "\"visoin\"", "`cues[1]` is \"visoin\", which is neither built in"),
        ("\"vision\"", "\"audio\"", "`audio_rate` must say"),
        (
            "\"version\": 1,\n    \"seed\"",
            "\"version\": \"1.0\",\n    \"seed\"",
            "`generator.version`: ",
        ),
        ("16,\n    16", "16,\n    32", "`resolution` is [16, 32], but frames are 16 x 16"),
        ("\"png\"", "\"jpeg\"", "`images` says JPEG, but frames are PNG files"),
        ("\"fps\": 10.0", "\"fps\": 10000.0", "`fps` is 10000, so frames are 0.0001 s apart"),
    ];
    for (from, to, expected) in cases {
        let (status, message) = verdict(|path| describe(path, from, to));
        assert_eq!(status, Some(1), "{to}: {message}");
        assert!(message.contains(expected), "{to}: {message}");
        assert!(message.contains("hint: correct dataset.json"), "{to}: {message}");
    }
}

#[test]
fn verify_warns_where_nothing_tests() {
    let folder = tempfile::tempdir().expect("a folder");
    let description = DatasetDescription::new("walk", 10.0, [8, 8], [90.0, 90.0]);
    let writer = DatasetWriter::create(folder.path(), description).expect("begins");
    let mut episode =
        writer.episode(0, EpisodeFacts::new("lane", Split::Train, 0)).expect("begins");
    for step in 0..8 {
        let image = FrameImage::Pixels(Picture::filled(8, 8, [9, 9, 9]));
        let phase = if step < 4 { Phase::Explore } else { Phase::Return };
        let pose = Pose::from_yaw_pitch([step as f32, 0.0, 1.6], 0.0, 0.0);
        episode.push(Frame::new(f64::from(step) / 10.0, pose, phase, image)).expect("written");
    }
    episode.finish().expect("ends");
    writer.finish().expect("ends");
    let output = far(&["data", "verify", folder.path().to_str().expect("text")]);
    assert!(output.status.success());
    assert!(text(&output.stderr).contains("warning: no episode has split \"test\""));
    assert!(text(&output.stdout).contains(": 1 episode, 8 frames, no rule broken, 1 warning"));
}

/// Writes one walk around a bend whose pictures show directions, with rotations as `stored` makes them.
fn record_turning(folder: &Path, stored: fn([f32; 4]) -> [f32; 4]) {
    let description = DatasetDescription::new("bend", 10.0, [48, 48], [90.0, 90.0]);
    let writer = DatasetWriter::create(folder, description).expect("begins");
    for (id, split) in [(0, Split::Train), (1, Split::Test)] {
        let mut episode = writer.episode(id, EpisodeFacts::new("lane", split, 0)).expect("begins");
        let mut position = [0.0f32, 0.0, 1.6];
        for step in 0..80u16 {
            let yaw = 0.07 * f32::from(step);
            position[0] += 0.1 * yaw.cos();
            position[1] += 0.1 * yaw.sin();
            let mut pose = Pose::from_yaw_pitch(position, yaw, 0.2 * (0.3 * f32::from(step)).sin());
            // A distant panorama: the color of a pixel is the direction that it looks in.
            let mut picture = Picture::filled(48, 48, [0; 3]);
            for (y, x) in (0..48).flat_map(|y| (0..48).map(move |x| (y, x))) {
                let (right, down) = ((x as f32 - 23.5) / 24.0, (y as f32 - 23.5) / 24.0);
                let [ahead, under] = [pose.forward(), pose.down()];
                let beside = [
                    under[1] * ahead[2] - under[2] * ahead[1],
                    under[2] * ahead[0] - under[0] * ahead[2],
                    under[0] * ahead[1] - under[1] * ahead[0],
                ];
                let ray: [f32; 3] = std::array::from_fn(|axis| {
                    ahead[axis] + right * beside[axis] + down * under[axis]
                });
                let length = ray.iter().map(|part| part * part).sum::<f32>().sqrt();
                let shade = |part: f32| (127.5 + 127.5 * (4.0 * part / length).sin()) as u8;
                picture.set_pixel(x, y, ray.map(shade));
            }
            pose.rotation = stored(pose.rotation);
            let phase = if step < 50 { Phase::Explore } else { Phase::Return };
            let frame =
                Frame::new(f64::from(step) / 10.0, pose, phase, FrameImage::Pixels(picture));
            episode.push(frame).expect("written");
        }
        episode.finish().expect("ends");
    }
    writer.finish().expect("ends");
}

#[test]
fn verify_names_rotations_in_another_convention() {
    let folder = tempfile::tempdir().expect("a folder");
    type Stored = fn([f32; 4]) -> [f32; 4];
    let cases: [(&str, Stored, &str); 3] = [
        ("right", |rotation| rotation, "all good"),
        ("xyzw", |[w, x, y, z]| [x, y, z, w], "quaternions in the order xyzw"),
        ("identity", |_| [1.0, 0.0, 0.0, 0.0], "a camera that looks straight up"),
    ];
    for (name, stored, expected) in cases {
        let path = folder.path().join(name);
        record_turning(&path, stored);
        let path = path.to_str().expect("text");
        let output = far(&["data", "verify", path]);
        let message = text(&output.stdout) + &text(&output.stderr);
        assert!(message.contains(expected), "{name}: {message}");
        assert_eq!(output.status.success(), name == "right", "{name}: {message}");
        if name == "identity" {
            assert!(
                message.contains("hint: write `rotation` as docs/dataset.md says"),
                "{message}"
            );
            assert!(far(&["data", "verify", path, "--trust-poses"]).status.success());
        }
    }
}

/// A flipped byte that puts one frame far away used to keep `inspect` busy for minutes.
#[test]
fn a_position_far_away_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("walk");
    record(&path);
    let file = path.join("episodes/000000.arrow");
    let mut bytes = std::fs::read(&file).expect("there");
    // The position (7, 0, 1.6) of frame 7, whose x becomes 1e30.
    let place = [7.0f32, 0.0, 1.6].map(f32::to_le_bytes).concat();
    let at = bytes.windows(12).position(|window| window == place).expect("frame 7");
    bytes[at..at + 4].copy_from_slice(&1e30f32.to_le_bytes());
    std::fs::write(&file, bytes).expect("writable");
    for verb in ["verify", "inspect"] {
        let output = far(&["data", verb, path.to_str().expect("text")]);
        assert_eq!(output.status.code(), Some(1));
        let message = text(&output.stderr);
        let expected =
            "episode 0, row 7, column `position`: [1e30, 0.0, 1.6] is more than 1,000 km";
        assert!(message.contains(expected), "{verb}: {message}");
    }
}

/// Texts and bytes with 64-bit offsets, as polars writes them.
#[test]
fn large_strings_and_binaries_are_read() {
    use arrow_array::cast::AsArray;
    use arrow_array::{Array, ArrayRef, LargeBinaryArray, LargeStringArray, RecordBatch};
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("walk");
    record(&path);
    let files = ["episodes.arrow", "episodes/000000.arrow", "episodes/000001.arrow"];
    for file in files.map(|file| path.join(file)) {
        let reader = std::fs::File::open(&file).expect("there");
        let reader = arrow_ipc::reader::FileReader::try_new(reader, None).expect("a table");
        let batches: Vec<RecordBatch> = reader.map(|batch| batch.expect("a batch")).collect();
        let widened = batches.iter().map(|batch| {
            let schema = batch.schema();
            let columns = schema.fields().iter().zip(batch.columns()).map(|(field, column)| {
                let column: ArrayRef = match column.data_type() {
                    arrow_schema::DataType::Utf8 => {
                        let texts: LargeStringArray = column.as_string::<i32>().iter().collect();
                        std::sync::Arc::new(texts)
                    }
                    arrow_schema::DataType::Binary => {
                        let bytes: LargeBinaryArray = column.as_binary::<i32>().iter().collect();
                        std::sync::Arc::new(bytes)
                    }
                    _ => column.clone(),
                };
                // The hashes of the files no longer hold.
                let hash = field.name().ends_with("hash");
                (field.name().clone(), if hash { column.slice(0, 0) } else { column }, true)
            });
            let columns = columns.filter(|(_, column, _)| column.len() == batch.num_rows());
            RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length")
        });
        let widened: Vec<RecordBatch> = widened.collect();
        let out = std::fs::File::create(&file).expect("writable");
        let schema = widened[0].schema();
        let mut writer = arrow_ipc::writer::FileWriter::try_new(out, &schema).expect("begins");
        widened.iter().for_each(|batch| writer.write(batch).expect("written"));
        writer.finish().expect("ends");
    }
    let output = far(&["data", "verify", path.to_str().expect("text")]);
    let message = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success() && message.contains("all good"), "{message}");
}

#[test]
fn two_recordings_into_one_folder_do_not_mix() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("village");
    let record =
        ["world", "record", "--world", "village", "--episodes", "2", "--size", "16", "--out"];
    let record = |out: &Path| far(&[&record[..], &[out.to_str().expect("text")]].concat());
    assert!(record(&out).status.success());
    let description = std::fs::read(out.join("dataset.json")).expect("there");
    let description = DatasetDescription::parse(&description, Path::new("dataset.json"));
    let writer = DatasetWriter::create(&out, description.expect("valid")).expect("not locked");
    let second = record(&out);
    assert_eq!(second.status.code(), Some(1));
    let message = text(&second.stderr);
    assert!(message.contains("is being written by process"), "{message}");
    assert!(message.contains("hint: wait until it has finished"), "{message}");
    drop(writer);
    assert!(record(&out).status.success(), "the lock is gone with its holder");
    assert!(far(&["data", "verify", out.to_str().expect("text")]).status.success());
}
