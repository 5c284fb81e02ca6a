//! The `far` command: one file per verb under `commands/`.
//!
//! Results go to stdout, progress and messages to stderr. Exit status: 0 success, 1 the work
//! failed, 2 the command line was not understood.

mod allocation;
mod commands;
mod hint;
mod progress;

use clap::Parser;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: allocation::CountingAllocator = allocation::CountingAllocator;

/// Episodic memory for world models that learns what to recall.
#[derive(Parser)]
#[command(name = "far", version, about, long_about = None)]
struct Arguments {
    #[command(subcommand)]
    command: commands::Command,
}

fn main() -> ExitCode {
    match commands::run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            hint::print(&error);
            ExitCode::FAILURE
        }
    }
}
