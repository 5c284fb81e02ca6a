//! `far bench`: one file per thing measured.

mod agreement;
mod engine;
mod floor;
mod joint;
mod joint_data;
mod json_peer;
mod kernel_table;
mod network_shape;
mod peer;
mod recall;
mod recall_fixture;
mod rollout;
mod store;
mod timing;
mod tokenizer;
mod train;
mod training_network;
mod utility;
mod world;
mod world_model_fixture;
mod world_model_run;
mod world_model_work;
mod yardstick;

use clap::Subcommand;

/// What can be measured.
#[derive(Subcommand)]
pub enum Command {
    /// Time a training step of the world model's network, beside the least it can take and a peer.
    ///
    /// Example: far bench train --shape paper --device cuda --dtype bf16 --profile
    Train(train::Arguments),
    /// Time the whole step of Algorithm 1 in parts, beside its network and its credit alone and a peer.
    ///
    /// Example: far bench joint --config paper-loopnav --device cuda --precision bf16
    Joint(joint::Arguments),
    /// Time judging candidate memories by the world model's loss, beside the least it can take.
    ///
    /// Example: far bench utility --shape paper --device cuda --dtype bf16
    Utility(utility::Arguments),
    /// Time sampling frames from contexts of memories, beside the least it can take and a peer.
    ///
    /// Example: far bench rollout --shape paper --device cuda --clips 1,8 --context 12
    Rollout(rollout::Arguments),
    /// Time encoding pictures and decoding latents, beside the least it can take and a peer.
    ///
    /// Example: far bench tokenizer --device cuda --batch 64,256
    Tokenizer(tokenizer::Arguments),
    /// Train the same network on a device and on the CPU and compare their losses.
    ///
    /// Example: far bench agreement --shape small --device cuda --dtype f32 --steps 200
    Agreement(agreement::Arguments),
    /// Time recalls from a memory, beside a plain read of the same bytes and a peer if one is given.
    ///
    /// Example: far bench recall --memories 100000 --cues meta,vision --policy far
    Recall(recall::Arguments),
    /// Time appending to, syncing, opening and verifying a store, beside plain files of its size.
    ///
    /// Example: far bench store --records 1000000 --dimension 256
    Store(store::Arguments),
    /// Time rendering of the built-in worlds.
    World(world::Arguments),
}

/// Runs one benchmark.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Train(arguments) => train::run(&arguments),
        Command::Joint(arguments) => joint::run(&arguments),
        Command::Utility(arguments) => utility::run(&arguments),
        Command::Rollout(arguments) => rollout::run(&arguments),
        Command::Tokenizer(arguments) => tokenizer::run(&arguments),
        Command::Agreement(arguments) => agreement::run(&arguments),
        Command::Recall(arguments) => recall::run(&arguments),
        Command::Store(arguments) => store::run(&arguments),
        Command::World(arguments) => world::run(&arguments),
    }
}
