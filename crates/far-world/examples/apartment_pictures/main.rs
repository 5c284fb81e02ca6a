//! Makes the pictures of the apartment in `docs/worlds.md`:
//! `cargo run --release -p far-world --example apartment_pictures -- docs/pictures/worlds`

mod spectrogram;

use far_data::Picture;
use far_world::apartment::Apartment;
use far_world::sound::SAMPLE_RATE;
use far_world::{Episode, Recording, Studio, World};
use std::error::Error;
use std::path::PathBuf;

use spectrogram::spectrogram;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("give a folder for the pictures")?);
    std::fs::create_dir_all(&folder)?;
    let save = |name: &str, picture: Picture| std::fs::write(folder.join(name), picture.to_png());
    save("apartment-64.png", along_walks(64, 5, 8)?)?;
    save("apartment-256.png", fullest_views(256, 1, 3)?)?;
    let recording = Recording::new(&Apartment, Some("v2"), 0, 64)?;
    let mut episode = Apartment.walk(&recording, 5)?;
    save("apartment-map.png", episode.map(8))?;
    for source in episode.soundscape().sources() {
        let clip = source.clip.as_ref();
        println!(
            "{} {} at {:?}, gain {:.2}",
            clip.kind(),
            clip.variant(),
            source.position,
            source.gain
        );
    }
    let boundary =
        episode.course().boundary * (SAMPLE_RATE as f32 / Apartment.constants().fps) as usize;
    save("apartment-sound.png", spectrogram(episode.sound(), boundary, 960))?;
    Ok(())
}

/// One episode per row, with evenly spaced frames from left to right.
fn along_walks(size: u32, rows: u32, columns: u32) -> Result<Picture, Box<dyn Error>> {
    let recording = Recording::new(&Apartment, None, 0, size)?;
    let mut studio = Studio::new(Apartment.camera(), size);
    let mut sheet = Picture::filled(columns * size, rows * size, [0; 3]);
    for row in 0..rows {
        let mut episode = Apartment.walk(&recording, row)?;
        for column in 0..columns {
            let frame =
                (episode.course().poses.len() - 1) * column as usize / (columns - 1) as usize;
            let one = view(&mut episode, frame, &mut studio, size);
            sheet.paste(&one, column * size, row * size);
        }
    }
    Ok(sheet)
}

/// From each of several episodes, the frame with the most pieces of furniture.
fn fullest_views(size: u32, rows: u32, columns: u32) -> Result<Picture, Box<dyn Error>> {
    let recording = Recording::new(&Apartment, None, 0, size)?;
    let mut studio = Studio::new(Apartment.camera(), size);
    let mut glance = Studio::new(Apartment.camera(), 32);
    let mut sheet = Picture::filled(columns * size, rows * size, [0; 3]);
    for place in 0..rows * columns {
        let mut episode = Apartment.walk(&recording, place)?;
        let frames = (0..episode.course().poses.len()).step_by(5);
        let mut pieces = |frame: &usize| {
            let pose = episode.course().poses[*frame];
            let mut seen = glance.render(episode.scene(*frame), &pose).objects.clone();
            seen.sort_unstable();
            seen.dedup();
            seen.len()
        };
        let fullest = frames.max_by_key(&mut pieces);
        let one = view(&mut episode, fullest.unwrap_or(0), &mut studio, size);
        sheet.paste(&one, place % columns * size, place / columns * size);
    }
    Ok(sheet)
}

fn view(episode: &mut impl Episode, frame: usize, studio: &mut Studio, size: u32) -> Picture {
    let pose = episode.course().poses[frame];
    let pixels = studio.render(episode.scene(frame), &pose).rgb.clone();
    Picture { width: size, height: size, pixels }
}
