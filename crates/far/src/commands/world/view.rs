//! `far world view`: a contact sheet and a map of a world, without recording anything.

use std::path::PathBuf;

use clap::Args;
use far_data::{Cell, ContactSheet, EXPLORE_COLOR, FrameImage, Phase, RETURN_COLOR};
use far_world::{Recording, Studio, draw_map};

use crate::file;
use crate::hint::Hint;

/// Arguments of `far world view`.
#[derive(Args)]
#[command(after_help = "Example: far world view --world village --size 256 --out /tmp/village")]
pub struct Arguments {
    /// village, apartment, kitchen or corridor.
    #[arg(long)]
    world: String,
    /// Variant of the world (default: its first).
    #[arg(long)]
    variant: Option<String>,
    /// First episode to show.
    #[arg(long, default_value_t = 0)]
    episode: u32,
    /// Episodes on the sheet, one row each.
    #[arg(long, default_value_t = 6)]
    episodes: u32,
    /// Frames per row.
    #[arg(long, default_value_t = 6)]
    pictures: u32,
    /// Width and height of the frames in pixels.
    #[arg(long, default_value_t = 64)]
    size: u32,
    /// Smallest width of a frame on the sheet, in pixels: smaller frames are enlarged.
    #[arg(long, default_value_t = 128)]
    cell: u32,
    /// Seed of the recording.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Pixels per meter on the map.
    #[arg(long, default_value_t = 5)]
    map_scale: u32,
    /// Folder for contact-sheet.png and map.png.
    #[arg(long, default_value = ".")]
    out: PathBuf,
}

/// Draws a contact sheet of several episodes and a map of the first.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let world = super::find(&arguments.world)?;
    let variant = arguments.variant.as_deref();
    let recording =
        Recording::new(world, variant, arguments.seed, arguments.size).map_err(super::explain)?;
    if arguments.episodes == 0 || arguments.pictures == 0 {
        return Err(Hint::usage("nothing to show", "--episodes and --pictures start at 1"));
    }
    let mut studio = Studio::new(world.camera(), recording.size);
    let (mut cells, mut map) = (Vec::new(), None);
    let columns = arguments.pictures;
    for id in arguments.episode..arguments.episode + arguments.episodes {
        let mut episode = world.episode(&recording, id).map_err(super::explain)?;
        let facts = episode.course().facts.clone();
        let last = episode.course().poses.len() - 1;
        for column in 0..columns as usize {
            let index = last * column / (columns as usize - 1).max(1);
            let frame = episode.frame(index, &mut studio).map_err(super::explain)?;
            let returning = frame.phase == Phase::Return;
            let FrameImage::Pixels(picture) = frame.image else { continue };
            let color = if returning { RETURN_COLOR } else { EXPLORE_COLOR };
            let scene = if column == 0 { facts.scene.as_str() } else { "" };
            cells.push(Cell { picture, caption: format!("{index} {scene}"), color });
        }
        if map.is_none() {
            map = Some(draw_map(episode.as_mut(), arguments.map_scale.clamp(1, 64)));
        }
    }
    let title = format!("{} ({})", world.name(), recording.variant);
    let sheet = ContactSheet { title, columns, cell_width: arguments.cell, cells };
    let out = &arguments.out;
    file::create_folder(out)?;
    let mut files = vec![("contact-sheet.png", sheet.render().to_png())];
    files.extend(map.map(|map| ("map.png", map.to_png())));
    for (name, bytes) in files {
        let path = out.join(name);
        file::write(&path, bytes)?;
        println!("wrote {}", path.display());
    }
    Ok(())
}
