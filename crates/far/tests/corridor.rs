//! The preset `corridor` on a tiny run: recorded, compared, probed at both ends.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const SETTINGS: [&str; 13] = [
    "data.batch=8",
    "compute.device=cpu",
    "retriever={ eager = 0, extra_candidates = 0 }",
    "world_model={ depth = 2, width = 16, heads = 2 }",
    "encoder={ depth = 1, width = 16, heads = 2, key = 8 }",
    "encoder.pretraining={ steps = 2, batch = 4 }",
    "tokenizer.patch_pca={ resolution = [32, 32], frames = 100 }",
    "detector.steps=20",
    "retriever.queries=4",
    "training={ steps = 8, warm_up = 1, checkpoint_every = 8 }",
    "evaluation={ clips = 8, questions = 1, utility_pool = 4, utility_levels = 1, replays = 1 }",
    "evaluation.sampler.steps=2",
    "evaluation.most_steps=3",
];

fn far(arguments: &[&str]) -> Output {
    let output =
        Command::new(env!("CARGO_BIN_EXE_far")).args(arguments).output().expect("far runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn compare(data: &Path, out: &Path, more: &[&str]) -> Value {
    let [data, out] = [data, out].map(|path| path.to_str().expect("a plain path"));
    let mut arguments = vec!["compare", "--config", "corridor", "--json", "--data", data];
    arguments.extend(["--out", out, "--arm", "far-multi", "--arm", "temporal"]);
    arguments.extend(SETTINGS.iter().flat_map(|set| ["--set", set]));
    arguments.extend(more);
    serde_json::from_slice(&far(&arguments).stdout).expect("JSON")
}

#[test]
fn the_corridor_is_trained_and_probed_at_both_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let [data, out, both] = ["data", "out", "both"].map(|name| folder.path().join(name));
    let path = data.to_str().expect("a plain path");
    let world = ["world", "record", "--world", "corridor", "--episodes", "24", "--size", "32"];
    far(&[&world[..], &["--out", path]].concat());

    let found = compare(&data, &out, &[]);
    let arms = &found["arms"];
    let share = |arm: &str, metric: &str| {
        let mean = arms[arm][metric]["mean"].as_f64();
        let mean = mean.unwrap_or_else(|| panic!("{arm} has no {metric}: {arms}"));
        assert!((0.0..=1.0).contains(&mean), "{arm} {metric} {mean}");
        mean
    };
    for arm in ["far-multi", "temporal", "oracle"] {
        for metric in ["both_ends", "predicted_ends", "crossing_recalled"] {
            share(arm, metric);
        }
    }
    share("none", "both_ends");
    // The latest memories never show a crossing: the agent has gone by then.
    assert_eq!(share("temporal", "crossing_recalled"), 0.0);
    // True frames are right as often as the detector is.
    let right = share("tokenizer", "both_ends");
    let recall = share("tokenizer", "detector_recall");
    assert!(right <= recall + 1e-9);
    assert!(share("tokenizer", "detector_false_positive") <= 1.0 - right + 1e-9);
    // The frames generated at both ends are kept, and shown with the detector's result.
    let kept = std::fs::read_dir(out.join("probes")).expect("probes").next().expect("one");
    let kept = std::fs::read_to_string(kept.expect("an entry").path()).expect("a probe");
    let kept: Value = serde_json::from_str(&kept).expect("JSON");
    for arm in ["far-multi", "temporal", "tokenizer"] {
        assert!(kept["arms"][arm][1]["fires"].is_boolean(), "{arm} has no verdict");
    }
    assert_eq!(kept["arms"]["none"][0]["recalled"], serde_json::json!([]));
    assert_ne!(kept["arms"]["temporal"][0]["recalled"], serde_json::json!([]));
    let page = std::fs::read_to_string(out.join("report/index.html")).expect("a page");
    assert!(page.contains("the detector finds"), "both ends are on the page");
    let prepared = ["judge", "arms/far-multi", "arms/temporal"].map(|run| out.join(run));
    for name in ["detector.safetensors", "tokenizer.safetensors"] {
        let read = prepared.each_ref().map(|run| std::fs::read(run.join(name)).expect(name));
        assert!(read.iter().all(|bytes| *bytes == read[0]), "{name} is made once for all");
    }

    // With an agent cue initialized with another one's weights, and a row whose memories show two frames.
    let from = out.join("judge/encoder-agent.safetensors");
    let begun = format!("encoder.pretraining.from={:?}", from.to_str().expect("a plain path"));
    let row = "far-multi-two:arm.id=far-multi,world_model.earlier_view=1.5";
    let found = compare(&data, &both, &["--arm", row, "--set", &begun]);
    for arm in ["far-multi", "far-multi-two"] {
        assert!(found["arms"][arm]["both_ends"]["mean"].is_f64(), "{arm}: {found}");
    }
    let page = std::fs::read_to_string(both.join("report/index.html")).expect("a page");
    assert!(page.contains("far-multi-two"), "the row is on the page");

    // Alone it is judged by its own world model, which reads two frames, too.
    let run = both.join("arms/far-multi-two");
    let run = run.to_str().expect("a plain path");
    let judged: Value =
        serde_json::from_slice(&far(&["eval", run, "--json"]).stdout).expect("JSON");
    assert!(judged["arms"]["far-multi"]["predicted_ends"]["mean"].is_f64(), "{judged}");
    // Its checkpoint is no longer understood by a model that reads one.
    let kept = std::fs::read_to_string(both.join("arms/far-multi-two/config.toml")).expect("TOML");
    assert!(kept.contains("\nearlier_view = 1.5\n"), "{kept}");
    let plain = kept.replace("\nearlier_view = 1.5\n", "\n");
    std::fs::write(both.join("arms/far-multi-two/config.toml"), plain).expect("written");
    let refused = Command::new(env!("CARGO_BIN_EXE_far")).args(["eval", run]).output();
    let refused = refused.expect("far runs");
    let message = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && message.contains("earlier_view"), "{message}");
}
