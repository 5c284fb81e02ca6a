//! `far memory` as a user sees it: exit status, standard output, standard error.

use far_memory::store::{LocalDisk, Store, StoreOptions};
use far_memory::{Cue, Observation, Pose, Schema};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// What a run of the program gave.
struct Outcome {
    status: i32,
    stdout: String,
    stderr: String,
}

fn far(arguments: &[&str], path: &Path) -> Outcome {
    let output = Command::new(env!("CARGO_BIN_EXE_far"))
        .arg("memory")
        .args(arguments)
        .arg(path)
        .output()
        .expect("the program runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    let status = output.status.code().expect("an exit status");
    Outcome { status, stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// A store of seven records, four of them sealed.
fn store(folder: &Path) -> PathBuf {
    let path = folder.join("robot.memory");
    let disk = LocalDisk::create(&path).expect("a folder");
    let cues = vec![Cue::metadata("meta"), Cue::key("vision", 2), Cue::half_key("sound", 2)];
    let options = StoreOptions { seal_records: 4, ..StoreOptions::default() };
    let schema = Schema::new(cues).expect("valid");
    let mut store = Store::open_or_create_on(Arc::new(disk), &schema, options).expect("a store");
    for id in 0..7u8 {
        let pose = Pose::from_yaw_pitch([f32::from(id), -1.0, 1.5], 0.5, 0.0);
        let mut observation = Observation::new(f64::from(id) * 0.5, pose);
        if id % 2 == 0 {
            observation = observation.with_key("vision", &[0.6, 0.8]);
        }
        let bytes = [id; 3];
        observation = match id {
            0 | 1 => observation.with_bytes(&bytes),
            2 => observation.with_reference("video.mp4#2, \"second\""),
            _ => observation,
        };
        store.append(&observation).expect("appended");
    }
    store.close().expect("closed");
    path
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn stat_counts_what_is_there() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = store(folder.path());
    let plain = far(&["stat"], &path);
    assert_eq!((plain.status, plain.stderr.as_str()), (0, ""));
    let has = |line: &str| assert!(plain.stdout.contains(line), "{line:?} in\n{}", plain.stdout);
    has("records    7\n");
    has("sealed     4 records, ");
    has(" (files: 1)\n");
    has("log        3 records, ");
    has("time       0.000 to 3.000 s\n");
    has("x          0.000 to 6.000 m\n");
    has("payloads   2 with bytes (6 B), 1 by reference\n");
    has("vision           2 × 32 bit       4 (57.1 %)\n");
    has("sound            2 × 16 bit       0 (0.0 %)\n");

    let found = parsed(&far(&["stat", "--json"], &path).stdout);
    assert_eq!(found["records"], 7);
    assert_eq!((&found["sealed"]["records"], &found["log"]["torn_bytes"]), (&json!(4), &json!(0)));
    assert_eq!(found["time"], json!([0.0, 3.0]));
    assert_eq!(found["position"][0], json!([0.0, 6.0]));
    assert_eq!(found["payloads"], json!({ "bytes": 2, "total_bytes": 6, "references": 1 }));
    let vision = json!(
        { "name": "vision", "kind": "key", "dimension": 2, "bits": 32, "present": 4 }
    );
    assert_eq!(found["cues"][1], vision);
}

#[test]
fn verify_passes_a_whole_store_and_names_the_damaged_file() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = store(folder.path());
    let whole = far(&["verify"], &path);
    assert_eq!((whole.status, whole.stderr.as_str()), (0, ""));
    assert_eq!(whole.stdout.matches("sound").count(), 3, "{}", whole.stdout);

    let sealed = path.join("sealed-000000000000.arrow");
    let mut bytes = std::fs::read(&sealed).expect("sealed");
    bytes[1000] ^= 1;
    std::fs::write(&sealed, bytes).expect("damaged");
    let damaged = far(&["verify"], &path);
    assert_eq!(damaged.status, 1);
    assert!(damaged.stdout.contains("sealed-000000000000.arrow is damaged at byte 0"));
    assert!(damaged.stderr.contains("error: 1 of 3 files are damaged"), "{}", damaged.stderr);
    assert!(damaged.stderr.contains("\nhint: restore"), "{}", damaged.stderr);
    let found = parsed(&far(&["verify", "--json"], &path).stdout);
    assert_eq!((&found["sound"], &found["records"]), (&json!(false), &json!(3)));
    assert_eq!(
        (&found["files"][1]["sound"], &found["files"][1]["offset"]),
        (&json!(false), &json!(0))
    );
    let refused = far(&["stat"], &path);
    assert_eq!(refused.status, 1);
    assert!(refused.stderr.contains("hint: `far memory verify PATH`"), "{}", refused.stderr);
}

#[test]
fn export_writes_arrow_json_lines_and_csv() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = store(folder.path());
    let lines = far(&["export", "--out", "-", "--format", "jsonl", "--from", "1"], &path);
    let lines: Vec<Value> = lines.stdout.lines().map(parsed).collect();
    assert_eq!(lines.len(), 6);
    assert_eq!(lines[0]["payload"], "AQEB");
    assert_eq!(lines[0]["keys"], json!({}));
    assert_eq!(lines[1]["reference"], "video.mp4#2, \"second\"");
    assert_eq!(lines[1]["keys"]["vision"].to_string(), "[0.6,0.8]");
    assert_eq!(lines[1]["position"], json!([2.0, -1.0, 1.5]));

    let table = far(&["export", "--out", "-", "--format", "csv", "--to", "3"], &path).stdout;
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(rows.len(), 4);
    assert!(rows[0].starts_with("id,time,x,y,z,rotation_w,"), "{}", rows[0]);
    assert!(rows[1].starts_with("0,0.0,0.0,-1.0,1.5,") && rows[1].ends_with(",3,"), "{}", rows[1]);
    assert!(rows[3].ends_with(",,\"video.mp4#2, \"\"second\"\"\""), "{}", rows[3]);

    let output = folder.path().join("out.arrow");
    let done = far(&["export", "--out", output.to_str().expect("text")], &path);
    assert_eq!((done.status, done.stdout.as_str()), (0, ""));
    let bytes = std::fs::read(&output).expect("written");
    assert!(bytes.starts_with(b"ARROW1") && bytes.ends_with(b"ARROW1"));
    assert!(!folder.path().join("out.arrow.part").exists());
}

#[test]
fn mistakes_are_explained() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = store(folder.path());
    let nowhere = far(&["stat"], &folder.path().join("nowhere"));
    assert_eq!(nowhere.status, 1);
    assert!(nowhere.stderr.contains("there is no memory store in"), "{}", nowhere.stderr);
    assert!(nowhere.stderr.contains("hint: a store is a folder"), "{}", nowhere.stderr);
    let unclear = far(&["export", "--out", "out.txt"], &path);
    assert!(unclear.stderr.contains("hint: add --format arrow"), "{}", unclear.stderr);
    let beyond = far(&["export", "--out", "-", "--format", "csv", "--to", "8"], &path);
    assert!(beyond.stderr.contains("hint: the store holds the ids 0 to 7"), "{}", beyond.stderr);
}
