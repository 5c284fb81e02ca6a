//! Ctrl-C in every phase of every verb: status 130, a word on how to go on, and the same result after.
#![cfg(unix)]

use crate::program::{checkpoint, far, succeeds, text, tiny, village};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Starts a command, waits until a file or folder is there, interrupts, and returns what was said.
#[track_caller]
fn interrupt(mut command: Command, when: &Path) -> String {
    let mut child: Child = command.spawn().expect("far starts");
    let begun = Instant::now();
    while !when.exists() && begun.elapsed() < Duration::from_secs(120) {
        assert!(child.try_wait().expect("a child").is_none(), "it ended before {}", when.display());
        std::thread::sleep(Duration::from_millis(1));
    }
    // SAFETY: the child has not been waited for, so its number is its own.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) };
    let output = child.wait_with_output().expect("a child");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    said
}

const LONG: [&str; 2] = ["--set", "training.steps=100000"];

#[test]
fn training_stops_with_a_checkpoint_and_preparation_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    let said = interrupt(tiny("train", village(), &run, &LONG), &run.join("config.toml"));
    assert!(
        said.contains("run the same command again to resume") || said.contains("to resume:"),
        "{said}"
    );
    let said = interrupt(tiny("train", village(), &run, &LONG), &checkpoint(&run, 4));
    assert!(
        said.contains("stopped after step ") && said.contains("to resume:\n  far train"),
        "{said}"
    );
    assert!(!run.join("retrievers").exists(), "they are kept when all steps are made");
}

#[test]
fn an_evaluation_ends_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    succeeds(tiny("train", village(), &run, &["--set", "evaluation.sampler.steps=1000"]));
    let mut eval = far(["eval", "--steps", "1000"]);
    eval.arg(&run);
    let said = interrupt(eval, &run.join("results.lock"));
    assert!(said.contains("interrupted; run the same command again"), "{said}");
    assert!(!run.join("results.json").exists());
}

#[test]
fn a_recording_goes_on_after_it_was_interrupted() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let record = |episodes: &str| {
        let mut command = far(["world", "record", "--world", "village", "--size", "64"]);
        command.args(["--episodes", episodes, "--out"]).arg(&data);
        command
    };
    let said = interrupt(record("1000"), &data.join("episodes/000001.arrow"));
    assert!(said.contains("interrupted; run the same command again"), "{said}");
    let said = succeeds(record("4"));
    assert!(said.contains("kept from before"), "{said}");
}

#[test]
fn a_pretraining_keeps_its_updates() {
    let folder = tempfile::tempdir().expect("a folder");
    let [encoder, whole] = ["encoder", "whole"].map(|name| folder.path().join(name));
    let pretrain = |out: &Path, steps: &str| tiny("pretrain", village(), out, &["--steps", steps]);
    let said = interrupt(pretrain(&encoder, "100000"), &folder.path().join("encoder.lock"));
    // Before the first update there is nothing to keep.
    let kept = folder.path().join("encoder.partial");
    assert_eq!(kept.exists(), said.contains("stopped after update"), "{said}");
    let _ = std::fs::remove_file(&kept);
    succeeds(pretrain(&encoder, "30"));
    succeeds(pretrain(&whole, "30"));
    assert!(std::fs::read(&encoder).expect("made") == std::fs::read(&whole).expect("made"));
    succeeds(pretrain(&encoder, "30"));
}

#[test]
fn a_comparison_stops_while_it_trains_and_while_it_judges() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out");
    let arms = ["--arm", "random", "--arm", "none", "--set", "evaluation.sampler.steps=1000"];
    let long = [&arms[..], &LONG].concat();
    let said =
        interrupt(tiny("compare", village(), &out, &long), &checkpoint(&out.join("judge"), 4));
    assert!(said.contains("stopped; run the same command again to resume"), "{said}");
    let out = folder.path().join("judged");
    let said = interrupt(tiny("compare", village(), &out, &arms), &out.join("results.lock"));
    assert!(said.contains("interrupted; run the same command again"), "{said}");
    assert!(!out.join("results.json").exists());
}
