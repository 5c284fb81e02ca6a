//! `far pretrain` as a user runs it, on a few small walks.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn far(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_far")).args(arguments).output().unwrap()
}

fn pretrain(data: &Path, out: &Path, more: &[&str]) -> Output {
    let (data, out) = (data.to_str().unwrap(), out.to_str().unwrap());
    let tiny = ["pretrain", "--config", "quick", "--steps", "4", "--set", "encoder.width=16"];
    far(&[&tiny, &["--data", data, "--out", out, "--json"][..], more].concat())
}

fn village(folder: &Path) {
    let arguments = ["world", "record", "--world", "village", "--episodes", "5", "--size", "32"];
    let output = far(&[&arguments, &["--out", folder.to_str().unwrap()][..]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn an_encoder_is_written_once_and_is_the_same_for_the_same_seed() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("village");
    village(&data);
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    for out in [&first, &second] {
        let output = pretrain(&data, out, &[]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["steps"], 4);
        assert!(report["held_out"]["queries"].as_u64().unwrap() > 0, "{report}");
        assert!(!out.with_file_name("first.partial").exists());
    }
    assert_eq!(std::fs::read(&first).unwrap(), std::fs::read(&second).unwrap());

    assert!(pretrain(&data, &first, &[]).status.success(), "it is finished already");
    let again = pretrain(&data, &first, &["--seed", "3"]);
    let message = String::from_utf8_lossy(&again.stderr);
    assert!(!again.status.success() && message.contains("already exists"), "{message}");
    assert!(pretrain(&data, &first, &["--fresh", "--seed", "3"]).status.success());
    assert_ne!(std::fs::read(&first).unwrap(), std::fs::read(&second).unwrap());
}

#[test]
fn mistakes_are_one_line_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("encoder");
    let message = |output: Output, status: i32| {
        assert_eq!(output.status.code(), Some(status));
        String::from_utf8(output.stderr).unwrap()
    };
    let missing = message(pretrain(&folder.path().join("nowhere"), &out, &[]), 1);
    assert!(missing.contains("dataset.json") && missing.contains("hint:"), "{missing}");
    let unknown = message(pretrain(folder.path(), &out, &["--set", "encoder.widht=8"]), 2);
    assert!(unknown.contains("`encoder.width`") && unknown.contains("hint:"), "{unknown}");
    let heads = message(pretrain(folder.path(), &out, &["--set", "encoder.heads=3"]), 2);
    assert!(heads.contains("encoder.heads") && heads.contains("hint:"), "{heads}");
}
