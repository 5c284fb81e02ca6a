//! Another engine, run as a command that prints JSON lines, to be compared in the same run.

use crate::hint::Hint;
use anyhow::Context;
use serde_json::{Value, json};
use std::process::{Command, Stdio};

/// Runs a peer's command line and returns the JSON lines it printed.
pub fn run(command: &str) -> anyhow::Result<Vec<Value>> {
    let output = Command::new("sh")
        .args(["-c", command])
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start the peer `{command}`"))?;
    if !output.status.success() {
        return Err(Hint::error(
            format!("the peer `{command}` ended with {}", output.status),
            "run it by itself to see why; a PyTorch peer needs `pip install torch`",
        ));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// Adds the fastest fitting line of a peer, and how many times as long as ours it took. A line fits
/// if it has the same values under `keys`.
pub fn compare(line: &mut Value, lines: &[Value], keys: &[&str]) -> anyhow::Result<()> {
    let wanted: Vec<_> = keys.iter().map(|key| (*key, line[*key].clone())).collect();
    let peer = least(lines, &wanted, "median_s")?;
    let times = [&peer, line].map(|line| line["median_s"].as_f64().unwrap_or(f64::NAN));
    line["ratio"] = json!(times[0] / times[1]);
    line["peer"] = peer;
    Ok(())
}

/// The line with the least `key` among those that have the `wanted` values. A field that a line does
/// not have may have any.
///
/// # Errors
/// If there is none.
pub fn least(lines: &[Value], wanted: &[(&str, Value)], key: &str) -> anyhow::Result<Value> {
    let fits = |line: &&Value| {
        line[key].is_number()
            && wanted.iter().all(|(key, value)| line.get(key).is_none_or(|found| found == value))
    };
    let of_line = |line: &Value| line[key].as_f64().unwrap_or(f64::INFINITY);
    let fastest = lines.iter().filter(fits).min_by(|a, b| of_line(a).total_cmp(&of_line(b)));
    fastest.cloned().ok_or_else(|| {
        let wanted: Vec<String> =
            wanted.iter().map(|(key, value)| format!("\"{key}\": {value}")).collect();
        Hint::error(
            format!("the peer printed no line with \"{key}\" and {}", wanted.join(", ")),
            "the scripts in benches/peers show what a peer prints; their --help says for which cases",
        )
    })
}

/// The one-minute load average, where the system reports it.
pub fn load_average() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

/// The middle of some measurements; NaN of none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_fastest_fitting_line_counts() {
        let lines = [
            json!({ "shape": "paper", "dtype": "bf16", "median_s": 0.098, "engine": "torch" }),
            json!({ "shape": "paper", "dtype": "bf16", "median_s": 0.062, "engine": "compiled" }),
            json!({ "shape": "paper", "dtype": "tf32", "median_s": 0.05 }),
            json!({ "shape": "small", "median_s": 0.01 }),
        ];
        let find = |shape: &str, dtype: &str| {
            least(&lines, &[("shape", json!(shape)), ("dtype", json!(dtype))], "median_s")
        };
        assert_eq!(find("paper", "bf16").unwrap()["engine"], "compiled");
        assert_eq!(find("small", "f32").unwrap()["median_s"], 0.01);
        let message = find("paper", "f32").unwrap_err().to_string();
        assert!(message.contains("\"dtype\": \"f32\""), "{message}");
    }
}
