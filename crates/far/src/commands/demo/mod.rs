//! `far demo`: all of Future-Aware Recall in a few minutes, on a laptop.
//!
//! It records walks through villages, fits a tokenizer, pretrains encoders, and trains a world
//! model on mixed contexts while retrievers learn from its credit. Then every arm recalls for the
//! same world model on held-out villages, and a page shows what was recalled and why. Step counts
//! are fixed, so a seed gives the same result on any machine.

mod judgment;
mod separate;

use crate::commands::compute::ComputeArguments;
use crate::commands::train::{View, explain, preparation};
use crate::commands::{arm_table, report};
use crate::hint::Hint;
use crate::{interrupt, progress};
use anyhow::Context;
use clap::Args;
use far_data::Dataset;
use far_eval::{Results, summary};
use far_train::{
    Arm, ArmConfig, ArmTraining, Ending, Existing, PreparedData, RunFolder, Session, TrainConfig,
};
use far_world::{Progress, Recording};
use serde_json::{Value, to_value};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The compared arms, the learned ones first.
const ARMS: [&str; 7] =
    ["far-multi", "far-meta", "worldmem", "temporal", "longlive-rag", "nearest-pose", "random"];

/// The paper's ablation: from a frozen encoder alone to learned weights of two cues.
const PARTS: [&str; 4] = ["far-vision-frozen", "far-vision", "far-multi-equal", "far-multi"];

/// Arguments of `far demo`.
#[derive(Args)]
#[command(after_help = "Example: far demo --out runs/demo --seed 1

Run the same command again to resume; a finished demo is only evaluated again.")]
pub struct Arguments {
    /// Folder for everything that the demo writes.
    #[arg(long, default_value = "runs/demo")]
    out: PathBuf,
    /// Seed of the villages, of all networks and of all noise.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Run in under a minute, to show how it works; the figures mean nothing.
    #[arg(long)]
    quick: bool,
    /// Also train a world model for every arm: the paper's protocol.
    #[arg(long)]
    separate: bool,
    /// Also train the paper's ablation: frozen encoder, + adapter, + pose and time at equal
    /// weights, + learned weights.
    #[arg(long)]
    ablation: bool,
    /// Variant of the village: patrol (static) or changing (paint, doors and stalls change).
    #[arg(long, default_value = "patrol")]
    variant: String,
    /// Number of walks, a fifth of them held out (default: 120, or 20 with --quick).
    #[arg(long)]
    episodes: Option<u32>,
    /// Override a setting of configs/demo.toml: --set training.steps=2000; repeatable.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    #[command(flatten)]
    compute: ComputeArguments,
    /// Delete existing files in the folder and start again.
    #[arg(long)]
    fresh: bool,
    /// Print the results as JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// Runs the demo.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let start = Instant::now();
    let data = arguments.out.join("village");
    let sets = overlays(arguments, &data);
    let config = configuration(&sets).map_err(explain)?;
    let episodes = arguments.episodes.unwrap_or(if arguments.quick { 20 } else { 120 });
    if arguments.fresh && arguments.out.join("village/dataset.json").exists() {
        std::fs::remove_dir_all(&data)
            .with_context(|| format!("cannot remove {}", data.display()))?;
    }
    let size = config.tokenizer.patch_pca.resolution[0] as u32;
    record(&data, &arguments.variant, episodes, arguments.seed, size)?;

    let device = config.compute.open().map_err(explain)?;
    let run = arguments.out.join("common");
    let existing = if arguments.fresh { Existing::Discard } else { Existing::Resume };
    let session = Session::now(device.to_string(), rayon::current_num_threads());
    let mut folder = RunFolder::open(&run, &config, existing, session).map_err(explain)?;
    let arms = named_arms(&config.arm).map_err(explain)?;
    let prepared = PreparedData::open_for(&config, &arms, &run, &device, &mut preparation());
    let prepared = prepared.map_err(explain)?;
    let mut training = ArmTraining::with_companions(&prepared, &["far-meta"]).map_err(explain)?;
    let mut view = View::new(config.training.steps);
    let stop = interrupt::listen();
    let ending = far_train::train(&mut training, &mut folder, &config.training, stop, &mut view);
    view.end();
    if let Ending::Stopped(step) = ending.map_err(explain)? {
        println!("stopped after step {step}; run the same command again to resume");
        return Ok(());
    }
    for retriever in training.joint().retrievers() {
        let path = arguments.out.join(format!("{}.safetensors", retriever.name()));
        retriever.policy().save(&path)?;
    }
    let seconds = folder.seconds();
    let judged = judgment::common(&prepared, &training, seconds, &run).map_err(explain)?;
    let page = report::write_page(&run)?;
    let mut tables = vec![("common", COMMON, judged)];
    let protocols = [
        (arguments.separate, "separate", SEPARATE, &ARMS[..]),
        (arguments.ablation, "ablation", ABLATION, &PARTS[..]),
    ];
    for (_, name, title, arms) in protocols.into_iter().filter(|(wanted, ..)| *wanted) {
        let judged = separate::run(&sets, &arguments.out, (name, arms), &training, &device);
        tables.push((name, title, judged.map_err(explain)?));
        report::write_page(&arguments.out.join(name))?;
    }
    tell(arguments, &tables, &page, start)
}

/// Metrics in the tables.
const SHOWN: [&str; 4] = ["recall_quality", "psnr", "one_step_psnr", "psnr_raw"];
/// Titles of the tables.
const COMMON: &str = "one world model reads what every arm recalls";
const SEPARATE: &str = "every arm with a world model of its own, trained on what it recalls";
const ABLATION: &str = "the parts of learned recall, each with a world model of its own";

/// Prints the results.
fn tell(
    arguments: &Arguments,
    tables: &[(&str, &str, Results)],
    page: &Path,
    start: Instant,
) -> anyhow::Result<()> {
    if arguments.json {
        let all =
            tables.iter().map(|(name, _, results)| Ok(((*name).to_owned(), to_value(results)?)));
        let all = all.collect::<serde_json::Result<serde_json::Map<String, Value>>>()?;
        println!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(());
    }
    for (_, title, results) in tables {
        println!("{title} ({} held-out walks):\n", results.clips);
        arm_table::print(results, &SHOWN);
        println!();
    }
    if arguments.quick {
        println!("This was --quick: it shows how things work; the figures mean nothing.");
    } else {
        summary(&tables[0].2).iter().for_each(|sentence| println!("{sentence}"));
    }
    println!("\nopen {} ({:.0} s)", page.display(), start.elapsed().as_secs_f64());
    Ok(())
}

/// Settings that the arguments override in configs/demo.toml.
fn overlays(arguments: &Arguments, data: &Path) -> Vec<String> {
    let mut sets = vec![
        format!("data.folder={:?}", data.to_string_lossy()),
        format!("training.seed={}", arguments.seed),
    ];
    if arguments.quick {
        let quick = [
            "training.steps=40",
            "training.evaluate_every=0",
            "training.log_every=2",
            "encoder.pretraining.steps=20",
            "longlive.steps=20",
            "evaluation.clips=3",
            "evaluation.questions=2",
            "evaluation.most_steps=4",
            "evaluation.utility_pool=12",
            "evaluation.sampler.steps=5",
            "evaluation.replays=2",
        ];
        sets.extend(quick.map(str::to_owned));
    }
    sets.extend(arguments.sets.iter().cloned());
    sets.extend(arguments.compute.sets());
    sets
}

fn configuration(sets: &[String]) -> far_train::Result<TrainConfig> {
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    TrainConfig::resolve("demo", &sets)
}

/// The compared arms, with the configuration's settings.
fn named_arms(config: &ArmConfig) -> far_train::Result<Vec<Arm>> {
    ARMS.iter().map(|id| ArmConfig { id: (*id).to_owned(), ..config.clone() }.arm()).collect()
}

/// Records the walks, or those that are missing.
fn record(
    folder: &Path,
    variant: &str,
    episodes: u32,
    seed: u64,
    size: u32,
) -> anyhow::Result<Dataset> {
    let world = far_world::world("village")?;
    let recording = Recording::new(world, Some(variant), seed, size)?;
    let bar = progress::bar(u64::from(episodes), "walks recorded");
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let recorded =
        far_world::record(world, &recording, episodes, folder, threads, &|news| match news {
            Progress::Start { kept, .. } => bar.set_position(kept as u64),
            Progress::Episode => bar.inc(1),
            Progress::Frame => {}
        });
    bar.finish_and_clear();
    recorded.map_err(|error| {
        Hint::error(error.to_string(), "give another --out, or --fresh to start again")
    })?;
    Ok(Dataset::open(folder)?)
}
