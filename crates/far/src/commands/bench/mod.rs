//! `far bench`: one file per thing measured.

use clap::Subcommand;

/// What can be measured.
#[derive(Subcommand)]
pub enum Command {}

/// Runs one benchmark.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {}
}
