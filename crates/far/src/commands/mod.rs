//! The verbs, one file each.

mod arm_table;
mod bench;
mod compare;
mod compute;
mod data;
mod demo;
mod eval;
mod memory;
mod pretrain;
mod report;
mod train;
mod world;

use clap::Subcommand;

/// What the program can do.
#[derive(Subcommand)]
pub enum Command {
    /// Walk villages, learn what to recall, and compare every rule: the first thing to run.
    Demo(demo::Arguments),
    /// Write a page that shows what was recalled, and why.
    Report(report::Arguments),
    /// Pretrain the encoder of what is seen.
    Pretrain(pretrain::Arguments),
    /// Train a world model and the recall that serves it.
    Train(train::Arguments),
    /// Train a world model for every arm, several at once, and judge all on the same clips.
    Compare(compare::Arguments),
    /// Judge trained arms, published rules and controls on the same clips.
    Eval(eval::Arguments),
    /// Measure speeds, as ratios against a peer where one is given.
    #[command(subcommand)]
    Bench(bench::Command),
    /// Look at, check and export memory stores.
    #[command(subcommand)]
    Memory(memory::Command),
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
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Pretrain(arguments) => pretrain::run(&arguments),
        Command::Train(arguments) => train::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Eval(arguments) => eval::run(&arguments),
        Command::Bench(command) => bench::run(command),
        Command::Memory(command) => memory::run(command),
        Command::Data(command) => data::run(command),
        Command::World(command) => world::run(command),
    }
}
