//! `far data`: look at datasets and check them.

mod inspect;
mod verify;

use clap::Subcommand;

use crate::hint::Hint;

/// What can be done with a dataset.
#[derive(Subcommand)]
pub enum Command {
    /// Print what a dataset holds; draw a contact sheet and a map of one episode.
    Inspect(inspect::Arguments),
    /// Read every byte of a dataset and check every rule of the format.
    Verify(verify::Arguments),
}

/// Runs one of them.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
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
