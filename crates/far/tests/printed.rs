//! The printed presets as a user runs them, with tiny networks: two steps in the world that each is for.

use serde_json::Value;
use std::process::Command;

/// Everything that makes networks small; pictures are recorded small, and the method stays.
const SMALL: [&str; 9] = [
    "data={ batch = 4, goals_per_observation = 2 }",
    "world_model={ depth = 2, width = 16, heads = 2 }",
    "encoder={ depth = 1, width = 16, heads = 2, key = 8 }",
    "encoder.pretraining={ steps = 2, batch = 4, warm_up = 1 }",
    "retriever.interval=2",
    "training={ steps = 2, warm_up = 1, evaluate_every = 0, log_every = 1 }",
    "evaluation={ clips = 1, questions = 1, utility_pool = 4, utility_levels = 1, replays = 0 }",
    "detector.steps=2",
    "compute.device=\"cpu\"",
];

fn far(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_far")).args(arguments).output().expect("far");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn every_printed_preset_makes_two_steps_in_its_world() {
    let folder = tempfile::tempdir().expect("a folder");
    let presets = [
        ("printed-loopnav", ["village", "static", "5"]),
        ("printed-soundspaces-v1", ["apartment", "v1", "27"]),
        ("printed-soundspaces-v2", ["apartment", "v2", "27"]),
        ("printed-thor", ["kitchen", "mixed", "5"]),
        ("printed-thor-dyn", ["corridor", "mixed", "2"]),
    ];
    for (preset, [world, variant, scenes]) in presets {
        let [data, run] =
            ["data", "run"].map(|name| folder.path().join(format!("{name}-{preset}")));
        let [data, run] = [data.to_str().expect("plain"), run.to_str().expect("plain")];
        let record =
            ["world", "record", "--world", world, "--variant", variant, "--scenes", scenes];
        far(&[&record[..], &["--episodes", "9", "--size", "32", "--out", data]].concat());
        let mut sets: Vec<&str> = SMALL.iter().flat_map(|set| ["--set", set]).collect();
        if preset == "printed-thor-dyn" {
            // One of a few examples is seldom anchored, and only those teach the retriever.
            sets.extend(["--set", "data.anchor.probability=1"]);
        }
        let train = ["train", "--config", preset, "--data", data, "--out", run, "--json"];
        let report = far(&[&train[..], &sets].concat());
        assert!(report.contains("\"finished\":true"), "{preset}: {report}");
        let metrics = std::fs::read_to_string(format!("{run}/metrics.jsonl")).expect("metrics");
        let lines: Vec<Value> =
            metrics.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let losses =
            lines.iter().filter(|line| line["loss"].as_f64().is_some_and(|loss| loss > 0.0));
        assert!(losses.count() >= 2, "{preset}: {metrics}");
    }
}
