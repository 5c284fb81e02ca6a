//! The demonstration as a user runs it, on few walks.

use serde_json::Value;
use std::process::Command;

#[test]
fn the_demo_learns_compares_and_writes_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let run = || {
        let arguments = ["demo", "--episodes", "20", "--json", "--out"];
        let output = Command::new(env!("CARGO_BIN_EXE_far"))
            .args(arguments)
            .arg(folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let first = run();
    let results: Value = serde_json::from_slice(&first).unwrap();
    let rules = results["rules"].as_array().unwrap();
    let mean = |id: &str| {
        let rule = rules.iter().find(|rule| rule["id"] == id);
        rule.and_then(|rule| rule["coverage"]["mean"].as_f64()).unwrap()
    };
    assert!(mean("far") > mean("random"), "what was learned is better than chance");
    assert!(mean("oracle") >= mean("far") && mean("none") == 0.0);
    let paired = &results["paired"]["far"]["random"];
    let difference = mean("far") - mean("random");
    assert!((paired["mean"].as_f64().unwrap() - difference).abs() < 1e-9);

    let page = std::fs::read_to_string(folder.path().join("index.html")).unwrap();
    assert!(page.contains("data:image/png;base64,") && !page.contains("{{"));
    assert!(folder.path().join("retriever.safetensors").exists());
    assert_eq!(first, run(), "the same seed gives the same results, on walks recorded before");
}

#[test]
fn asking_for_nothing_is_refused_with_a_hint() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_far")).args(["demo", "--slots", "0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("hint: give --slots 1 or more"), "{message}");
}
