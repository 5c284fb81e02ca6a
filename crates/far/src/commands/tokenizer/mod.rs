//! `far tokenizer`: train a tokenizer on your own frames, and compare tokenizers.

mod compare;
mod train;

use clap::Subcommand;

/// What can be done with tokenizers.
#[derive(Subcommand)]
pub enum Command {
    /// Train an autoencoder on frames of one or more datasets.
    Train(train::Arguments),
    /// Measure how well tokenizers keep held-out frames of a dataset.
    Compare(compare::Arguments),
}

/// Runs one of them.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Train(arguments) => train::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
    }
}
