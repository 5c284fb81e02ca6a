//! `far world`: records and shows the built-in worlds.

mod record;
mod view;

use clap::Subcommand;
use far_world::{World, WorldError};

use super::data::explain as explain_data;
use crate::hint::Hint;

/// The verbs of `far world`.
#[derive(Subcommand)]
pub enum Command {
    /// Record episodes of a world as a dataset.
    Record(record::Arguments),
    /// Draw a contact sheet and a map of a world.
    View(view::Arguments),
}

/// Runs one verb.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Record(arguments) => record::run(&arguments),
        Command::View(arguments) => view::run(&arguments),
    }
}

/// The world with this name.
pub fn find(name: &str) -> anyhow::Result<&'static dyn World> {
    far_world::world(name).map_err(explain)
}

/// A world's error with a hint.
pub fn explain(error: WorldError) -> anyhow::Error {
    let hint = match error {
        WorldError::Data(error) => return explain_data(error),
        WorldError::UnknownWorld { .. } => "choose one of the worlds listed above",
        WorldError::UnknownVariant { .. } => "leave out --variant for the default",
        WorldError::Size { .. } => "64 is fast, 256 looks better",
        WorldError::Scenes { .. } => "leave out --scenes for the world's own number",
        WorldError::Write { .. } => "check that the folder exists and is writable",
        _ => "try another --seed, and please report this one",
    };
    Hint::error(error.to_string(), hint)
}
