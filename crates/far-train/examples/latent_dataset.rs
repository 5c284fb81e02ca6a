//! Writes a small dataset that has everything a configuration asks for, with latents of the size that the
//! paper has for it, so
//! that any configuration can be tried before its corpus and its encoder are at hand:
//!
//! ```sh
//! cargo run --release -p far-train --example latent_dataset -- paper-thor data/latents
//! ```

use far_train::{TrainConfig, synthetic};
use std::path::PathBuf;

/// Frames explored and returned through: more than any pool and horizon of the presets.
const FRAMES: [u32; 2] = [420, 140];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(preset), Some(folder)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: latent_dataset PRESET|FILE.toml FOLDER");
        std::process::exit(2);
    };
    let config = TrainConfig::resolve(&preset, &[])?;
    let folder = PathBuf::from(folder);
    synthetic::write(&config, synthetic::latents_of(&preset), &folder, FRAMES)?;
    println!("{}: latents and columns for {preset}", folder.display());
    Ok(())
}
