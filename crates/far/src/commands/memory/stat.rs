//! `far memory stat`: shows the contents of a store.

use super::explain;
use far_memory::store::{StoreReader, StoreStatus};
use far_memory::{Cue, CueKind, MemoryId, Snapshot};
use indicatif::{HumanBytes, HumanCount};
use serde_json::json;
use std::path::PathBuf;

/// Arguments of `far memory stat`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The folder of the store.
    path: PathBuf,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// The smallest and largest of some numbers; `None` if there are none.
type Range = Option<(f64, f64)>;

/// Totals over all records.
struct Summary {
    time: Range,
    position: [Range; 3],
    /// Keys present, by cue.
    present: Vec<usize>,
    byte_payloads: u64,
    payload_bytes: u64,
    references: u64,
}

/// Prints the contents of a store.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut reader = StoreReader::open(&arguments.path).map_err(explain)?;
    let (snapshot, status) = reader.look().map_err(explain)?;
    let summary = Summary::of(&snapshot);
    if arguments.json {
        println!("{}", summary.json(&snapshot, &status));
    } else {
        summary.print(&snapshot, &status);
    }
    Ok(())
}

impl Summary {
    fn of(snapshot: &Snapshot) -> Self {
        let cues = 0..snapshot.schema().cues().len();
        let mut summary = Self {
            time: None,
            position: [None; 3],
            present: vec![0; cues.len()],
            byte_payloads: 0,
            payload_bytes: 0,
            references: 0,
        };
        for block in snapshot.blocks() {
            block.times().iter().for_each(|&time| widen(&mut summary.time, time));
            for pose in (0..block.len()).filter_map(|row| block.pose(row)) {
                for (range, value) in summary.position.iter_mut().zip(pose.position) {
                    widen(range, f64::from(value));
                }
            }
            for cue in cues.clone() {
                let rows = (0..block.len()).filter(|&row| block.is_present(cue, row));
                summary.present[cue] += rows.count();
            }
        }
        for id in 0..snapshot.len() {
            let payload = snapshot.payload(MemoryId(id as u64));
            summary.byte_payloads += u64::from(payload.bytes().is_some());
            summary.payload_bytes += payload.bytes().map_or(0, |bytes| bytes.len() as u64);
            summary.references += u64::from(payload.reference().is_some());
        }
        summary
    }

    fn json(&self, snapshot: &Snapshot, status: &StoreStatus) -> serde_json::Value {
        let range = |range: Range| range.map(|(low, high)| [low, high]);
        let cues = snapshot.schema().cues().iter().zip(&self.present).map(|(cue, present)| {
            let mut entry = json!({ "name": cue.name, "present": present });
            match cue.kind {
                CueKind::Metadata => entry["kind"] = "metadata".into(),
                CueKind::Key { dimension, precision } => {
                    entry["kind"] = "key".into();
                    entry["dimension"] = dimension.into();
                    entry["bits"] = (8 * precision.bytes()).into();
                }
            }
            entry
        });
        json!({
            "records": snapshot.len(),
            "sealed": {
                "records": status.sealed_records,
                "files": status.sealed_files,
                "bytes": status.sealed_bytes,
            },
            "log": {
                "records": status.log_records,
                "bytes": status.log_bytes,
                "torn_bytes": status.torn_bytes,
            },
            "time": range(self.time),
            "position": self.position.map(range),
            "cues": cues.collect::<Vec<_>>(),
            "payloads": {
                "bytes": self.byte_payloads,
                "total_bytes": self.payload_bytes,
                "references": self.references,
            },
        })
    }

    fn print(&self, snapshot: &Snapshot, status: &StoreStatus) {
        let line = |name: &str, value: String| println!("{name:<10} {value}");
        let records = snapshot.len() as u64;
        line("records", HumanCount(records).to_string());
        let held = |count: u64, bytes: u64| {
            format!("{} records, {}", HumanCount(count), HumanBytes(bytes))
        };
        let sealed = held(status.sealed_records, status.sealed_bytes);
        line("sealed", format!("{sealed} (files: {})", status.sealed_files));
        line("log", held(status.log_records, status.log_bytes));
        if status.torn_bytes > 0 {
            line("torn tail", format!("{} bytes of an unfinished write", status.torn_bytes));
        }
        let range = |range: Range, unit: &str| match range {
            None => "none".to_owned(),
            Some((low, high)) => format!("{low:.3} to {high:.3} {unit}"),
        };
        line("time", range(self.time, "s"));
        for (axis, extent) in ["x", "y", "z"].into_iter().zip(self.position) {
            line(axis, range(extent, "m"));
        }
        let [own, references] = [self.byte_payloads, self.references].map(HumanCount);
        let bytes = HumanBytes(self.payload_bytes);
        line("payloads", format!("{own} with bytes ({bytes}), {references} by reference"));
        println!("\n{:<16} {:<16} present", "cue", "kind");
        for (cue, &present) in snapshot.schema().cues().iter().zip(&self.present) {
            let percent = 100.0 * present as f64 / records.max(1) as f64;
            let present = format!("{} ({percent:.1} %)", HumanCount(present as u64));
            println!("{:<16} {:<16} {present}", cue.name, kind(cue));
        }
    }
}

fn kind(cue: &Cue) -> String {
    match cue.kind {
        CueKind::Metadata => "time and pose".into(),
        CueKind::Key { dimension, precision } => {
            format!("{dimension} × {} bit", 8 * precision.bytes())
        }
    }
}

fn widen(range: &mut Range, value: f64) {
    let (low, high) = range.unwrap_or((value, value));
    *range = Some((low.min(value), high.max(value)));
}
