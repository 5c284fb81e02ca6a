//! `far compare`: the paper's protocol. Every arm trains its own world model with the memories it
//! recalls, with the same data, seed, steps and noise; then all are evaluated on the same clips.
//!
//! Tokenizer and encoders are trained once, in the folder of the judge: a world model trained on
//! mixed contexts, which measures recall quality. Each arm is a run trained by its own process,
//! several at once if requested: while one works on the CPU, another uses the GPU.
//!
//! Several seeds are as many comparisons, each in its own folder; what they scored on every clip is
//! merged into one result. `--merge` does the same with scores from other machines.

mod board;
mod comparison;
mod crew;
mod merge;

use super::compute::ComputeArguments;
use super::train::explain;
use super::{eval, report};
use crate::hint::Hint;
use crate::interrupt::Interrupted;
use clap::Args;
use comparison::Comparison;
use far_eval::Results;
use far_train::FolderLock;
use std::path::PathBuf;

/// Arguments of `far compare`.
#[derive(Args)]
#[command(
    after_help = "Example: far compare --data data/village --out runs/village --jobs 3 --device cuda
A few arms: far compare --arm far-multi --arm worldmem --arm near:arm.id=worldmem,arm.settings.view.radius=8 …

Several seeds: far compare --seeds 3 …; or a seed per machine, --set training.seed=1 …, and then
far compare --merge one/scores other/scores --out both

Run the same command again to resume: finished arms are not trained again. far report OUT --markdown
prints the tables."
)]
pub struct Arguments {
    /// A preset or the path of a .toml file, for all arms.
    #[arg(long, default_value = "village")]
    config: String,
    /// Folder of the dataset (default: the configuration's data.folder).
    #[arg(long)]
    data: Option<PathBuf>,
    /// Folder of all runs, results.json, replays/ and report/index.html.
    #[arg(long)]
    out: PathBuf,
    /// An arm: a name from the paper's protocol, an arm's id, or NAME:KEY=VALUE,KEY=VALUE;
    /// repeatable (default: the configuration's arms, otherwise all of the protocol).
    #[arg(long = "arm", value_name = "ARM")]
    arms: Vec<String>,
    /// Override a setting for all arms: --set training.steps=300; repeatable.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    #[command(flatten)]
    compute: ComputeArguments,
    /// Number of seeds, from training.seed on: every arm is trained and evaluated with each, in
    /// OUT/seed-N, and the results are over all of them.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Train nothing: merge the scores in these folders or files, which other comparisons of the
    /// same arms with other seeds have left in scores/.
    #[arg(long, value_name = "PATH", num_args = 1..,
        conflicts_with_all = ["data", "arms", "sets", "seeds", "jobs", "lpips", "dreamsim", "fresh"])]
    merge: Vec<PathBuf>,
    /// Number of arms trained at once; they share the cores.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    #[command(flatten)]
    weights: eval::Weights,
    /// Delete existing runs in the folder and start again.
    #[arg(long)]
    fresh: bool,
    /// Print the results as JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// Trains and evaluates all arms with every seed, and prints the results.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if !arguments.merge.is_empty() {
        let results = merge::merged(&arguments.merge, &arguments.out)?;
        return print(arguments, &results);
    }
    if arguments.jobs == 0 || arguments.seeds == 0 {
        return Err(Hint::usage("nothing to train", "--jobs and --seeds start at 1"));
    }
    let seeds = Comparison::all(arguments).map_err(explain)?;
    for warning in seeds[0].warnings() {
        eprintln!("warning: {warning}");
    }
    // Everything is checked before anything is deleted or written.
    for comparison in &seeds {
        comparison.check().map_err(explain)?;
    }
    let _lock = FolderLock::take(&arguments.out, "compare.lock").map_err(explain)?;
    let mut results = None;
    for (number, comparison) in seeds.iter().enumerate() {
        if seeds.len() > 1 {
            eprintln!("seed {} ({} of {})", comparison.seed(), number + 1, seeds.len());
        }
        results = comparison.run()?;
        if results.is_none() {
            return Err(Interrupted::error("stopped; run the same command again to resume"));
        }
    }
    let results = match results.filter(|_| seeds.len() == 1) {
        Some(results) => results,
        None => {
            let folders: Vec<PathBuf> = seeds.iter().map(|seed| seed.out.clone()).collect();
            merge::merged(&folders, &arguments.out)?
        }
    };
    print(arguments, &results)
}

/// Writes the page and prints the results.
fn print(arguments: &Arguments, results: &Results) -> anyhow::Result<()> {
    let page = report::write_page(&arguments.out)?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(results)?);
    } else {
        eval::print_table(results);
        println!("\nopen {}", page.display());
    }
    Ok(())
}
