//! The `far` command: one file per verb under `commands/`.
//!
//! Results go to stdout, progress and messages to stderr. Exit status: 0 success, 1 failure, 2
//! a command line or a setting that was not understood, 130 interrupted.

#[macro_use]
mod output;
mod braille;
mod command_line;
mod commands;
mod file;
mod hint;
mod interrupt;
#[cfg(test)]
mod pages;
mod progress;
mod stage;
mod step_table;
mod world_sight;

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Episodic memory for world models that learns what to recall.
#[derive(Parser)]
#[command(name = "far", version, about, long_about = None)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: commands::Command,
    /// Print results and errors only: no progress, no notes, no warnings.
    #[arg(short, long, global = true)]
    quiet: bool,
    /// Also print the version, threads, cache folder and duration.
    #[arg(short, long, global = true, conflicts_with = "quiet")]
    verbose: bool,
    /// Folder for latents, keys, weights and compiled kernels (default: `cache` in a dataset that can be
    /// written, else ~/.cache/far).
    #[arg(long, global = true, value_name = "DIR", env = "FAR_CACHE")]
    cache: Option<PathBuf>,
}

fn main() -> ExitCode {
    die_quietly_with_the_reader();
    let arguments = Arguments::parse();
    output::set_quiet(arguments.quiet);
    let cache = arguments.cache.map(|cache| std::path::absolute(&cache).unwrap_or(cache));
    if let Some(cache) = &cache {
        // SAFETY: no other thread runs yet. Child processes and libraries read the same variable.
        unsafe { std::env::set_var("FAR_CACHE", cache) };
    }
    interrupt::listen();
    let begin = Instant::now();
    if arguments.verbose {
        let cache = cache.map_or("by default".into(), |cache| cache.display().to_string());
        let (version, threads) = (env!("CARGO_PKG_VERSION"), rayon::current_num_threads());
        eprintln!("far {version}, {threads} threads, cache {cache}");
    }
    let done = commands::run(arguments.command);
    if arguments.verbose {
        eprintln!("took {:.1} s", begin.elapsed().as_secs_f64());
    }
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::set_quiet(false);
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
