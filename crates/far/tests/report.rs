//! `far report` as a user runs it.

use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};

fn far_report(arguments: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_far")).arg("report").args(arguments).output().unwrap()
}

fn write_results(run: &Path) {
    let interval = json!({ "mean": 17.2, "lo": 17.0, "hi": null });
    let arms = json!({ "far-multi": { "psnr": interval }, "none": {} });
    let results = json!({ "corpus": "village", "clips": 24, "seed": 0, "device": "cpu",
        "train_seconds": null, "judge": "common", "slots": 3, "arms": arms });
    std::fs::create_dir_all(run).unwrap();
    std::fs::write(run.join("results.json"), results.to_string()).unwrap();
}

#[test]
fn the_page_lies_in_the_run_and_its_path_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("demo");
    write_results(&run);
    let output = far_report(&[&run]);
    let notes = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{notes}");
    assert!(notes.contains("has no replays"), "{notes}");
    let path = String::from_utf8(output.stdout).unwrap();
    assert_eq!(Path::new(path.trim_end()), run.join("report/index.html"));
    let page = std::fs::read_to_string(path.trim_end()).unwrap();
    assert!(page.contains("far-multi") && page.contains("17.20"));
}

#[test]
fn several_runs_share_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    write_results(&first);
    write_results(&second);
    let page = folder.path().join("pages/both.html");
    let (out, json) = (Path::new("--out"), Path::new("--json"));
    let output = far_report(&[&first, &second, out, &page, json]);
    assert!(output.status.success());
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["page"], page.to_str().unwrap());
    assert_eq!(printed["summaries"].as_array().unwrap().len(), 2);
    let page = std::fs::read_to_string(page).unwrap();
    assert_eq!(printed["bytes"], page.len());
    assert!(page.contains("\"first\"") && page.contains("\"second\""));
}

#[test]
fn what_is_missing_or_wrong_is_said_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let fails = |run: &Path| {
        let output = far_report(&[run]);
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let message = fails(&folder.path().join("nowhere"));
    assert!(message.contains("there is no run in") && message.contains("hint: give the folder"));
    let message = fails(folder.path());
    assert!(message.contains("results.json is missing"), "{message}");
    assert!(message.contains("hint: run `far eval "), "{message}");
    write_results(folder.path());
    std::fs::create_dir(folder.path().join("replays")).unwrap();
    std::fs::write(folder.path().join("replays/000001.json"), "{").unwrap();
    let message = fails(folder.path());
    assert!(message.contains("000001.json: not a replay"), "{message}");
}
