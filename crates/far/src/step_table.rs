//! Where the time of training steps went, for people and for programs.

use far_tensor::{Copied, Copies};
use far_train::StepTimes;
use serde_json::{Value, json};
use std::time::Duration;

/// Some steps of a training.
#[derive(Clone, Copy, Debug, Default)]
pub struct StepTable {
    /// How many.
    pub steps: u64,
    /// How long they took.
    pub elapsed: Duration,
    /// Their parts.
    pub times: StepTimes,
    /// What was copied between host and GPU, where there is one.
    pub copies: Option<Copies>,
}

impl StepTable {
    /// Seconds of a step in the mean.
    pub fn mean(&self) -> f64 {
        self.share(self.elapsed)
    }

    fn share(&self, time: Duration) -> f64 {
        time.as_secs_f64() / self.steps.max(1) as f64
    }

    /// The parts by name, with what belongs to none.
    fn parts(&self) -> Vec<(&'static str, Duration)> {
        let mut parts = self.times.parts().to_vec();
        let known: Duration = parts.iter().map(|(_, time)| *time).sum();
        parts.push(("rest", self.elapsed.saturating_sub(known)));
        parts
    }

    /// Means over the steps as data.
    pub fn json(&self) -> Value {
        let seconds = |parts: &[(&'static str, Duration)]| -> Value {
            parts
                .iter()
                .map(|(name, time)| ((*name).to_owned(), json!(self.share(*time))))
                .collect()
        };
        let mut table = json!({
            "steps": self.steps,
            "step_s": self.mean(),
            "parts_s": seconds(&self.parts()),
            "meanwhile_s": seconds(&self.times.meanwhile()),
        });
        for (name, copied) in self.directions() {
            table["copies"][name] = json!({
                "count": copied.count as f64 / self.steps.max(1) as f64,
                "bytes": copied.bytes as f64 / self.steps.max(1) as f64,
                "s": self.share(copied.time),
            });
        }
        table
    }

    fn directions(&self) -> impl Iterator<Item = (&'static str, Copied)> {
        let copies = self
            .copies
            .map(|copies| [("to_device", copies.to_device), ("to_host", copies.to_host)]);
        copies.into_iter().flatten()
    }

    /// The table, one line each.
    pub fn lines(&self) -> Vec<String> {
        let milliseconds = |time: Duration| 1e3 * self.share(time);
        let mut lines = Vec::new();
        for (name, time) in self.parts() {
            lines.push(format!("    {name:<16}{:>9.2} ms", milliseconds(time)));
        }
        lines.push("  meanwhile, for the step after".to_owned());
        for (name, time) in self.times.meanwhile() {
            lines.push(format!("    {name:<16}{:>9.2} ms", milliseconds(time)));
        }
        for (name, copied) in self.directions() {
            lines.push(format!(
                "  copies {:<11}{:>9.2} ms: {:.2} MB in {:.0} copies",
                name.replace('_', " "),
                milliseconds(copied.time),
                copied.bytes as f64 / self.steps.max(1) as f64 / 1e6,
                copied.count as f64 / self.steps.max(1) as f64,
            ));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_the_rest_are_of_all_steps() {
        let seconds = Duration::from_secs;
        let times = StepTimes { network: seconds(6), credit: seconds(2), ..StepTimes::default() };
        let to_device = Copied { count: 8, bytes: 4_000_000, time: seconds(1) };
        let copies = Copies { to_device, ..Copies::default() };
        let table = StepTable { steps: 4, elapsed: seconds(12), times, copies: Some(copies) };
        let json = table.json();
        assert_eq!(json["step_s"], 3.0);
        assert_eq!(
            (&json["parts_s"]["network"], &json["parts_s"]["rest"]),
            (&json!(1.5), &json!(1.0))
        );
        assert_eq!(json["copies"]["to_device"]["bytes"], 1e6);
        let text = table.lines().join("\n");
        assert!(text.contains("network           1500.00 ms"), "{text}");
        assert!(text.contains("copies to device     250.00 ms: 1.00 MB in 2 copies"), "{text}");
        let alone = StepTable { copies: None, ..table };
        assert!(alone.json().get("copies").is_none());
    }
}
