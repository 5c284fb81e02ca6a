//! `far pretrain`: pretrains an encoder contrastively, so that a query's key finds views of the
//! goal.

use super::compute::ComputeArguments;
use super::train::explain;
use super::unfinished::Unfinished;
use crate::hint::Hint;
use crate::interrupt::{self, Interrupted};
use crate::stage::Stage;
use clap::Args;
use far_data::{ContrastiveConfig, Split};
use far_model::{CueEncoder, EncodedDataset, KeyEncoder};
use far_tensor::Device;
use far_train::{Contrastive, CueRegistry, Retrieval, TrainConfig, retrieval};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
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
    let unfinished = Unfinished::of(&arguments.out);
    let state = unfinished.path();
    let (seed, cpu) = (config.training.seed, Device::cpu());
    let device = config.compute.open().map_err(explain)?;
    let encoded = config.data.open(&config.tokenizer, &device);
    let encoded = with_feature(encoded.map_err(explain)?, &config).map_err(explain)?;
    let sampling = config.encoder.sampling(&config.data, seed);
    let (network, training) = (config.encoder.network(), config.encoder.training(seed));
    let cue = &config.arm.cue;
    let mut contrastive =
        Contrastive::new(&encoded, cue, sampling.clone(), network, training, &device)
            .map_err(explain)?;
    if let Some(from) = &config.encoder.pretraining.from {
        let from = KeyEncoder::load(from, &cpu).map_err(explain)?;
        contrastive.begin_with(&from).map_err(explain)?;
    }
    let finished = !arguments.fresh && unfinished.is_finished();
    if finished && !contrastive.has_made(&arguments.out) {
        let hint = "give another --out, or --fresh to train it again";
        return Err(Hint::error(format!("{} already exists", arguments.out.display()), hint));
    }
    // Everything is known to work before anything is deleted.
    let _lock = unfinished.begin(arguments.fresh)?;
    encode(&encoded)?;
    let (mut updates, mut seconds) = (0, 0.0);
    let encoder = if finished {
        KeyEncoder::load(&arguments.out, &cpu).map_err(explain)?
    } else {
        resume(&mut contrastive, state).map_err(explain)?;
        let (before, start) = (contrastive.done(), Instant::now());
        interrupt::while_watched(|stop| train(&mut contrastive, state, stop)).map_err(explain)?;
        updates = contrastive.done() - before;
        seconds = start.elapsed().as_secs_f64();
        if contrastive.done() < contrastive.config().steps {
            let (done, steps) = (contrastive.done(), contrastive.config().steps);
            let how = "run the same command again to resume";
            let message = format!("stopped after update {done} of {steps}; {how}");
            return Err(Interrupted::error(message));
        }
        contrastive.encoder().map_err(explain)?
    };
    let held_out = ContrastiveConfig { split: Split::Test, ..sampling };
    // A dataset without a test split can still be trained on.
    let found = retrieval(&encoded, &encoder, &held_out, JUDGED).ok();
    if !finished {
        contrastive.save_encoder(&arguments.out).map_err(explain)?;
    }
    unfinished.remove()?;
    let milliseconds = 1e3 * seconds / updates.max(1) as f64;
    let steps = contrastive.config().steps;
    if arguments.json {
        let json = serde_json::json!({
            "out": arguments.out, "steps": steps, "seconds": seconds,
            "milliseconds_per_step": milliseconds, "key": encoder.dimension(), "held_out": found,
        });
        println!("{json}");
    } else {
        println!(
            "wrote {} after {steps} updates ({updates} now, {milliseconds:.1} ms each)",
            arguments.out.display(),
        );
        println!("{}", describe(found, &held_out));
    }
    Ok(())
}

/// Resumes an unfinished training, if there is one; a damaged one starts again.
fn resume(contrastive: &mut Contrastive<'_>, state: &Path) -> far_train::Result<()> {
    if !state.exists() {
        return Ok(());
    }
    match contrastive.resume(state) {
        Ok(()) => eprintln!("resuming from update {}", contrastive.done()),
        Err(error) if error.is_damage() => eprintln!("warning: beginning again: {error}"),
        Err(error) => return Err(error),
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
    let mut config = TrainConfig::resolve_all(&arguments.config, &sets)?;
    if let Some(folder) = &arguments.data {
        config.data.folder.clone_from(folder);
    }
    Ok(config)
}

fn encode(encoded: &EncodedDataset) -> anyhow::Result<()> {
    let episodes: Vec<u32> = encoded.dataset().ids().collect();
    let bar = Stage::new(episodes.len() as u64, "episodes encoded");
    encoded.prepare(&episodes, || bar.advance()).map_err(explain)?;
    bar.end();
    Ok(())
}

/// Runs the remaining updates, or until it is asked to stop; then what was made is kept.
fn train(
    contrastive: &mut Contrastive<'_>,
    state: &Path,
    stop: &AtomicBool,
) -> far_train::Result<()> {
    let steps = contrastive.config().steps;
    let bar = Stage::new(steps, "updates");
    bar.start_at(contrastive.done());
    let (mut loss, mut accuracy, mut saved) = (None, None, Instant::now());
    while contrastive.done() < steps && !stop.load(Ordering::Relaxed) {
        let step = contrastive.step()?;
        let follow =
            |mean: Option<f32>, new: f32| mean.map_or(new, |mean| mean + (new - mean) / SHOWN);
        let shown = [follow(loss, step.loss), follow(accuracy, step.accuracy)];
        [loss, accuracy] = shown.map(Some);
        bar.note(format!("loss {:.3}, {:.0} % right", shown[0], 100.0 * shown[1]));
        bar.advance();
        if saved.elapsed() > SAVE_EVERY {
            contrastive.save(state)?;
            saved = Instant::now();
        }
    }
    bar.end();
    if contrastive.done() < steps {
        contrastive.save(state)?;
    }
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
