//! `far world record` as a user runs it, interrupted and resumed.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn far(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_far"));
    command
        .args("world record --world corridor --episodes 24 --size 16 --seed 3 --json".split(' '));
    command.arg("--out").arg(folder).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn finished(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder.join("episodes")) else { return 0 };
    let names = entries.flatten().map(|entry| entry.file_name());
    names.filter(|name| name.to_string_lossy().ends_with(".arrow")).count()
}

fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder.join("episodes")).unwrap().flatten();
    let files = entries.map(|entry| {
        (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).unwrap())
    });
    files.collect()
}

#[test]
fn a_killed_recording_goes_on_and_ends_with_the_same_bytes() {
    let (whole, broken) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    assert!(far(whole.path()).output().unwrap().status.success());

    let mut child = far(broken.path()).spawn().unwrap();
    let patience = Instant::now();
    while finished(broken.path()) == 0 && patience.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let kept = finished(broken.path());
    assert!(kept > 0, "at least one episode was complete when the recording was killed");

    let output = far(broken.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["kept"].as_u64(), Some(kept as u64), "finished episodes are not redone");
    assert!(contents(whole.path()) == contents(broken.path()), "the bytes are the same");
}

#[test]
fn an_unknown_world_is_refused_with_the_known_ones() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_far"))
        .args(["world", "record", "--world", "atlantis", "--episodes", "1", "--out"])
        .arg(folder.path())
        .output()
        .unwrap();
    assert!(!output.status.success());
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("atlantis") && message.contains("village"), "{message}");
}
