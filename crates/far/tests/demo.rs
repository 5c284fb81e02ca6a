//! The demonstration as a user runs it, on few walks.

use far_memory::Retriever;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn demo(folder: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_far"))
        .args(["demo", "--quick", "--episodes", "10", "--out"])
        .arg(folder)
        .args(more)
        .output()
        .unwrap()
}

#[test]
fn the_quick_demo_learns_judges_and_writes_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let run = || {
        let output = demo(folder.path(), &["--json"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["common"].clone()
    };
    let first = run();
    let arms = first["arms"].as_object().unwrap();
    for id in
        ["far-multi", "far-meta", "worldmem", "longlive-rag", "nearest-pose", "i3dm", "oracle"]
    {
        let quality = arms[id]["recall_quality"]["mean"].as_f64();
        assert!(quality.is_some_and(f64::is_finite), "{id}");
        let psnr = arms[id]["psnr"]["mean"].as_f64().unwrap();
        assert!((5.0..40.0).contains(&psnr), "{id}: {psnr}");
    }
    assert!(arms["none"].get("recall_quality").is_none(), "nothing recalled has no quality");
    assert_eq!(arms.len(), 2 + 18 + 4, "learned arms, every published rule, controls");
    let [shown, ceiling] = ["far-multi", "tokenizer"].map(|arm| &arms[arm]["faces_shown"]["mean"]);
    assert!(shown.as_f64().unwrap() <= ceiling.as_f64().unwrap(), "{shown} {ceiling}");
    let difference = arms["far-multi"]["psnr"]["mean"].as_f64().unwrap()
        - arms["worldmem"]["psnr"]["mean"].as_f64().unwrap();
    let paired = first["paired"]["far-multi"]["worldmem"]["psnr"]["mean"].as_f64().unwrap();
    assert!((paired - difference).abs() < 1e-9);

    let run_folder = folder.path().join("quick/common");
    for name in ["config.toml", "metrics.jsonl", "results.json", "environment.json"] {
        assert!(run_folder.join(name).exists(), "{name}");
    }
    let page = std::fs::read_to_string(run_folder.join("report/index.html")).unwrap();
    assert!(page.contains("far-multi") && page.contains("iVBORw0KGgo"), "pictures are inside");
    let retriever = Retriever::load(folder.path().join("quick/far-multi.safetensors")).unwrap();
    let cues: Vec<&str> = retriever.config().cues.iter().map(|cue| cue.name.as_str()).collect();
    assert_eq!(cues, ["meta", "vision"]);

    let again = run();
    assert_eq!(
        first["arms"], again["arms"],
        "a finished demo is judged again, with the same result"
    );
    assert_eq!(first["paired"], again["paired"]);
}

#[test]
fn a_mistake_in_a_setting_is_named_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let output = demo(folder.path(), &["--set", "training.step=3"]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("`training.steps`") && message.contains("hint:"), "{message}");
}
