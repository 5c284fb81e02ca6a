//! `far bench`: one file per thing measured.

mod world;

use clap::Subcommand;

/// What can be measured.
#[derive(Subcommand)]
pub enum Command {
    /// Rendering of the built-in worlds.
    World(world::Arguments),
}

/// Runs one benchmark.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::World(arguments) => world::run(&arguments),
    }
}
