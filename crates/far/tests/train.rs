//! `far train`: a killed and resumed run ends in the same bytes; errors have a cause and a hint.

use safetensors::tensor::{Dtype, TensorView};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The smallest run with two cues, one retriever step after every second of 8 steps.
const SETTINGS: [&str; 12] = [
    "data.batch=4",
    "retriever.queries=4",
    "world_model.depth=2",
    "world_model.width=16",
    "world_model.heads=2",
    "encoder={ depth = 1, width = 16, heads = 2, key = 8 }",
    "encoder.pretraining={ steps = 2, batch = 4 }",
    "tokenizer.patch_pca.frames=100",
    "training={ steps = 8, checkpoint_every = 2, evaluate_every = 4 }",
    "evaluation={ clips_in_training = 1, questions = 1, utility_pool = 4 }",
    "evaluation.sampler.steps=2",
    "utility.levels=1",
];

fn far(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_far")).args(arguments).output().expect("far runs")
}

fn record(folder: &Path) {
    let out = folder.to_str().expect("a plain path");
    let size = ["--episodes", "10", "--size", "32"];
    let output =
        far(&[&["world", "record", "--world", "village", "--out", out], &size[..]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn command(data: &Path, run: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_far"));
    command.args(["train", "--config", "quick", "--json", "--data"]).arg(data);
    command.arg("--out").arg(run).args(SETTINGS.iter().flat_map(|set| ["--set", set]));
    command.args(more.iter().flat_map(|set| ["--set", set]));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn message(mut command: Command, status: i32) -> String {
    let output = command.output().expect("far runs");
    assert_eq!(output.status.code(), Some(status));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_killed_run_goes_on_and_ends_in_the_same_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let [data, whole, killed] = ["data", "whole", "killed"].map(|name| folder.path().join(name));
    record(&data);
    let output = command(&data, &whole, &[]).output().expect("far runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&summary["finished"], &summary["step"]), (&true.into(), &8.into()));

    let mut child = command(&data, &killed, &[]).spawn().expect("far starts");
    let first = killed.join("checkpoints/step-000000002.safetensors");
    while !first.exists() && child.try_wait().expect("a child").is_none() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    // Kills at once, whatever it is doing; if it had already finished, nothing was interrupted.
    child.kill().expect("a child");
    child.wait().expect("a child");
    let output = command(&data, &killed, &[]).output().expect("far runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for name in
        ["checkpoints/step-000000008.safetensors", "metrics.jsonl", "encoder-vision.safetensors"]
    {
        let [one, other] = [&whole, &killed].map(|run| std::fs::read(run.join(name)).expect(name));
        assert!(one == other, "{name} differs");
    }

    let text = std::fs::read_to_string(whole.join("metrics.jsonl")).expect("metrics");
    let kinds = |kind: &str| text.matches(&format!("\"kind\":\"{kind}\"")).count();
    assert_eq!((kinds("step"), kinds("retriever"), kinds("evaluation")), (8, 4, 2));
    assert!(text.contains("\"recall_quality\"") && !text.contains("NaN"));

    let refused = message(command(&data, &whole, &["training.seed=1"]), 1);
    assert!(refused.contains("training.seed is 0 there, 1 here"), "{refused}");
    assert!(refused.contains("hint: give another --out, or --fresh"), "{refused}");
}

#[test]
fn a_checkpoint_of_another_architecture_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let [data, run, other] = ["data", "run", "other"].map(|name| folder.path().join(name));
    record(&data);
    for (run, width) in [(&run, "world_model.width=16"), (&other, "world_model.width=24")] {
        let output = command(&data, run, &[width]).output().expect("far runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let foreign = other.join("checkpoints/step-000000008.safetensors");
    for entry in std::fs::read_dir(run.join("checkpoints")).expect("checkpoints") {
        std::fs::copy(&foreign, entry.expect("a checkpoint").path()).expect("copied");
    }
    let message = message(command(&data, &run, &["world_model.width=16"]), 1);
    assert!(message.contains("error: no checkpoint in"), "{message}");
    assert!(message.contains("config.width is 24 there, 16 here"), "{message}");
    assert!(message.contains("hint: copy one back, or give the settings"), "{message}");
}

#[test]
fn latents_that_are_not_numbers_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let [data, run] = ["data", "run"].map(|name| folder.path().join(name));
    record(&data);
    std::fs::create_dir(data.join("latents")).expect("a folder");
    let dataset = far_data::Dataset::open(&data).expect("a dataset");
    for id in dataset.ids() {
        let frames = dataset.lengths(id).expect("an episode").0 as usize;
        let values: Vec<f32> = (0..4 * frames)
            .map(|place| if id == 3 && place == 5 { f32::NAN } else { place as f32 / 100.0 })
            .collect();
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let view = TensorView::new(Dtype::F32, vec![frames, 1, 2, 2], &bytes).expect("a tensor");
        let path = data.join(format!("latents/{id:06}.safetensors"));
        safetensors::serialize_to_file([("latents", view)], None, &path).expect("written");
    }
    let sets = ["tokenizer.kind=precomputed", "arm.id=temporal"];
    let message = message(command(&data, &run, &sets), 1);
    assert!(
        message.contains("latents/000003.safetensors: the latent of frame 1 has NaN at place 1"),
        "{message}"
    );
    assert!(message.contains("hint: encode these frames again"), "{message}");
}

#[test]
fn mistakes_have_a_cause_and_a_hint() {
    let folder = tempfile::tempdir().expect("a folder");
    let [data, run] = ["data", "run"].map(|name| folder.path().join(name));
    record(&data);
    let cases = [
        ("trainng.steps=3", 2, "`training.steps`", "hint: write `training.steps`"),
        (
            "arm.cue=audio",
            1,
            "has no cue `audio`, which arm `far-multi` needs",
            "hint: choose another arm",
        ),
        (
            "tokenizer.kind=precomputed",
            1,
            "has no folder `latents`",
            "hint: choose another arm or tokenizer",
        ),
        ("arm.id=worldmen", 2, "`worldmen` is no arm", "hint: change it in the file"),
    ];
    for (set, status, cause, hint) in cases {
        let message = message(command(&data, &run, &[set]), status);
        assert!(message.contains(cause) && message.contains(hint), "{set}: {message}");
        assert!(!run.exists(), "{set}");
    }
    let description = data.join("dataset.json");
    let text = std::fs::read_to_string(&description).expect("a description");
    std::fs::write(&description, text.replace("\"metadata\",", "")).expect("written");
    let message = message(command(&data, &run, &["arm.id=nearest-pose"]), 1);
    assert!(
        message.contains("no poses (cue `metadata`), which arm `nearest-pose` needs"),
        "{message}"
    );
}

#[test]
fn the_configuration_is_printed_with_comments() {
    let output = far(&["train", "--config", "paper-loopnav", "--print-config"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("\ninterval = 20\n"), "{text}");
    assert!(text.contains("# World-model steps per retriever step"));
}
