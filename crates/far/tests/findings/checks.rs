//! What is found out first: absurd sizes, and everything that `far train --check` says.

use crate::program::{fails, far, succeeds, tiny, village};
use serde_json::Value;

#[test]
fn absurd_sizes_are_refused_with_the_figure() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    for (set, in_parts) in [
        ("training.slots=100000000", true),
        ("world_model.width=1000000", false),
        ("data.batch=100000000", true),
        ("evaluation.slots=100000000", false),
    ] {
        let message = fails(tiny("train", village(), &run, &["--set", set]), 2);
        assert!(message.contains("B of memory, and "), "{set}: {message}");
        assert_eq!(message.contains("training.micro_batches"), in_parts, "{set}: {message}");
        assert!(!run.exists(), "{set}");
    }
    succeeds(tiny("train", village(), &run, &[]));
    let mut eval = far(["eval", "--slots", "100000000"]);
    eval.arg(&run);
    let message = fails(eval, 2);
    assert!(message.contains("memories per prediction (--slots)"), "{message}");
    assert!(message.ends_with("hint: give fewer --slots\n"), "{message}");
}

#[test]
fn a_check_says_what_a_run_would_be_and_writes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    let said = succeeds(tiny("train", village(), &run, &["--check"]));
    for part in
        ["8 training episodes, 2 test clips", "parameters", "memory", "time", "checkpoints of"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(said.contains("to train:\n  far train --config quick"), "{said}");
    assert!(!run.exists());
    succeeds(tiny("train", village(), &run, &["--set", "training.steps=2"]));
    let json = succeeds(tiny("train", village(), &run, &["--check", "--json"]));
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((&json["resumes_from"], &json["steps"]), (&2.into(), &6.into()));
    assert!(json["memory_bytes"].as_f64().is_some_and(|bytes| bytes > 0.0), "{json}");
    fails(tiny("train", village(), &run, &["--check", "--set", "training.seed=3"]), 1);
}
