//! `far bench`: one file per thing measured.

mod peer;
mod train;

use clap::Subcommand;

/// What can be measured.
#[derive(Subcommand)]
pub enum Command {
    /// One training step of the world model's network.
    Train(train::Arguments),
}

/// Runs one benchmark.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Train(arguments) => train::run(&arguments),
    }
}
