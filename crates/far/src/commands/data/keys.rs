//! `far data keys`: embeddings of your own network as a column that can be a cue.

use std::path::PathBuf;

use clap::Args;
use far_data::{Dataset, add_key_column};

use super::explain;

/// Which keys to add.
#[derive(Args)]
#[command(after_help = "Example: far data keys data/chess --from dino.safetensors --name dino\n\n\
    FILE holds a tensor `keys` [all frames, n], or one per episode [frames, n] named by the six digits of its id.")]
pub struct Arguments {
    /// The dataset's folder; its episode files are written again.
    dataset: PathBuf,
    /// The safetensors file with the keys.
    #[arg(long)]
    from: PathBuf,
    /// Name of the column.
    #[arg(long, default_value = "embedding")]
    name: String,
}

/// Adds keys.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let dataset = Dataset::open(&arguments.dataset).map_err(explain)?;
    let (keys, width) =
        add_key_column(&dataset, &arguments.name, &arguments.from).map_err(explain)?;
    let name = &arguments.name;
    println!("{keys} keys of {width} numbers are column `{name}`");
    println!(
        "next: far train … --set 'cues.{name}={{ column = \"{name}\" }}' --set arm.cue={name}"
    );
    Ok(())
}
