//! Another engine, run as a command that prints JSON lines, to be compared in the same run.

use crate::hint::Hint;
use anyhow::Context;
use serde_json::Value;
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

/// The one-minute load average, where the system tells.
pub fn load_average() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

/// The middle of some measurements; NaN of none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
