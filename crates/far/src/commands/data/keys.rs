//! `far data keys`: embeddings of a network as a column that can be a cue.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use far_data::{Dataset, add_key_column, add_made_keys};
use far_model::{CueEncoder, KeyEncoder, PatchPca, Tokenizer};
use far_tensor::Device;
use far_train::TrainConfig;

use super::explain;
use crate::progress;

/// The tokenizer of a run, beside its encoders.
const TOKENIZER: &str = "tokenizer.safetensors";

/// The configuration of a run, which says what kind of tokenizer it has.
const CONFIG: &str = "config.toml";

/// Which keys to add.
#[derive(Args)]
#[command(after_help = "Example: far data keys data/chess --from dino.safetensors --name dino\n\n\
    --from: a tensor `keys` [all frames, n], or one per episode [frames, n] named by the six digits of its id.\n\
    --encoder: the encoder of a run, such as runs/a/encoder-vision.safetensors, on other data; the run's tokenizer lies beside it.")]
pub struct Arguments {
    /// The dataset's folder; its episode files are written again.
    dataset: PathBuf,
    /// A safetensors file with the keys.
    #[arg(long, required_unless_present = "encoder", conflicts_with = "encoder")]
    from: Option<PathBuf>,
    /// An encoder of `far train` that makes the keys.
    #[arg(long)]
    encoder: Option<PathBuf>,
    /// Name of the column.
    #[arg(long, default_value = "embedding")]
    name: String,
}

/// Adds keys.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let dataset = Dataset::open(&arguments.dataset).map_err(explain)?;
    let name = &arguments.name;
    let (keys, width) = match (&arguments.from, &arguments.encoder) {
        (Some(file), _) => add_key_column(&dataset, name, file).map_err(explain)?,
        (None, Some(file)) => {
            encode(&dataset, name, file).map_err(crate::commands::train::explain)?
        }
        (None, None) => unreachable!("one of the two is required"),
    };
    println!("{keys} keys of {width} numbers are column `{name}`");
    println!(
        "next: far train … --set 'cues.{name}={{ column = \"{name}\" }}' --set arm.cue={name}"
    );
    Ok(())
}

/// Keys of all frames by an encoder and the tokenizer beside it.
fn encode(dataset: &Dataset, name: &str, file: &Path) -> far_train::Result<(usize, usize)> {
    let encoder = KeyEncoder::load(file, &Device::cpu())?;
    let tokenizer = tokenizer(dataset, file)?;
    encoder.check_input(&tokenizer.recipe())?;
    let bar = progress::bar(dataset.len() as u64, "episodes");
    let added =
        add_made_keys(dataset, name, encoder.dimension(), |id| -> far_model::Result<Vec<f32>> {
            let episode = dataset.episode(id)?;
            let frames: Vec<usize> = (0..episode.len()).collect();
            let latents = tokenizer.encode(&episode, &frames)?;
            bar.inc(1);
            encoder.keys(&latents)
        });
    bar.finish_and_clear();
    Ok(added?)
}

/// The tokenizer of the run that an encoder lies in. One that was copied out of its run lies beside a
/// fitted tokenizer.
fn tokenizer(dataset: &Dataset, encoder: &Path) -> far_train::Result<Arc<dyn Tokenizer>> {
    let [file, config] = [TOKENIZER, CONFIG].map(|name| encoder.with_file_name(name));
    if !config.exists() {
        return Ok(Arc::new(PatchPca::load(&file)?));
    }
    let settings = TrainConfig::resolve(&config.to_string_lossy(), &[])?.tokenizer;
    let kept = match settings.is_fitted() || file.exists() {
        true => settings.load(&file, dataset, &Device::cpu())?,
        false => None,
    };
    match kept {
        Some(kept) => Ok(kept),
        // Networks too large to be kept, and latents that came with the data.
        None => settings.build(dataset, &[], &Device::cpu()),
    }
}
