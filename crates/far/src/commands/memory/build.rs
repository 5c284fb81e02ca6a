//! `far memory build`: a store made of an episode, to try the other verbs and recall on.

use std::path::PathBuf;

use far_data::{Dataset, Picture};
use far_memory::store::Store;
use far_memory::{Cue, Memory, Observation, Schema};
use indicatif::HumanCount;

use super::explain;
use crate::commands::data::explain as explain_data;
use crate::hint::Hint;
use crate::progress;

/// Width and height of the pictures that become keys.
const KEY_SIZE: [u32; 2] = [16, 12];

/// Arguments of `far memory build`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The dataset's folder.
    dataset: PathBuf,
    /// Folder of the store; it must not be there yet.
    #[arg(long)]
    out: PathBuf,
    /// Episode to remember; default: the first.
    #[arg(long)]
    episode: Option<u32>,
    /// Remember the return too, not only what was explored.
    #[arg(long)]
    whole: bool,
    /// Keep the pictures themselves as payloads; default: a reference to file and frame.
    #[arg(long)]
    pictures: bool,
    /// Column of numbers to keep as keys besides `pixels`; may be given again.
    #[arg(long)]
    column: Vec<String>,
}

/// Builds a store.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.out.exists() {
        let message = format!("{} is there already", arguments.out.display());
        return Err(Hint::error(message, "choose another --out folder, or remove it"));
    }
    let dataset = Dataset::open(&arguments.dataset).map_err(explain_data)?;
    let first = dataset.ids().next().expect("a dataset has episodes");
    let id = arguments.episode.unwrap_or(first);
    let episode = dataset.episode(id).map_err(explain_data)?;
    let frames = if arguments.whole { episode.len() } else { episode.boundary() };
    let columns = arguments
        .column
        .iter()
        .map(|name| Ok((name.as_str(), episode.numbers(name)?)))
        .collect::<Result<Vec<_>, far_data::DataError>>()
        .map_err(explain_data)?;
    let has_pictures = episode.image_bytes(0).is_some();
    let mut cues = vec![Cue::metadata("meta")];
    if has_pictures {
        cues.push(Cue::key("pixels", (KEY_SIZE[0] * KEY_SIZE[1]) as usize));
    }
    cues.extend(columns.iter().map(|(name, column)| Cue::key(*name, column.width)));
    // Nothing is written before every frame was read; then all of it is sealed, for others to open.
    let mut memory = Memory::new(Schema::new(cues)?);
    let bar = progress::bar(frames as u64, "frames");
    for frame in 0..frames {
        let picture = has_pictures.then(|| episode.picture(frame)).transpose();
        let pixels = picture.map_err(explain_data)?.map(|picture| pixel_key(&picture));
        let reference = format!("episodes/{id:06}.arrow#{frame}");
        let mut observation = Observation::new(episode.times()[frame], episode.pose(frame));
        if let Some(pixels) = &pixels {
            observation = observation.with_key("pixels", pixels);
        }
        for (name, column) in &columns {
            observation = observation.with_key(name, column.row(frame));
        }
        observation = match episode.image_bytes(frame).filter(|_| arguments.pictures) {
            Some(bytes) => observation.with_bytes(bytes),
            None => observation.with_reference(&reference),
        };
        memory.append(&observation).map_err(explain)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Store::save(&memory.snapshot(), &arguments.out).map_err(explain)?;
    let (records, out) = (HumanCount(frames as u64), arguments.out.display());
    println!("{records} records of episode {id} in {out}");
    println!("next: far memory stat {out}");
    Ok(())
}

/// A small gray picture without its mean: a key that needs no network. It distinguishes views coarsely;
/// a learned encoder does much better.
fn pixel_key(picture: &Picture) -> Vec<f32> {
    let small = picture.resized(KEY_SIZE);
    let gray = |color: &[u8]| color.iter().map(|&value| f32::from(value)).sum::<f32>() / 765.0;
    let shades: Vec<f32> = small.pixels.chunks_exact(3).map(gray).collect();
    let mean = shades.iter().sum::<f32>() / shades.len() as f32;
    // A picture of one shade has a direction too.
    shades.iter().map(|shade| shade - mean + 1e-4).collect()
}
