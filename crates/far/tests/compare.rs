//! `far compare` as a user runs it, on tiny runs: stopped, resumed, evaluated, shown as a table.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const SETTINGS: [&str; 11] = [
    "data.batch=4",
    "retriever={ queries = 4 }",
    "world_model={ depth = 2, width = 16, heads = 2 }",
    "encoder={ depth = 1, width = 16, heads = 2, key = 8 }",
    "encoder.pretraining={ steps = 2, batch = 4 }",
    "tokenizer.patch_pca.frames=100",
    "training={ steps = 200, checkpoint_every = 20, evaluate_every = 0 }",
    "evaluation={ clips = 2, questions = 1, utility_pool = 4, utility_levels = 1, replays = 1 }",
    "evaluation.sampler.steps=2",
    "evaluation.most_steps=3",
    "utility.levels=1",
];

fn far(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_far")).args(arguments).output().expect("far runs")
}

fn compare(data: &Path, out: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_far"));
    command.args(["compare", "--config", "quick", "--jobs", "2", "--json", "--data"]).arg(data);
    command.arg("--out").arg(out).args(SETTINGS.iter().flat_map(|set| ["--set", set]));
    command.args([
        "--arm",
        "far-multi",
        "--arm",
        "capped:arm.id=worldmem,arm.settings.pool_cap=20",
    ]);
    command.args(["--arm", "none"]).args(more);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn results(mut command: Command) -> Value {
    let output = command.output().expect("far runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn sessions(run: &Path) -> usize {
    let text = std::fs::read_to_string(run.join("environment.json")).expect("an environment");
    let environment: Value = serde_json::from_str(&text).expect("JSON");
    environment["sessions"].as_array().expect("sessions").len()
}

#[cfg(unix)]
#[test]
fn a_comparison_that_was_stopped_goes_on_and_finds_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let [data, whole, stopped] = ["data", "whole", "stopped"].map(|name| folder.path().join(name));
    let recorded = far(&[
        &["world", "record", "--world", "village", "--variant", "patrol", "--out"],
        &[data.to_str().expect("a plain path"), "--episodes", "10", "--size", "32"][..],
    ]
    .concat());
    assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));

    let expected = results(compare(&data, &whole, &[]));
    let names: Vec<&String> = expected["arms"].as_object().expect("arms").keys().collect();
    assert_eq!(names, ["capped", "copy", "far-multi", "none", "oracle", "tokenizer"]);
    assert_eq!(expected["judge"], "own");
    assert!(expected["paired"]["far-multi"]["none"]["psnr"]["mean"].is_f64());

    let child = compare(&data, &stopped, &[]).spawn().expect("far starts");
    let first = stopped.join("judge/checkpoints/step-000000020.safetensors");
    let begun = std::time::Instant::now();
    while !first.exists() && begun.elapsed().as_secs() < 120 {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    // SAFETY: the child has not been waited for, so its number is its own.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
    let output = child.wait_with_output().expect("a child");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.ends_with("stopped; run the same command again to resume\n"), "{said}");
    assert!(!stopped.join("results.json").exists());

    let found = results(compare(&data, &stopped, &[]));
    assert_eq!(found["arms"], expected["arms"]);
    assert_eq!(found["paired"], expected["paired"]);

    let run = stopped.join("arms/capped");
    let before = sessions(&run);
    results(compare(&data, &stopped, &[]));
    assert_eq!(sessions(&run), before, "what is finished is not trained again");
    for name in ["tokenizer.safetensors", "encoder-vision.safetensors"] {
        let read = |run: &str| std::fs::read(stopped.join(run).join(name)).expect(name);
        assert!(read("judge") == read("arms/far-multi"), "{name} is made once for all");
    }
    assert!(stopped.join("report/index.html").exists() && stopped.join("replays").is_dir());

    let out = stopped.to_str().expect("a plain path");
    let table = far(&["report", out, "--markdown"]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.contains("| far-multi | ") && table.contains("| · none | "), "{table}");

    let output =
        compare(&data, &stopped, &["--set", "training.seed=1"]).output().expect("far runs");
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(message.contains("training.seed is 0 there, 1 here"), "{message}");
}

/// Two seeds in one command, and the same merged from the files that each of them left.
#[test]
fn seeds_are_compared_and_merged_from_small_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let [data, out, merged] = ["data", "out", "merged"].map(|name| folder.path().join(name));
    let recorded = far(&[
        &["world", "record", "--world", "village", "--variant", "patrol", "--out"],
        &[data.to_str().expect("a plain path"), "--episodes", "10", "--size", "32"][..],
    ]
    .concat());
    assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
    let short = ["--seeds", "2", "--set", "training.steps=10", "--set", "retriever.interval=1"];
    let both = results(compare(&data, &out, &short));
    assert_eq!(both["seeds"], serde_json::json!([0, 1]));
    let spread = both["by_seed"]["far-multi"]["psnr"].as_array().expect("a value per seed");
    let [first, second] = [0, 1].map(|seed: usize| spread[seed].as_f64().expect("a number"));
    assert_ne!(first, second, "seeds differ");
    let mean = both["arms"]["far-multi"]["psnr"]["mean"].as_f64().expect("a number");
    assert!((mean - 0.5 * (first + second)).abs() < 1e-9);
    assert!(out.join("report/index.html").exists() && out.join("seed-1/replays").is_dir());
    let page = std::fs::read_to_string(out.join("report/index.html")).expect("a page");
    assert!(page.contains("\"Seeds\",\"0, 1\"") && page.contains("\"spread\":"));

    let [one, other] = [0, 1].map(|seed| out.join(format!("seed-{seed}/scores")));
    let size = std::fs::metadata(one.join("far-multi.json")).expect("scores").len();
    assert!(size < 20_000, "{size} bytes");
    let merge = |paths: &[&Path]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_far"));
        command.args(["compare", "--json", "--out"]).arg(&merged).arg("--merge").args(paths);
        command
    };
    let again = results(merge(&[&one, &other]));
    for part in ["arms", "paired", "curves", "by_seed", "seeds", "clips"] {
        assert_eq!(again[part], both[part], "{part}");
    }
    assert!(merged.join("report/index.html").exists());

    // A seed that lacks a metric, as LPIPS where its weights were not there.
    for entry in std::fs::read_dir(&other).expect("scores") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("scores");
        std::fs::write(&path, text.replace("\"ssim\"", "\"unknown\"")).expect("written");
    }
    let less = results(merge(&[&one, &other]));
    assert!(less["arms"]["far-multi"]["ssim"].is_null());
    let page = std::fs::read_to_string(merged.join("report/index.html")).expect("a page");
    assert!(page.contains("rollout SSIM: left out, not measured under seed 1"), "the cause");

    std::fs::remove_file(other.join("none.json")).expect("scores");
    for (paths, expected) in [
        (vec![one.as_path(), &other], "seed 1 has no arm none"),
        (vec![one.as_path(), &one], "stands twice under seed 0"),
        (vec![data.as_path()], "there are no scores in"),
    ] {
        let output = merge(&paths).output().expect("far runs");
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains(expected) && message.contains("hint:"), "{message}");
    }
}

#[test]
fn mistakes_are_found_before_anything_is_trained() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, out) = (folder.path().join("no-data"), folder.path().join("out"));
    let missing = compare(&data, &out, &[]).output().expect("far runs");
    assert_eq!(missing.status.code(), Some(1));
    assert!(!out.exists());
    for (more, expected) in [
        (["--arm", "far-multi"], "another run of the comparison has this name"),
        (["--arm", "nobody"], "`nobody` is no arm"),
        (["--arm", "../up:arm.id=random"], "is no plain name"),
    ] {
        let output = compare(&data, &out, &more).output().expect("far runs");
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(expected) && message.contains("hint:"), "{message}");
        assert!(!out.exists());
    }
}
