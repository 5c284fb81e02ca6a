//! The dataset: runs are judged on grown and on other data, from every working directory.

use crate::program::{fails, far, record, succeeds, tiny, village};
use serde_json::Value;

#[test]
fn a_run_is_judged_on_grown_and_on_other_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let [data, other, run] = ["data", "other", "run"].map(|name| folder.path().join(name));
    record(&data, 10, 0);
    succeeds(tiny("train", &data, &run, &[]));
    record(&data, 20, 0);
    record(&other, 10, 7);
    let clips = |more: &[&str]| {
        let mut command = far(["eval", "--json", "--clips", "100"]);
        command.arg(&run).args(more);
        let results: Value = serde_json::from_str(&succeeds(command)).expect("JSON");
        assert!(results["arms"]["far-multi"]["psnr"]["mean"].is_number());
        results["clips"].as_u64().expect("a number")
    };
    assert_eq!(clips(&[]), 4, "a fifth of the grown data is held out");
    assert_eq!(clips(&["--data", other.to_str().expect("a plain path")]), 2);
    // Training goes on with the grown data as well.
    succeeds(tiny("train", &data, &run, &[]));
    succeeds(tiny("train", &data, &run, &["--set", "training.steps=8"]));
}

#[test]
fn runs_are_judged_from_another_directory_and_after_the_data_moved() {
    let folder = tempfile::tempdir().expect("a folder");
    record(&folder.path().join("data"), 10, 0);
    let mut train = tiny("train", "data".as_ref(), "run".as_ref(), &[]);
    train.current_dir(folder.path());
    succeeds(train);
    let eval = || {
        let mut command = far(["eval", "--steps", "0"]);
        command.arg(folder.path().join("run")).current_dir("/");
        command
    };
    succeeds(eval());
    let moved = folder.path().join("moved");
    std::fs::rename(folder.path().join("data"), &moved).expect("moved");
    let message = fails(eval(), 1);
    assert!(
        message.contains("hint: if the dataset has moved, give its folder with --data"),
        "{message}"
    );
    let mut there = eval();
    there.arg("--data").arg(&moved);
    succeeds(there);
    succeeds(tiny("train", &moved, &folder.path().join("run"), &["--set", "training.steps=8"]));
    succeeds(eval());
}

#[test]
fn without_held_out_episodes_nothing_is_trained_in_vain() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    let none = ["--set", "evaluation.split=validation", "--set", "training.evaluate_every=2"];
    let message = fails(tiny("train", village(), &run, &none), 1);
    assert!(message.contains("no validation episode that explores and returns"), "{message}");
    assert!(message.contains("training.evaluate_every=0"), "{message}");
    assert!(!run.exists());
    let message = fails(tiny("compare", village(), &run, &none), 1);
    assert!(message.contains("no validation episode"), "{message}");
    assert!(!run.exists());
}

/// Frames of 32 × 32 pixels, which no preset needs to know.
#[test]
fn tokenizers_are_compared_at_the_frames_own_size() {
    let mut command =
        far(["tokenizer", "compare", "--kind", "patch-pca", "--frames", "4", "--json"]);
    command.arg("--data").arg(village());
    command.args(["--set", "tokenizer.patch_pca.frames=100"]);
    let line: Value = serde_json::from_str(&succeeds(command)).expect("JSON");
    assert!(line["psnr"].as_f64().is_some_and(|psnr| psnr > 10.0), "{line}");
}
