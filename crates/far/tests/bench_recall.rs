//! `far bench recall` as a program: output and errors. Times are not checked.

use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_far"))
        .args(["bench", "recall", "--memories", "300", "--seconds", "0"])
        .args(arguments)
        .output()
        .expect("the program runs")
}

#[test]
fn json_has_every_number() {
    for policy in ["far", "temporal"] {
        let output = bench(&["--policy", policy, "--json"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let result: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one line");
        assert_eq!((&result["policy"], &result["memories"]), (&policy.into(), &300.into()));
        for key in ["threads", "p50_us", "p99_us", "gb_per_s", "read_gb_per_s"] {
            assert!(result[key].is_number(), "{key} in {result}");
        }
        assert_eq!(result.get("floor_ratio").is_some(), policy == "far");
    }
}

#[test]
fn the_table_is_for_people() {
    let output = bench(&["--cues", "meta", "--layers", "3", "--width", "8"]);
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.starts_with("far over 300 memories"), "{text}");
    assert!(text.contains("median / floor"), "{text}");
}

#[test]
fn mistakes_get_a_hint() {
    for arguments in
        [["--cues", "smell"], ["--policy", "clairvoyance"], ["--peer", "no-such-program-anywhere"]]
    {
        let output = bench(&arguments);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(arguments[1]), "{text}");
    }
    let text = bench(&["--cues", "smell"]).stderr;
    assert!(String::from_utf8_lossy(&text).contains("hint: use --cues meta"));
}
