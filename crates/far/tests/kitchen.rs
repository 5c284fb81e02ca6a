//! The preset `kitchen` on a tiny run: conditioned on interactions, weighted by change, and probed.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const SETTINGS: [&str; 11] = [
    "data.batch=8",
    "tokenizer.patch_pca={ resolution = [32, 32], patch = 8, channels = 64, frames = 100 }",
    "world_model={ depth = 2, width = 16, heads = 2 }",
    "encoder={ depth = 1, width = 16, heads = 2, key = 8 }",
    "encoder.pretraining={ steps = 2, batch = 4 }",
    "retriever={ queries = 4, interval = 2 }",
    "training={ steps = 200, checkpoint_every = 100, log_every = 50, learning_rate = 0.002 }",
    "evaluation={ clips = 2, questions = 1, utility_pool = 4, utility_levels = 1, replays = 1 }",
    "evaluation.sampler.steps=2",
    "training.change_mask.utility_coefficient=2",
    "compute.device=cpu",
];

fn far(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_far"));
    // With LPIPS weights, which a developer may have, the probe's metrics have other names.
    command.args(arguments).env("HOME", env!("CARGO_TARGET_TMPDIR")).env_remove("FAR_CACHE");
    command.output().expect("far runs")
}

fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn train(data: &str, run: &str, more: &[&str]) -> Output {
    let sets = SETTINGS.iter().chain(more).flat_map(|set| ["--set", set]);
    let base = ["train", "--config", "kitchen", "--data", data, "--out", run];
    far(&base.into_iter().chain(sets).collect::<Vec<_>>())
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

#[test]
fn a_small_kitchen_is_learned_and_probed() {
    let folder = tempfile::tempdir().expect("a folder");
    let [data, run, out] = ["data", "run", "out"].map(|name| folder.path().join(name));
    succeeded(&far(&[
        &["world", "record", "--world", "kitchen", "--variant", "paired", "--out", text(&data)],
        &["--episodes", "10", "--size", "32", "--seed", "4"][..],
    ]
    .concat()));
    succeeded(&train(text(&data), text(&run), &[]));

    // A run with other conditioning is another run.
    let sets = ["conditioning.interactions=false", "arm.also=[]"];
    let refused = train(text(&data), text(&run), &sets);
    let message = String::from_utf8_lossy(&refused.stderr);
    assert!(message.contains("conditioning.interactions is true there, false here"), "{message}");

    let silent =
        train(text(&data), text(&folder.path().join("other")), &["training.least_noisy=1000"]);
    let message = String::from_utf8_lossy(&silent.stderr);
    assert!(message.contains("training.least_noisy: 1000 is not below 1000"), "{message}");

    let judged = far(&[
        &["eval", text(&run), "--rule", "worldmem", "--out", text(&out), "--json"],
        &["--device", "cpu"][..],
    ]
    .concat());
    let results: Value = serde_json::from_str(&succeeded(&judged)).expect("JSON");
    let mean = |arm: &str, metric: &str| results["arms"][arm][metric]["mean"].as_f64();
    for arm in ["far-multi", "worldmem", "none", "copy", "oracle", "tokenizer"] {
        for metric in ["state_surface_mse", "state_container_mse", "counterfactual_mse"] {
            let share = mean(arm, metric).unwrap_or_else(|| panic!("{metric} of {arm}"));
            assert!((0.0..=1.0).contains(&share), "{metric} of {arm}: {share}");
        }
    }
    // The gate weighs three cues, one of them interactions.
    let metrics = std::fs::read_to_string(run.join("metrics.jsonl")).expect("metrics");
    let mut weighed = metrics.lines().filter_map(|line| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        line["weights"].as_object().map(|weights| weights.keys().cloned().collect::<Vec<_>>())
    });
    assert_eq!(weighed.next_back().expect("updates"), ["interaction", "meta", "vision"]);
    // An arm without memory cannot distinguish two histories; the true frames can.
    assert_eq!(mean("none", "counterfactual_mse"), Some(0.0));
    assert_eq!(mean("tokenizer", "counterfactual_mse"), Some(1.0));
    let pairs = std::fs::read_dir(out.join("probes")).expect("pairs are kept").count();
    assert_eq!(pairs, 1);
}
