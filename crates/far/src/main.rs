//! The `far` command: one file per verb under `commands/`.
//!
//! Results go to stdout, progress and messages to stderr. Exit status: 0 success, 1 failure, 2
//! a command line or a setting that was not understood, 130 interrupted.

mod braille;
mod command_line;
mod commands;
mod hint;
mod interrupt;
mod progress;
mod stage;
mod step_table;
mod world_sight;

use clap::Parser;
use std::process::ExitCode;

/// Episodic memory for world models that learns what to recall.
#[derive(Parser)]
#[command(name = "far", version, about, long_about = None)]
struct Arguments {
    #[command(subcommand)]
    command: commands::Command,
}

fn main() -> ExitCode {
    die_quietly_with_the_reader();
    interrupt::listen();
    match commands::run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            hint::print(&error);
            ExitCode::from(hint::status(&error))
        }
    }
}

/// Lets `far … | head` end quietly instead of with a panic about a closed pipe.
fn die_quietly_with_the_reader() {
    #[cfg(unix)]
    // SAFETY: called before any thread starts; it only restores the system's default.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
    }
}
