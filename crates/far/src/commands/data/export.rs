//! `far data export`: a dataset or an episode in a format that other programs read.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use far_data::{Dataset, export_lerobot, export_transforms};

use super::explain;
use crate::hint::Hint;
use crate::progress::{self, counted};

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
    /// Episode to export as transforms; default: the first. LeRobot takes all.
    #[arg(long)]
    episode: Option<u32>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// LeRobot v3: tables with pictures, poses and actions of all episodes.
    Lerobot,
    /// transforms.json and pictures, as nerfstudio reads them.
    Transforms,
}

/// Exports an episode.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let dataset = Dataset::open(&arguments.dataset).map_err(explain)?;
    let out = arguments.out.display();
    match arguments.format {
        Format::Lerobot => {
            if arguments.episode.is_some() {
                let hint = "leave --episode out";
                return Err(Hint::error("a LeRobot dataset has all episodes", hint));
            }
            let bar = progress::bar(dataset.len() as u64, "episodes");
            let (episodes, frames) =
                export_lerobot(&dataset, &arguments.out, || bar.inc(1)).map_err(explain)?;
            bar.finish_and_clear();
            println!("{}, {frames} frames in {out}", counted(episodes as u64, "episodes"));
        }
        Format::Transforms => {
            let first = dataset.ids().next().expect("a dataset has episodes");
            let episode = arguments.episode.unwrap_or(first);
            let frames = export_transforms(&dataset, episode, &arguments.out).map_err(explain)?;
            println!("{frames} frames of episode {episode} in {out}");
        }
    }
    Ok(())
}
