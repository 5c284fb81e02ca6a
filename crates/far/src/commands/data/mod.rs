//! `far data`: make datasets of recordings, look at them and check them.

mod export;
mod import;
mod inspect;
mod keys;
mod verify;

use clap::Subcommand;

use crate::hint::Hint;

/// What can be done with a dataset.
#[derive(Subcommand)]
pub enum Command {
    /// Make a dataset of recordings in another format.
    Import(Box<import::Arguments>),
    /// Write an episode in a format that other programs read.
    Export(export::Arguments),
    /// Add embeddings of your own network to a dataset.
    Keys(keys::Arguments),
    /// Print what a dataset holds; draw a contact sheet and a map of one episode.
    Inspect(inspect::Arguments),
    /// Read every byte of a dataset and check every rule of the format.
    Verify(verify::Arguments),
}

/// Runs one of them.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Import(arguments) => import::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Keys(arguments) => keys::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
    }
}

/// A data error as the program prints it: the error, its cause, then what to do.
pub fn explain(error: far_data::DataError) -> anyhow::Error {
    let message = match std::error::Error::source(&error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    };
    Hint::error(message, error.hint())
}
