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
        let facts = EpisodeFacts::new("lane", Split::Train, u64::from(id));
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
    assert!(message.contains("1 of 2 episodes are wrong") && message.contains("\nhint: "));
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
    for line in ["2 in 1 scenes", "train 2", "80 (40 return)", "95.0 % of return frames"] {
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
