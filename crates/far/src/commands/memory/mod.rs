//! `far memory`: makes, shows, checks and exports memory stores; one file per verb.

mod build;
mod export;
mod stat;
mod verify;

use crate::hint::Hint;
use clap::Subcommand;
use far_memory::Error;
use std::error::Error as _;

/// The verbs of `far memory`.
#[derive(Subcommand)]
pub enum Command {
    /// Make a store of an episode of a dataset.
    ///
    /// Example: far memory build data/village --out village.memory
    Build(build::Arguments),
    /// Show the contents of a store: records, cues, times, places, payloads, sizes.
    ///
    /// Example: far memory stat robot.memory --json
    Stat(stat::Arguments),
    /// Check every byte of a store and report damage file by file; exit status 1 if there is any.
    ///
    /// Example: far memory verify robot.memory
    Verify(verify::Arguments),
    /// Write the records of a store as an Arrow file, JSON lines or CSV.
    ///
    /// Example: far memory export robot.memory --out robot.jsonl --from 100 --to 200
    Export(export::Arguments),
}

/// Runs one verb on a store.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Build(arguments) => build::run(&arguments),
        Command::Stat(arguments) => stat::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
    }
}

/// A memory error with a hint.
fn explain(error: Error) -> anyhow::Error {
    let hint = match &error {
        Error::NoStore { .. } => "a store is a folder with a manifest.json in it; check the path",
        Error::Corrupt { .. } => {
            "`far memory verify PATH` lists every damaged file; restore them from a backup"
        }
        Error::StoreVersion { .. } => "use the version of far that wrote the store",
        Error::Locked { .. } => "stop the other writer; reading needs no lock",
        Error::Disk { .. } => "check permissions, free space and the health of the disk",
        _ => return error.into(),
    };
    let message = match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    };
    Hint::error(message, hint)
}
