//! `far export` as a user runs it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn export(run: &Path, more: &[&Path]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_far"));
    command.args(["export", "tensorboard"]).arg(run).args(more).output().expect("far starts")
}

/// Event files below a folder, by their folders' names relative to it.
fn event_files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().contains("tfevents") {
                let place = next.strip_prefix(folder).expect("below").to_path_buf();
                found.push((place, std::fs::read(&path).expect("readable")));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn every_retriever_and_every_arm_is_a_run_of_tensorboard() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("demo");
    std::fs::create_dir_all(run.join("arms/worldmem")).unwrap();
    let retriever = |arm: &str| {
        format!("{{\"kind\":\"retriever\",\"step\":2,\"arm\":\"{arm}\",\"loss\":0.25}}\n")
    };
    let lines = "{\"kind\":\"step\",\"step\":1,\"loss\":0.5}\n".to_owned();
    let log = lines.clone() + &retriever("far-multi") + &retriever("far-meta");
    std::fs::write(run.join("metrics.jsonl"), log).unwrap();
    std::fs::write(run.join("arms/worldmem/metrics.jsonl"), lines).unwrap();

    let output = export(&run, &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("(4 runs)") && told.contains("tensorboard --logdir"), "{told}");
    let files = event_files(&run.join("tensorboard"));
    let places: Vec<&Path> = files.iter().map(|(place, _)| place.as_path()).collect();
    let expected = ["demo", "demo/far-meta", "demo/far-multi", "worldmem"];
    assert_eq!(places, expected.map(Path::new));
    for (place, bytes) in &files {
        assert!(bytes.windows(13).any(|part| part == b"brain.Event:2"), "{place:?}");
        let tag: &[u8] =
            if place.parent() == Some(Path::new("demo")) { b"retriever/loss" } else { b"loss" };
        assert!(bytes.windows(tag.len()).any(|part| part == tag), "{place:?}");
    }

    let again = export(&run, &[]);
    assert!(again.status.success());
    assert_eq!(event_files(&run.join("tensorboard")), files, "a later export replaces this one");
}

#[test]
fn a_folder_without_curves_is_refused_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let output = export(folder.path(), &[Path::new("--out"), &out]);
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("no training curves") && message.contains("hint:"), "{message}");
    assert!(!out.exists(), "nothing is made");
}
