//! `far eval`: evaluates trained arms, published rules and controls on the same clips.

use super::arm_table;
use super::compute::ComputeArguments;
use super::train::{explain, preparation};
use crate::command_line;
use crate::hint::Hint;
use crate::stage::Stage;
use crate::world_sight::WorldSight;
use clap::Args;
use far_data::{Dataset, Picture};
use far_eval::{KEPT_FOLDERS, Perceptual, Progress, Results, Shown, summary};
use far_memory::Retriever;
use far_model::{DreamSim, Lpips};
use far_train::{
    ComputeConfig, Contender, FolderLock, Listener, RunEvaluation, SavedRun, check_rule,
};
use serde_json::json;
use std::path::{Path, PathBuf};

/// The plain rule that is hardest to beat, the paper's rival, and recency; with whether it needs poses.
const RULES: [(&str, bool); 3] = [("nearest-pose", true), ("worldmem", true), ("temporal", false)];

/// Arguments of `far eval`.
#[derive(Args)]
#[command(after_help = "Example: far eval runs/far --rule nearest-pose --rule worldmem\n\
    Arms that were trained apart: far eval runs/far runs/worldmem runs/temporal --judge runs/judge\n\n\
    Writes results.json and replays/; far report shows them.")]
pub struct Arguments {
    /// Folders made by `far train`. Several runs are compared on the same clips, each with its own
    /// world model.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Run whose world model measures recall quality (default: the first run trained on mixed
    /// contexts, otherwise the first run).
    #[arg(long, value_name = "RUN")]
    judge: Option<PathBuf>,
    /// Generate with the judge's world model for every arm, so that arms differ in recall alone.
    #[arg(long)]
    common: bool,
    /// A published rule to compare with the runs' arms, with the judge's world model; repeatable (default
    /// for a single run: nearest-pose, worldmem and temporal).
    #[arg(long = "rule", value_name = "ID")]
    rules: Vec<String>,
    /// A trained retriever to compare with them, with the judge's world model: --retriever
    /// paper=runs/far/retrievers/paper.safetensors; repeatable.
    #[arg(long = "retriever", value_name = "NAME=FILE")]
    retrievers: Vec<String>,
    /// Compare with no rule.
    #[arg(long, conflicts_with = "rules")]
    no_rules: bool,
    /// Folder of the dataset: another one than in training, or the same if it has moved.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Largest number of clips (default: the configuration's).
    #[arg(long)]
    clips: Option<usize>,
    /// Largest number of generated frames per clip, 0 for none (default: the configuration's).
    #[arg(long)]
    steps: Option<usize>,
    /// Memories recalled per prediction (default: the configuration's).
    #[arg(long)]
    slots: Option<usize>,
    #[command(flatten)]
    compute: ComputeArguments,
    #[command(flatten)]
    weights: Weights,
    /// Folder for results.json and replays/ (default: the first run's).
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the results as one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// Evaluates the runs and prints or writes the results.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let runs: Vec<PathBuf> = arguments.runs.iter().map(|folder| run_in(folder)).collect();
    let out = arguments.out.as_deref().unwrap_or(&runs[0]);
    let evaluation = plan(arguments, &runs).map_err(|error| explain_data(error, arguments))?;
    for run in &evaluation.runs {
        for reason in &run.refused {
            eprintln!("warning: an older checkpoint is evaluated, of step {}: {reason}", run.step);
        }
    }
    let judge = &evaluation.runs[evaluation.judge].config.compute;
    let compute = arguments.compute.over(judge);
    arguments.weights.check().map_err(explain)?;
    let results = evaluate(&evaluation, &compute, &arguments.weights, out);
    let results = results.map_err(|error| explain_data(error, arguments))?;
    if arguments.json {
        println!("{}", json!(results));
    } else {
        print_table(&results);
        println!("\nfar report {} shows what was recalled, and why", out.display());
    }
    Ok(())
}

/// The run in a folder: the folder itself, or in that of a demo the run that all its arms share.
pub fn run_in(folder: &Path) -> PathBuf {
    let common = folder.join("common");
    let is_run =
        |folder: &Path| folder.join("config.toml").exists() || folder.join("results.json").exists();
    if !is_run(folder) && is_run(&common) { common } else { folder.to_path_buf() }
}

/// A dataset that is not where the run says may have moved: `--data` says where to.
fn explain_data(error: far_train::Error, arguments: &Arguments) -> anyhow::Error {
    use far_data::DataError;
    match &error {
        far_train::Error::Data(DataError::Missing { what: "dataset.json", .. })
            if arguments.data.is_none() =>
        {
            Hint::error(error.to_string(), "if the dataset has moved, give its folder with --data")
        }
        _ => explain(error),
    }
}

fn plan(arguments: &Arguments, runs: &[PathBuf]) -> far_train::Result<RunEvaluation> {
    for id in &arguments.rules {
        check_rule(id)?;
    }
    let mut folders = runs.to_vec();
    let judge = arguments.judge.as_deref().map(run_in);
    if let Some(judge) = judge.as_ref().filter(|judge| !folders.contains(judge)) {
        folders.push(judge.clone());
    }
    let runs = folders.iter().map(|folder| SavedRun::read(folder));
    let mut runs: Vec<SavedRun> = runs.collect::<far_train::Result<_>>()?;
    if let Some(data) = &arguments.data {
        runs.iter_mut().for_each(|run| run.config.data.folder.clone_from(data));
    }
    let mut evaluation = RunEvaluation::new(runs);
    if let Some(judge) = &judge {
        let place = folders.iter().position(|folder| folder == judge);
        evaluation = evaluation.judged_by(place.expect("the judge is among the runs"));
    }
    evaluation.common |= arguments.common;
    evaluation.rules.clone_from(&arguments.rules);
    for text in &arguments.retrievers {
        evaluation.retrievers.push(retriever(text)?);
    }
    if arguments.rules.is_empty() && arguments.runs.len() == 1 && !arguments.no_rules {
        evaluation.rules = default_rules(&evaluation)?;
    }
    evaluation.plan.clips = arguments.clips.or(evaluation.plan.clips);
    evaluation.plan.steps = arguments.steps.or(evaluation.plan.steps);
    evaluation.plan.slots = arguments.slots.unwrap_or(evaluation.plan.slots);
    Ok(evaluation)
}

/// A retriever by its name and its file, as `NAME=FILE`.
fn retriever(text: &str) -> far_train::Result<(String, Retriever)> {
    let setting = |reason: String| far_train::Error::Setting { key: "--retriever".into(), reason };
    let (name, path) = text
        .split_once('=')
        .filter(|(name, path)| Contender::is_plain(name) && !path.is_empty())
        .ok_or_else(|| setting(format!("`{text}` is not NAME=FILE with a plain name")))?;
    let loaded = Retriever::load(path).map_err(|error| setting(format!("{path}: {error}")))?;
    Ok((name.to_owned(), loaded))
}

/// Rules that a single run is compared with unless others are named: those of [`RULES`] that its
/// dataset has the poses for, and that are not the run's own arm.
fn default_rules(evaluation: &RunEvaluation) -> far_train::Result<Vec<String>> {
    let config = &evaluation.runs[evaluation.judge].config;
    let data = Dataset::open(&config.data.folder)?;
    let poses = data.description().cues.iter().any(|cue| cue == "metadata");
    let fitting =
        RULES.iter().filter(|(id, needs_poses)| config.arm.id != *id && (poses || !needs_poses));
    Ok(fitting.map(|(id, _)| (*id).to_owned()).collect())
}

// Files of weights that were named; without, the cache is looked into.
#[derive(Args)]
pub struct Weights {
    /// LPIPS weights (default: those in the cache, if any).
    #[arg(long, value_name = "FILE")]
    lpips: Option<PathBuf>,
    /// DreamSim weights (default: those in the cache, if any).
    #[arg(long, value_name = "FILE")]
    dreamsim: Option<PathBuf>,
}

impl Weights {
    /// Refuses a file that is not there, before anything is computed.
    ///
    /// # Errors
    /// If a file that was named cannot be read.
    pub fn check(&self) -> far_train::Result<()> {
        let named = [
            ("read the LPIPS weights in", &self.lpips),
            ("read the DreamSim weights in", &self.dreamsim),
        ];
        for (action, path) in named {
            let Some(path) = path.clone() else { continue };
            let found = std::fs::metadata(&path);
            found.map_err(|source| far_train::Error::File { action, path, source })?;
        }
        Ok(())
    }
}

/// Evaluates runs, and writes results.json and replays/ into a folder.
pub fn evaluate(
    evaluation: &RunEvaluation,
    compute: &ComputeConfig,
    weights: &Weights,
    out: &Path,
) -> far_train::Result<Results> {
    let lpips = Lpips::find(weights.lpips.as_deref())?;
    let lpips_side = lpips.as_ref().map_or(0, |lpips| lpips.net().least_side());
    let lpips = lpips.map(|lpips| move |a: &Picture, b: &Picture| lpips.distance(a, b));
    let dreamsim = DreamSim::find(weights.dreamsim.as_deref())?;
    let dreamsim = dreamsim.map(|dreamsim| move |a: &Picture, b: &Picture| dreamsim.distance(a, b));
    for (name, script, missing) in
        [("LPIPS", "lpips", lpips.is_none()), ("DreamSim", "dreamsim", dreamsim.is_none())]
    {
        if missing {
            eprintln!(
                "note: {name} is not measured: no weights (scripts/make_{script}_weights.py)"
            );
        }
    }
    let perceptual = Perceptual {
        lpips: lpips.as_ref().map(|distance| distance as &far_eval::Distance<'_>),
        lpips_side,
        dreamsim: dreamsim.as_ref().map(|distance| distance as &far_eval::Distance<'_>),
    };
    let device = compute.open()?;
    let lock = FolderLock::take(out, "results.lock")?;
    for kept in KEPT_FOLDERS {
        lock.remove_unfinished(&out.join(kept))?;
    }
    let mut bar: Option<Stage> = None;
    let mut show = |Progress { done, total }: Progress| {
        bar.get_or_insert_with(|| Stage::new(total, "passes evaluated")).show(done, total);
    };
    let listener = Listener { stage: &mut preparation(), progress: &mut show };
    let data = Dataset::open(&evaluation.runs[evaluation.judge].config.data.folder)?;
    let sight = WorldSight(data.description().clone());
    let found = evaluation.run(&device, perceptual, Some(&sight), listener);
    if let Some(bar) = bar {
        bar.end();
    }
    let (results, shown) = found?;
    let measured = |metric| results.arms.values().any(|arm| arm.contains_key(metric));
    if lpips.is_some() && measured("psnr") && !measured("lpips") {
        eprintln!("note: LPIPS is not measured: it needs frames of {lpips_side} pixels a side");
    }
    write_results(&results, &shown, out)?;
    Ok(results)
}

/// Writes everything that an evaluation found, and the command that asked for it.
pub fn write_results(results: &Results, shown: &Shown, out: &Path) -> far_train::Result<()> {
    results.write(out)?;
    shown.write(out)?;
    command_line::write(out)
}

/// Standard metrics in the table.
const SHOWN: [&str; 7] =
    ["recall_quality", "psnr", "psnr_closure", "one_step_psnr", "ssim", "lpips", "dreamsim"];

/// Prints one line per arm and a summary.
pub fn print_table(results: &Results) {
    let judge = match results.judge.as_str() {
        "common" => "one world model for all arms",
        _ => "each run's own world model",
    };
    let clips = if results.clips == 1 { "clip" } else { "clips" };
    println!("{} {clips}, {} memories each, {judge}\n", results.clips, results.slots);
    arm_table::print(results, &SHOWN);
    println!();
    for sentence in summary(results) {
        println!("{sentence}");
    }
}
