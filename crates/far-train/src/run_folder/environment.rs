//! `environment.json`: where and when a run was computed.

use serde::{Deserialize, Serialize};
use std::time::{SystemTime, UNIX_EPOCH};

/// All sessions of a run: one per start of the program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The sessions in order.
    pub sessions: Vec<Session>,
}

/// One start of the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Version of the program.
    pub version: String,
    /// The commit that it was built from, if the build knew.
    pub commit: Option<String>,
    /// What it computed on.
    pub device: String,
    /// Threads.
    pub threads: usize,
    /// The processor's name, if the system says.
    pub processor: Option<String>,
    /// Operating system and architecture.
    pub system: String,
    /// When it started, in seconds since 1970 (UTC).
    pub started: u64,
    /// The step of its last checkpoint, 0 before the first.
    pub last_step: u64,
    /// Seconds of training up to that checkpoint.
    pub seconds: f64,
}

impl Session {
    /// This program, on this machine, now.
    pub fn now(device: impl Into<String>, threads: usize) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: option_env!("FAR_COMMIT").map(str::to_owned),
            device: device.into(),
            threads,
            processor: processor(),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            started: since.map_or(0, |since| since.as_secs()),
            last_step: 0,
            seconds: 0.0,
        }
    }
}

impl Environment {
    /// Seconds of training up to the last checkpoint, over all sessions.
    pub fn seconds(&self) -> f64 {
        self.sessions.iter().map(|session| session.seconds).sum()
    }

    /// Understands the text of the file; a damaged one counts as empty.
    pub(super) fn parse(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }

    pub(super) fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("it is plain data") + "\n"
    }
}

/// The processor's name as Linux has it; other systems do not say it in a file.
fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
