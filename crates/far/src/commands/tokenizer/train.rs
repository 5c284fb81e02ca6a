//! `far tokenizer train`: trains an autoencoder of the TAESD family from scratch.

use crate::commands::compute::ComputeArguments;
use crate::commands::train::explain;
use crate::commands::unfinished::Unfinished;
use crate::hint::Hint;
use crate::interrupt::{self, Interrupted};
use crate::progress;
use clap::Args;
use far_data::Dataset;
use far_model::{PerceptualLoss, TaesdLosses, TaesdStructure, TaesdTraining};
use far_tensor::{DeviceChoice, Precision};
use far_train::{ComputeConfig, PictureSampler, TokenizerTraining};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time between two saves of the state.
const SAVE_EVERY: Duration = Duration::from_secs(60);
/// Updates over which the shown losses are averaged.
const SHOWN: f32 = 50.0;

/// Arguments of `far tokenizer train`.
#[derive(Args)]
#[command(
    after_help = "Example: far tokenizer train --data data/village --data data/mine --out mine.safetensors\n\
    then:    far train --config default --data data/mine --out runs/own --set tokenizer.kind=mine.safetensors\n\n\
    Run the same command again to resume an interrupted one."
)]
pub struct Arguments {
    /// Folder of a dataset whose training split is learned from; repeatable, each counts alike.
    #[arg(long, required = true)]
    data: Vec<PathBuf>,
    /// The file to write.
    #[arg(long)]
    out: PathBuf,
    /// Number of updates, over which the learning rate falls to zero.
    #[arg(long, default_value_t = 20_000)]
    steps: u64,
    /// Pictures of 128 × 128 pixels per update, or as many pixels of smaller frames.
    #[arg(long, default_value_t = 16)]
    batch: usize,
    /// Channels of a latent, at an eighth of the resolution.
    #[arg(long, default_value_t = TaesdStructure::OWN.channels)]
    channels: usize,
    /// Learning rate at the beginning.
    #[arg(long, default_value_t = 1e-3)]
    learning_rate: f32,
    /// Stop after so many minutes and write what was learned by then.
    #[arg(long)]
    minutes: Option<f64>,
    /// Seed of weights, pictures and noise.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    compute: ComputeArguments,
    /// Discard an existing or unfinished tokenizer and start again.
    #[arg(long)]
    fresh: bool,
    /// Print one JSON object instead of sentences.
    #[arg(long)]
    json: bool,
}

/// Trains a tokenizer.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.steps == 0 || arguments.batch == 0 || !(1..=64).contains(&arguments.channels) {
        let hint = "--steps and --batch start at 1, --channels lie in 1 to 64";
        return Err(Hint::error("there is nothing to train", hint));
    }
    let unfinished = Unfinished::of(&arguments.out);
    let state = unfinished.path();
    if !arguments.fresh && unfinished.is_finished() {
        let hint = "give another --out, or --fresh to train it again";
        return Err(Hint::error(format!("{} already exists", arguments.out.display()), hint));
    }
    let open = |folder: &PathBuf| Dataset::open(folder).map_err(explain);
    let datasets = arguments.data.iter().map(open).collect::<anyhow::Result<Vec<_>>>()?;
    let sampler =
        PictureSampler::new(datasets, arguments.batch, arguments.seed).map_err(explain)?;
    let below = ComputeConfig { device: DeviceChoice::Auto, precision: Precision::Bf16 };
    let device = arguments.compute.over(&below).open().map_err(explain)?;
    let perceptual = PerceptualLoss::find(&device).map_err(explain)?;
    let sees = perceptual.is_some();
    if !sees {
        eprintln!(
            "note: without a perceptual loss, whose network scripts/make_lpips_weights.py puts into the cache, \
             pictures come out softer"
        );
    }
    let structure = TaesdStructure { channels: arguments.channels, ..TaesdStructure::OWN };
    let Arguments { steps, learning_rate, seed, .. } = *arguments;
    let training = TaesdTraining::new(structure, learning_rate, steps, seed, perceptual, &device);
    let mut training = TokenizerTraining::new(sampler, training, identity(arguments, sees));
    // Everything is known to work before anything is deleted.
    let _lock = unfinished.begin(arguments.fresh)?;
    if state.exists() {
        training.go_on(state).map_err(explain)?;
        eprintln!("resuming from update {}", training.done());
    }
    let (before, start) = (training.done(), Instant::now());
    let (losses, interrupted) =
        interrupt::while_watched(|stop| learn(&mut training, arguments, state, stop))
            .map_err(explain)?;
    let seconds = start.elapsed().as_secs_f64();
    if interrupted {
        return Err(Interrupted::after(training.done()));
    }
    training.save(&arguments.out).map_err(explain)?;
    unfinished.remove()?;
    let milliseconds = 1e3 * seconds / (training.done() - before).max(1) as f64;
    let TaesdLosses { absolute, perceptual, spread } = losses;
    if arguments.json {
        let json = serde_json::json!({
            "out": arguments.out, "steps": training.done(), "seconds": seconds,
            "milliseconds_per_step": milliseconds, "absolute": absolute,
            "perceptual": sees.then_some(perceptual), "spread": spread,
        });
        println!("{json}");
    } else {
        println!(
            "wrote {} after {} updates ({milliseconds:.1} ms each): colors are off by {:.2} of 255 on average",
            arguments.out.display(),
            training.done(),
            255.0 * absolute
        );
    }
    Ok(())
}

/// What decides the training, as text.
fn identity(arguments: &Arguments, sees: bool) -> String {
    let Arguments { data, steps, batch, channels, learning_rate, seed, .. } = arguments;
    format!(
        "{data:?} {steps} updates batch {batch} channels {channels} rate {learning_rate} seed {seed} \
         perceptual {sees}"
    )
}

/// Makes the updates that are left; returns the losses of the last ones, and whether somebody
/// interrupted it.
fn learn(
    training: &mut TokenizerTraining,
    arguments: &Arguments,
    state: &Path,
    stop: &AtomicBool,
) -> far_train::Result<(TaesdLosses, bool)> {
    let bar = progress::bar(arguments.steps, "updates");
    bar.set_position(training.done());
    bar.reset_eta();
    let start = Instant::now();
    let most = arguments.minutes.map(|minutes| Duration::from_secs_f64(60.0 * minutes.max(0.0)));
    let (mut shown, mut saved): (Option<TaesdLosses>, _) = (None, start);
    let mut interrupted = false;
    training.run(arguments.steps, |step| {
        let mean = shown.get_or_insert(step.losses);
        let follow = |mean: &mut f32, new: f32| *mean += (new - *mean) / SHOWN;
        follow(&mut mean.absolute, step.losses.absolute);
        follow(&mut mean.perceptual, step.losses.perceptual);
        follow(&mut mean.spread, step.losses.spread);
        bar.set_message(format!(
            "off by {:.2}, looks {:.4}",
            255.0 * mean.absolute,
            mean.perceptual
        ));
        bar.inc(1);
        interrupted = stop.load(Ordering::Relaxed);
        if interrupted || saved.elapsed() > SAVE_EVERY {
            step.keep(state)?;
            saved = Instant::now();
        }
        Ok(!interrupted && most.is_none_or(|most| start.elapsed() < most))
    })?;
    bar.finish_and_clear();
    Ok((shown.unwrap_or_default(), interrupted))
}
