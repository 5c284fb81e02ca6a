//! What a kill leaves unfinished goes with the next command that writes there.

use crate::program::{fails, far, record, succeeds, tiny, village};
use std::path::{Path, PathBuf};
use std::process::Command;

fn leave(folder: &Path, names: &[&str]) -> Vec<PathBuf> {
    let leave = |name: &&str| {
        let path = folder.join(name);
        std::fs::write(&path, b"half").expect("written");
        path
    };
    names.iter().map(leave).collect()
}

#[track_caller]
fn all_gone(paths: &[PathBuf]) {
    let left: Vec<_> = paths.iter().filter(|path| path.exists()).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Names as real kills left them.
#[test]
fn runs_evaluations_and_encoders_are_tidied_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    succeeds(tiny("train", village(), &run, &[]));
    let unfinished = [".tmpAb12Cd", "tokenizer.safetensors.4711.partial", "config.toml.partial"];
    let step = ["step-000000004.safetensors.partial.4711.partial", ".tmpzZ9qwe"];
    let mut left = leave(&run, &unfinished);
    left.extend(leave(&run.join("checkpoints"), &step));
    succeeds(tiny("train", village(), &run, &[]));
    all_gone(&left);

    let eval = || {
        let mut eval = far(["eval", "--no-rules"]);
        eval.arg(&run);
        eval
    };
    succeeds(eval());
    let left = leave(&run.join("replays"), &["replay-000099.json.partial"]);
    succeeds(eval());
    all_gone(&left);

    let encoder = folder.path().join("encoder");
    let left = leave(folder.path(), &["encoder.4711.partial", "encoder.partial.4711.partial"]);
    let others = leave(folder.path(), &[".tmpAb12Cd", "encoder.b.4711.partial"]);
    succeeds(tiny("pretrain", village(), &encoder, &[]));
    all_gone(&left);
    assert!(others.iter().all(|path| path.exists()), "the folder is not the encoder's alone");
}

#[test]
fn datasets_and_their_caches_are_tidied_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    record(&data, 10, 0);
    let mut left = leave(&data.join("episodes"), &["000099.arrow.partial", "000099.wav.partial"]);
    left.extend(leave(&data, &["episodes.arrow.partial", "dataset.json.4711-0.partial"]));
    record(&data, 11, 0);
    all_gone(&left);

    succeeds(tiny("train", &data, &folder.path().join("run"), &[]));
    let caches = std::fs::read_dir(data.join("cache")).expect("caches");
    let caches: Vec<PathBuf> = caches.map(|entry| entry.expect("an entry").path()).collect();
    assert!(!caches.is_empty());
    let mut left = Vec::new();
    for cache in &caches {
        left.extend(leave(cache, &["000003-0123456789abcdef.safetensors.4711-8.partial"]));
    }
    // One more episode is encoded by the same tokenizer and encoder.
    record(&data, 12, 0);
    succeeds(tiny("train", &data, &folder.path().join("run"), &["--set", "training.steps=8"]));
    all_gone(&left);
}

fn train_tokenizer(data: &Path, out: &Path, more: &[&str]) -> Command {
    let mut command = far(["tokenizer", "train", "--steps", "1", "--batch", "1"]);
    command.arg("--data").arg(data).arg("--out").arg(out).args(more);
    command
}

#[test]
fn a_tokenizer_that_cannot_be_trained_again_is_not_discarded() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("own");
    let state = leave(folder.path(), &["own.partial"]);
    let nowhere = folder.path().join("nowhere");
    let message = fails(train_tokenizer(&nowhere, &out, &["--fresh"]), 1);
    assert!(message.contains("nowhere"), "{message}");
    assert!(state[0].exists(), "nothing is deleted before all is valid");
    let left = leave(folder.path(), &["own.4711.partial"]);
    succeeds(train_tokenizer(village(), &out, &["--fresh"]));
    all_gone(&[state, left].concat());
    let message = fails(train_tokenizer(village(), &out, &[]), 1);
    assert!(message.contains("already exists") && message.contains("--fresh"), "{message}");
}

#[test]
fn one_process_trains_a_tokenizer() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("own");
    let held = std::fs::File::create(folder.path().join("own.lock")).expect("made");
    held.try_lock().expect("free");
    let message = fails(train_tokenizer(village(), &out, &[]), 1);
    assert!(message.contains("is in use by process"), "{message}");
    drop(held);
    succeeds(train_tokenizer(village(), &out, &[]));
}
