//! The verbs, one file each.

mod arm_table;
mod bench;
mod beside;
mod compare;
mod completions;
mod compute;
mod data;
mod demo;
mod eval;
mod export;
mod man;
mod memory;
mod pretrain;
mod report;
mod tokenizer;
mod train;
mod unfinished;
mod world;

use clap::Subcommand;

/// The verbs of the program.
#[derive(Subcommand)]
pub enum Command {
    /// Record villages, learn what to recall, and compare every rule: the first thing to run.
    Demo(demo::Arguments),
    /// Write a page that shows what was recalled, and why.
    Report(report::Arguments),
    /// Pretrain an encoder for keys.
    Pretrain(pretrain::Arguments),
    /// Train a world model and its retriever.
    Train(train::Arguments),
    /// Train a world model for every arm, several at once, and evaluate all on the same clips.
    Compare(compare::Arguments),
    /// Evaluate trained arms, published rules and controls on the same clips.
    Eval(eval::Arguments),
    /// Write a run's training curves in the formats of other tools.
    #[command(subcommand)]
    Export(export::Command),
    /// Measure speed, as a ratio to a peer if one is given.
    #[command(subcommand)]
    Bench(bench::Command),
    /// Make, show, check and export memory stores.
    #[command(subcommand)]
    Memory(memory::Command),
    /// Import, show and check datasets.
    #[command(subcommand)]
    Data(data::Command),
    /// Train a tokenizer on your own frames, and compare tokenizers.
    #[command(subcommand)]
    Tokenizer(tokenizer::Command),
    /// Record and show the built-in worlds.
    #[command(subcommand)]
    World(world::Command),
    /// Print what a shell needs to complete verbs and options.
    Completions(completions::Arguments),
    /// Write the manual pages.
    Man(man::Arguments),
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
        Command::Export(command) => export::run(&command),
        Command::Bench(command) => bench::run(command),
        Command::Memory(command) => memory::run(command),
        Command::Data(command) => data::run(command),
        Command::Tokenizer(command) => tokenizer::run(command),
        Command::World(command) => world::run(command),
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Man(arguments) => man::run(&arguments),
    }
}
