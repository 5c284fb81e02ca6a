//! `far bench`: one file per thing measured.

mod floor;
mod json_peer;
mod peer;
mod recall;
mod recall_fixture;
mod store;
mod timing;
mod train;
mod world;

use clap::Subcommand;

/// What can be measured.
#[derive(Subcommand)]
pub enum Command {
    /// One training step of the world model's network.
    Train(train::Arguments),
    /// Time recalls from a memory, beside a plain read of the same bytes and a peer if one is given.
    ///
    /// Example: far bench recall --memories 100000 --cues meta,vision --policy far
    Recall(recall::Arguments),
    /// Time appending to, syncing, opening and verifying a store, beside plain files of its size.
    ///
    /// Example: far bench store --records 1000000 --dimension 256
    Store(store::Arguments),
    /// Rendering of the built-in worlds.
    World(world::Arguments),
}

/// Runs one benchmark.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Train(arguments) => train::run(&arguments),
        Command::Recall(arguments) => recall::run(&arguments),
        Command::Store(arguments) => store::run(&arguments),
        Command::World(arguments) => world::run(&arguments),
    }
}
