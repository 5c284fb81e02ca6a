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
    let hint = match &error {
        WorldError::Data(_) => None,
        WorldError::UnknownWorld { .. } => Some("choose one of the worlds listed above"),
        WorldError::UnknownVariant { .. } => Some("leave out --variant for the default"),
        WorldError::Size { .. } => Some("64 is fast, 256 looks better"),
        WorldError::Scenes { .. } => Some("leave out --scenes for the world's own number"),
        WorldError::Write { .. } => Some("check that the folder exists and is writable"),
        _ => Some("try another --seed, and please report this one"),
    };
    match (error, hint) {
        (WorldError::Data(error), _) => explain_data(error),
        (error, Some(hint)) => Hint::error(error.to_string(), hint),
        (error, None) => anyhow::Error::new(error),
    }
}
