//! `far demo`: all of Future-Aware Recall in a few minutes, on a laptop.
//!
//! It records walks through villages, fits a tokenizer, pretrains encoders, and trains a world
//! model on mixed contexts while retrievers learn from its credit. Then every arm recalls for the
//! same world model on held-out villages, and a page shows what was recalled and why. Step counts
//! are fixed, so a seed gives the same result on any machine.

mod contest;
mod judgment;
mod separate;
mod walks;

use crate::commands::beside::{BesideArguments, Companion};
use crate::commands::compute::ComputeArguments;
use crate::commands::train::{explain, finish, located, preparation};
use crate::commands::{arm_table, report};
use crate::stage;
use anyhow::Context;
use clap::Args;
use far_eval::{Results, summary};
use far_train::{
    Arm, ArmConfig, ArmTraining, Contender, CueRegistry, Existing, FolderLock, PreparedData,
    RunCheck, RunFolder, Session, TrainConfig, check_arms,
};
use serde_json::{Value, to_value};
use std::path::{Path, PathBuf};
use std::time::Instant;
use walks::Walks;

/// The learned arms and the paper's rules; every other published rule is compared besides.
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
    /// Variant of the village: static (from A to B and back), patrol (the same round again) or
    /// changing (patrol, while paint, doors and stalls change).
    #[arg(long, default_value = "static")]
    variant: String,
    /// Number of walks, a fifth of them held out (default: 120, or 20 with --quick).
    #[arg(long)]
    episodes: Option<u32>,
    #[command(flatten)]
    beside: BesideArguments,
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
    // A quick demo has a place of its own: neither stands in the way of the other.
    let out = match arguments.quick {
        true => arguments.out.join("quick"),
        false => arguments.out.clone(),
    };
    let (data, run) = (out.join("village"), out.join("common"));
    let sets = overlays(arguments, &data);
    let config = located(TrainConfig::resolve_all("demo", &sets).map_err(explain)?);
    let arms = named_arms(&config.arm).map_err(explain)?;
    let companions = companions(arguments, &sets).map_err(explain)?;
    let walks = Walks::new(arguments, &config)?;
    let existing = if arguments.fresh { Existing::Discard } else { Existing::Resume };
    let device = config.compute.open().map_err(explain)?;
    // Everything is checked before anything is deleted or recorded.
    check_arms(&config, &companions, &walks.description(), &data).map_err(explain)?;
    RunFolder::look(&run, &config, existing).map_err(explain)?;
    walks.check(&data, arguments.fresh)?;
    let _lock = FolderLock::take(&out, "demo.lock").map_err(explain)?;
    if arguments.fresh && data.join("dataset.json").exists() {
        std::fs::remove_dir_all(&data)
            .with_context(|| format!("cannot remove {}", data.display()))?;
    }
    stage::begin(if arguments.quick { EXPECTED_QUICK } else { EXPECTED });
    walks.record(&data)?;
    stage::next("preparing tokenizer and encoders");
    RunCheck::new(&config, &companions, &device).map_err(explain)?;

    let session = Session::now(device.to_string(), rayon::current_num_threads());
    let mut folder = RunFolder::open(&run, &config, existing, session).map_err(explain)?;
    let cues = CueRegistry::of(&config);
    let prepared =
        PreparedData::open_with(&config, &arms, &cues, &run, &device, &mut preparation());
    let prepared = prepared.map_err(explain)?;
    let mut training = ArmTraining::with_companions(&prepared, &companions).map_err(explain)?;
    stage::next("training the world model and its retrievers");
    finish(&mut training, &mut folder, &config.training)?;
    training.save_retrievers(&out).map_err(explain)?;
    let seconds = folder.seconds();
    stage::next("evaluating every arm on held-out walks");
    let judged = judgment::common(&prepared, &training, seconds, &run).map_err(explain)?;
    let page = report::write_page(&run)?;
    let mut tables = vec![("common", COMMON, judged)];
    let protocols = [
        (arguments.separate, "separate", SEPARATE, &ARMS[..]),
        (arguments.ablation, "ablation", ABLATION, &PARTS[..]),
    ];
    for (_, name, title, arms) in protocols.into_iter().filter(|(wanted, ..)| *wanted) {
        let judged = separate::run(&sets, &out, (name, arms), &training, &device)?;
        tables.push((name, title, judged));
        report::write_page(&out.join(name))?;
    }
    tell(arguments, &tables, &page, start)
}

/// About how many seconds recording, preparation, training and evaluation take on two cores.
const EXPECTED: [f64; 4] = [25.0, 30.0, 150.0, 60.0];
const EXPECTED_QUICK: [f64; 4] = [4.0, 4.0, 4.0, 12.0];

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
        let (shown, left_out) = contest::abridged(results);
        arm_table::print(&shown, &SHOWN);
        if !left_out.is_empty() {
            println!("  weaker, on the page: {}", left_out.join(", "));
        }
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
            "evaluation.replays=2",
        ];
        sets.extend(quick.map(str::to_owned));
    }
    sets.extend(arguments.sets.iter().cloned());
    sets.extend(arguments.compute.sets());
    sets
}

/// The retrievers that learn beside the leading one, each by its name with its configuration.
fn companions(arguments: &Arguments, sets: &[String]) -> far_train::Result<Vec<Companion>> {
    let meta = Contender::parse("far-meta")?;
    let mut all = vec![(meta.name.clone(), meta.config("demo", sets)?)];
    all.extend(arguments.beside.companions("demo", sets)?);
    Ok(all)
}

/// The compared arms, with the configuration's settings.
fn named_arms(config: &ArmConfig) -> far_train::Result<Vec<Arm>> {
    contest::arms().map(|id| ArmConfig { id: id.to_owned(), ..config.clone() }.arm()).collect()
}
