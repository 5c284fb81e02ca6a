//! `far export`: what a run wrote down, in the formats of other tools.

use crate::file;
use crate::hint::Hint;
use clap::{Args, Subcommand};
use far_eval::{TrainedPart, event_file};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// The name by which TensorBoard finds a run, one for ever: a later export replaces an earlier one.
const EVENTS: &str = "events.out.tfevents.0.far";

/// The formats.
#[derive(Subcommand)]
pub enum Command {
    /// Write the training curves as TensorBoard's event files.
    Tensorboard(TensorboardArguments),
}

/// Which run, and where its event files go.
#[derive(Args)]
#[command(
    after_help = "Example: far export tensorboard runs/mine && tensorboard --logdir runs/mine/tensorboard

A run in training can be exported too, and again later. Every retriever, and every arm of a
comparison, is a run of its own in TensorBoard."
)]
pub struct TensorboardArguments {
    /// Folder that `far train`, `far compare` or `far demo` made.
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Folder of the event files; RUN/tensorboard by default.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Exports.
pub fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Tensorboard(arguments) => tensorboard(arguments),
    }
}

fn tensorboard(arguments: &TensorboardArguments) -> anyhow::Result<()> {
    let TensorboardArguments { run, out } = arguments;
    let out = out.clone().unwrap_or_else(|| run.join("tensorboard"));
    let own = TrainedPart::read(run)?;
    let parts = TrainedPart::read_all(run)?;
    let time = written(&run.join("metrics.jsonl"));
    let mut files = 0;
    for training in own.iter().chain(&parts).flat_map(TrainedPart::trainings) {
        let folder = out.join(&training.name);
        file::create_folder(&folder)?;
        file::write(&folder.join(EVENTS), event_file(&training.series, time))?;
        files += 1;
    }
    if files == 0 {
        return Err(Hint::error(
            format!("{} has no training curves", run.display()),
            "give a folder with metrics.jsonl, made by `far train`, `far compare` or `far demo`",
        ));
    }
    let noun = if files == 1 { "run" } else { "runs" };
    println!("{} ({files} {noun}); tensorboard --logdir {}", out.display(), out.display());
    Ok(())
}

/// When a file was last written, in seconds since 1970; 0 where the system does not say.
fn written(path: &Path) -> f64 {
    let time = std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.map_or(0.0, |since| since.as_secs_f64())
}
