//! `far pretrain`: pretrains an encoder contrastively, so that a query's key finds views of the
//! goal.

use super::compute::ComputeArguments;
use super::train::explain;
use crate::hint::Hint;
use crate::progress;
use anyhow::Context;
use clap::Args;
use far_data::{ContrastiveConfig, Split};
use far_model::{CueEncoder, EncodedDataset, KeyEncoder};
use far_tensor::Device;
use far_train::{Contrastive, CueRegistry, Retrieval, TrainConfig, retrieval};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time between two saves of the state, so that an interrupted run loses little.
const SAVE_EVERY: Duration = Duration::from_secs(10);
/// Updates over which the shown loss and accuracy are averaged.
const SHOWN: f32 = 25.0;
/// Steps of held-out queries for the evaluation.
const JUDGED: u64 = 16;

/// Arguments of `far pretrain`.
#[derive(Args)]
#[command(
    after_help = "Example: far pretrain --data data/village --config quick --out encoder.safetensors\n\n\
    Run the same command again to resume an interrupted one."
)]
pub struct Arguments {
    /// Folder of the dataset (default: the configuration's data.folder).
    #[arg(long)]
    data: Option<PathBuf>,
    /// The file to write.
    #[arg(long)]
    out: PathBuf,
    /// A preset or the path of a .toml file; the sections data, tokenizer, audio, encoder and
    /// arm.cue are used.
    #[arg(long, default_value = "default")]
    config: String,
    /// Override a setting: --set encoder.width=128; repeatable.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Number of updates (default: the configuration's encoder.pretraining.steps).
    #[arg(long)]
    steps: Option<u64>,
    /// Seed of weights and samples (default: the configuration's training.seed).
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    compute: ComputeArguments,
    /// Discard an existing or unfinished encoder and start again.
    #[arg(long)]
    fresh: bool,
    /// Print one JSON object instead of sentences.
    #[arg(long)]
    json: bool,
}

/// Trains an encoder.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let config = configuration(arguments).map_err(explain)?;
    let state = state_path(&arguments.out);
    clear(arguments, &state)?;
    let (seed, cpu) = (config.training.seed, Device::cpu());
    let device = config.compute.open().map_err(explain)?;
    let encoded = config.data.open(&config.tokenizer, &device);
    let encoded = with_feature(encoded.map_err(explain)?, &config).map_err(explain)?;
    encode(&encoded)?;

    let sampling = config.encoder.sampling(&config.data, seed);
    let (network, training) = (config.encoder.network(), config.encoder.training(seed));
    let cue = &config.arm.cue;
    let mut contrastive =
        Contrastive::new(&encoded, cue, sampling.clone(), network, training, &device)
            .map_err(explain)?;
    if let Some(from) = &config.encoder.pretraining.from {
        let from = KeyEncoder::load(from, &cpu).map_err(|error| explain(error.into()))?;
        contrastive.begin_with(&from).map_err(explain)?;
    }
    if state.exists() {
        contrastive.resume(&state).map_err(explain)?;
        eprintln!("resuming from update {}", contrastive.done());
    }
    let (updates, start) = (contrastive.done(), Instant::now());
    train(&mut contrastive, &state).map_err(explain)?;
    let seconds = start.elapsed().as_secs_f64();
    let updates = contrastive.done() - updates;

    let encoder = contrastive.encoder().map_err(explain)?;
    let held_out = ContrastiveConfig { split: Split::Test, ..sampling };
    // A dataset without a test split can still be trained on.
    let found = retrieval(&encoded, &encoder, &held_out, JUDGED).ok();
    encoder.save(&arguments.out).map_err(|error| explain(error.into()))?;
    remove(&state)?;
    let milliseconds = 1e3 * seconds / updates.max(1) as f64;
    if arguments.json {
        let json = serde_json::json!({
            "out": arguments.out, "steps": contrastive.done(), "seconds": seconds,
            "milliseconds_per_step": milliseconds, "key": encoder.dimension(), "held_out": found,
        });
        println!("{json}");
    } else {
        println!(
            "wrote {} after {} updates ({updates} now, {milliseconds:.1} ms each)",
            arguments.out.display(),
            contrastive.done()
        );
        println!("{}", describe(found, &held_out));
    }
    Ok(())
}

/// The dataset with the cue's input column, if its input is not latents.
fn with_feature(
    encoded: EncodedDataset,
    config: &TrainConfig,
) -> far_train::Result<EncodedDataset> {
    let feature = CueRegistry::of(config).feature(&config.arm.cue, encoded.dataset())?;
    Ok(encoded.with_features(feature.into_iter().collect()))
}

fn configuration(arguments: &Arguments) -> far_train::Result<TrainConfig> {
    let mut sets = arguments.sets.clone();
    let given = [("encoder.pretraining.steps", arguments.steps), ("training.seed", arguments.seed)];
    for (key, value) in given {
        sets.extend(value.map(|value| format!("{key}={value}")));
    }
    sets.extend(arguments.compute.sets());
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    let mut config = TrainConfig::resolve(&arguments.config, &sets)?;
    if let Some(folder) = &arguments.data {
        config.data.folder.clone_from(folder);
    }
    Ok(config)
}

/// The file that holds an unfinished training.
fn state_path(out: &Path) -> PathBuf {
    let mut name = out.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    out.with_file_name(name)
}

/// Discards an unfinished training with --fresh; otherwise rejects an existing result.
fn clear(arguments: &Arguments, state: &Path) -> anyhow::Result<()> {
    if arguments.fresh {
        return remove(state);
    }
    if arguments.out.exists() && !state.exists() {
        return Err(Hint::error(
            format!("{} already exists", arguments.out.display()),
            "give another --out, or --fresh to train it again",
        ));
    }
    Ok(())
}

fn remove(path: &Path) -> anyhow::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

fn encode(encoded: &EncodedDataset) -> anyhow::Result<()> {
    let episodes: Vec<u32> = encoded.dataset().ids().collect();
    let bar = progress::bar(episodes.len() as u64, "episodes");
    bar.set_message("encoding frames");
    encoded.prepare(&episodes, || bar.inc(1)).map_err(|error| explain(error.into()))?;
    bar.finish_and_clear();
    Ok(())
}

/// Runs the remaining updates.
fn train(contrastive: &mut Contrastive<'_>, state: &Path) -> far_train::Result<()> {
    let steps = contrastive.config().steps;
    let bar = progress::bar(steps, "updates");
    bar.set_position(contrastive.done());
    bar.reset_eta();
    let (mut loss, mut accuracy, mut saved) = (None, None, Instant::now());
    while contrastive.done() < steps {
        let step = contrastive.step()?;
        let follow =
            |mean: Option<f32>, new: f32| mean.map_or(new, |mean| mean + (new - mean) / SHOWN);
        let shown = [follow(loss, step.loss), follow(accuracy, step.accuracy)];
        [loss, accuracy] = shown.map(Some);
        bar.set_message(format!("loss {:.3}, {:.0} % right", shown[0], 100.0 * shown[1]));
        bar.inc(1);
        if saved.elapsed() > SAVE_EVERY {
            contrastive.save(state)?;
            saved = Instant::now();
        }
    }
    bar.finish_and_clear();
    Ok(())
}

/// The quality of the encoder, in a sentence.
fn describe(found: Option<Retrieval>, held_out: &ContrastiveConfig) -> String {
    let Some(found) = found else {
        return "the dataset has no held-out episodes to evaluate it on".into();
    };
    let percent = |share: f64| 100.0 * share;
    format!(
        "on {} held-out queries that have a memory within {} m of the goal ({:.0} % of all), {:.0} % \
         of the three best memories are such; at random {:.0} % would be",
        found.queries,
        held_out.radius,
        percent(found.answerable),
        percent(found.top_three),
        percent(found.chance)
    )
}
