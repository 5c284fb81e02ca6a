//! `far data export`: an episode in a format that other programs read.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use far_data::{Dataset, export_transforms};

use super::explain;

/// What to export.
#[derive(Args)]
#[command(after_help = "Example: far data export transforms data/chess --episode 2 --out chess-2")]
pub struct Arguments {
    /// The format.
    #[arg(value_enum)]
    format: Format,
    /// The dataset's folder.
    dataset: PathBuf,
    /// Folder to write; it must not be there yet.
    #[arg(long)]
    out: PathBuf,
    /// Episode to export; default: the first.
    #[arg(long)]
    episode: Option<u32>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// transforms.json and pictures, as nerfstudio reads them.
    Transforms,
}

/// Exports an episode.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let dataset = Dataset::open(&arguments.dataset).map_err(explain)?;
    let first = dataset.ids().next().expect("a dataset has episodes");
    let episode = arguments.episode.unwrap_or(first);
    let frames = match arguments.format {
        Format::Transforms => {
            export_transforms(&dataset, episode, &arguments.out).map_err(explain)?
        }
    };
    println!("{frames} frames of episode {episode} in {}", arguments.out.display());
    Ok(())
}
