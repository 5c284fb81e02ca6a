//! `far bench train`, `utility`, `rollout` and `agreement` as programs: what they print and how they
//! refuse. Times are not looked at.

use serde_json::Value;
use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_far"))
        .arg("bench")
        .args(arguments)
        .args(["--device", "cpu"])
        .output()
        .expect("the program runs")
}

fn lines(arguments: &[&str]) -> Vec<Value> {
    let output = bench(&[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("every line is JSON")).collect()
}

fn assert_numbers(line: &Value, keys: &[&str]) {
    for key in keys {
        assert!(line[key].as_f64().is_some_and(|value| value > 0.0), "{key} in {line}");
    }
}

const FLOOR: [&str; 6] =
    ["floor_s", "share", "large_gemm_gflops", "copy_gb_per_s", "operations", "bytes"];

#[test]
fn a_training_step_stands_beside_its_floor_and_its_parts() {
    let found = lines(&["train", "--shape", "small", "--steps", "3", "--profile"]);
    let [line] = &found[..] else { panic!("one line, not {found:?}") };
    assert_eq!((&line["shape"], &line["dtype"]), (&"small".into(), &"f32".into()));
    assert_numbers(line, &["median_s", "min_s", "first_step_s", "gflops", "profile_total_ms"]);
    assert_numbers(line, &FLOOR);
    let profile = line["profile"].as_array().expect("a table");
    let row = |name: &str| profile.iter().find(|row| row["kernel"] == name);
    // Four blocks, forward and backward.
    assert_eq!(row("self_attention").expect("attention takes time")["count"], 8.0);
    let shares: f64 = profile.iter().filter_map(|row| row["share"].as_f64()).sum();
    assert!((shares - 1.0).abs() < 1e-6, "{shares}");

    let table = bench(&["train", "--shape", "small", "--steps", "3", "--profile"]);
    let text = String::from_utf8(table.stdout).expect("text");
    assert!(text.starts_with("one training step, shape small, f32"), "{text}");
    assert!(text.contains("self_attention") && text.contains("floor / median"), "{text}");
}

#[test]
fn the_fastest_line_of_the_same_case_is_the_peer() {
    let peer = r#"echo '{"shape": "small", "dtype": "f32", "median_s": 9.0, "engine": "slow"}
        {"shape": "small", "dtype": "f32", "median_s": 5.0, "engine": "quick"}
        {"shape": "small", "dtype": "bf16", "median_s": 1.0, "engine": "other"}'"#;
    let found = lines(&["train", "--steps", "3", "--rounds", "2", "--peer", peer]);
    assert_eq!(found[0]["peer"]["engine"], "quick");
    assert_eq!(found[0]["peer_medians_s"], serde_json::json!([5.0, 5.0]));
    assert_numbers(&found[0], &["ratio", "median_ratio"]);
}

#[test]
fn rollouts_and_utilities_are_measured_with_both_kinds_of_attention() {
    let small = ["--shape", "small", "--seconds", "0"];
    let found = lines(
        &[&["rollout", "--clips", "1,2", "--context", "2", "--steps", "2"], &small[..]].concat(),
    );
    let cases: Vec<_> = found.iter().map(|line| (&line["attention"], &line["clips"])).collect();
    let [joint, first] = [&Value::from("joint"), &Value::from("context-first")];
    let [one, two] = [&Value::from(1), &Value::from(2)];
    assert_eq!(cases, [(joint, one), (joint, two), (first, one), (first, two)]);
    for line in &found {
        assert_numbers(line, &["frames_per_s", "median_s", "first_s"]);
        assert_numbers(line, &FLOOR);
        assert_eq!(line["factor_over_joint"].is_number(), line["attention"] == "context-first");
    }
    // The context is read once, not in each of the steps.
    assert!(found[2]["operations"].as_f64() < found[0]["operations"].as_f64());

    let sizes = ["--examples", "1", "--candidates", "2", "--draws", "2"];
    let found = lines(&[&["utility"], &sizes[..], &small[..]].concat());
    assert_eq!(found.len(), 2);
    for line in &found {
        assert_numbers(line, &["candidates_per_s", "median_s"]);
        assert_numbers(line, &FLOOR);
    }
}

#[test]
fn rollouts_are_compared_with_the_peer_of_as_many_clips() {
    let peer = r#"echo '{"clips": 2, "dtype": "f32", "median_s": 7.0, "share": true}
        {"clips": 2, "dtype": "f32", "median_s": 8.0}'"#;
    let arguments = ["rollout", "--shape", "small", "--attention", "joint", "--clips", "2"];
    let rest = ["--context", "1", "--steps", "1", "--seconds", "0", "--peer", peer];
    let found = lines(&[&arguments[..], &rest[..]].concat());
    assert_eq!(found[0]["peer"]["median_s"], 7.0);
    assert_numbers(&found[0], &["ratio"]);
}

/// The CPU beside the CPU is the same training to the last bit.
#[test]
fn equal_devices_agree_and_a_checkpoint_moves() {
    let found = lines(&["agreement", "--steps", "4", "--threads", "1"]);
    assert_eq!(
        (&found[0]["largest_difference"], &found[0]["after_moving"]),
        (&0.0.into(), &0.0.into())
    );
    assert!(found[0]["last_losses"][0].as_f64().is_some_and(|loss| loss > 0.0));
}

#[test]
fn mistakes_get_a_hint() {
    let cases: [(&[&str], &str, &str); 6] = [
        (&["train", "--dtype", "bf16"], "does not compute in bf16", "leave --dtype out"),
        (&["train", "--steps", "2"], "nothing to measure", "--steps 3 or more"),
        (&["train", "--steps", "3", "--peer", "echo {}"], "no line with", "benches/peers"),
        (&["rollout", "--clips", "0"], "nothing to measure", "--clips"),
        (&["utility", "--draws", "0"], "nothing to measure", "--draws"),
        (&["agreement", "--steps", "0"], "nothing to compare", "--steps 1"),
    ];
    for (arguments, message, hint) in cases {
        let output = bench(arguments);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(message) && text.contains("hint: "), "{text}");
        assert!(text.contains(hint), "{text}");
    }
}
