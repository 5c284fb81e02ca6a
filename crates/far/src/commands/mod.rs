//! The verbs, one file each.

mod bench;
mod data;
mod world;

use clap::Subcommand;

/// What the program can do.
#[derive(Subcommand)]
pub enum Command {
    /// Measure speeds, as ratios against a peer where one is given.
    #[command(subcommand)]
    Bench(bench::Command),
    /// Look at datasets and check them.
    #[command(subcommand)]
    Data(data::Command),
    /// Record and look at the built-in worlds.
    #[command(subcommand)]
    World(world::Command),
}

/// Runs one verb.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Bench(command) => bench::run(command),
        Command::Data(command) => data::run(command),
        Command::World(command) => world::run(command),
    }
}
