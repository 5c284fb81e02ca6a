//! `far memory verify`: checks a store for damage.

use super::explain;
use crate::hint::Hint;
use crate::progress;
use far_memory::Error;
use far_memory::store::{FileCheck, Verification, verify};
use indicatif::{HumanBytes, HumanCount};
use serde_json::json;
use std::path::PathBuf;

/// Arguments of `far memory verify`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The folder of the store.
    path: PathBuf,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// Checks every byte of a store and prints the result.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let style = "{bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
    let bar = progress::styled(0, style);
    let found = verify(&arguments.path, |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let found = found.map_err(explain)?;
    if arguments.json {
        println!("{}", json(&found));
    } else {
        print(&found);
    }
    let damaged = found.files.iter().filter(|file| file.damage.is_some()).count();
    if damaged > 0 {
        let message = format!("{damaged} of {} files are damaged", found.files.len());
        return Err(Hint::error(message, "restore them from a backup; the other files are intact"));
    }
    Ok(())
}

fn json(found: &Verification) -> serde_json::Value {
    let files = found.files.iter().map(|file| {
        let (offset, reason) = match &file.damage {
            None => (None, None),
            Some(Error::Corrupt { offset, reason, .. }) => (Some(*offset), Some(reason.clone())),
            Some(other) => (None, Some(other.to_string())),
        };
        json!({
            "name": file.name,
            "bytes": file.bytes,
            "records": file.records,
            "sound": file.damage.is_none(),
            "offset": offset,
            "reason": reason,
        })
    });
    json!({
        "sound": found.is_sound(),
        "records": found.records(),
        "torn_bytes": found.torn_bytes,
        "files": files.collect::<Vec<_>>(),
    })
}

fn print(found: &Verification) {
    println!("{:<28} {:>10} {:>12}  state", "file", "records", "size");
    for FileCheck { name, bytes, records, damage } in &found.files {
        let state = damage.as_ref().map_or("sound".to_owned(), Error::to_string);
        let (records, size) = (HumanCount(*records).to_string(), HumanBytes(*bytes).to_string());
        println!("{name:<28} {records:>10} {size:>12}  {state}");
    }
    if found.torn_bytes > 0 {
        println!(
            "\nThe log ends with {} bytes of an unfinished write. This is no damage: they are cut \
             when the store is next opened for writing.",
            found.torn_bytes
        );
    }
}
