//! `far compare`: the paper's protocol. Every arm trains its own world model with the memories it
//! recalls, with the same data, seed, steps and noise; then all are evaluated on the same clips.
//!
//! Tokenizer and encoders are trained once, in the folder of the judge: a world model trained on
//! mixed contexts, which measures recall quality. Each arm is a run trained by its own process,
//! several at once if requested: while one works on the CPU, another uses the GPU.

mod board;
mod crew;

use super::compute::ComputeArguments;
use super::train::{explain, preparation};
use super::{eval, report};
use crate::hint::Hint;
use crate::interrupt;
use clap::Args;
use crew::{Crew, Job};
use far_eval::Results;
use far_train::{
    Contender, Existing, PreparedData, RunEvaluation, RunFolder, SavedRun, Session, TrainConfig,
};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Name of the judge's run; no arm may have this name.
const JUDGE: &str = "judge";
/// Settings of the judge: no learned retriever, contexts half random and half near the goal.
const JUDGE_SETS: [&str; 2] = ["arm.id=random", "training.context=mixed"];
/// Settings of every arm, before its own: contexts are what it recalls.
const ARM_SETS: [&str; 1] = ["training.context=recalled"];

/// Arguments of `far compare`.
#[derive(Args)]
#[command(
    after_help = "Example: far compare --data data/village --out runs/village --jobs 3 --device cuda
A few arms: far compare --arm far-multi --arm worldmem --arm near:arm.id=worldmem,arm.settings.view.radius=8 …

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
    /// Number of arms trained at once; they share the cores.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// LPIPS weights (default: those in the cache, if any).
    #[arg(long, value_name = "FILE")]
    lpips: Option<PathBuf>,
    /// Delete existing runs in the folder and start again.
    #[arg(long)]
    fresh: bool,
    /// Print the results as JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// Trains and evaluates all arms, and prints the results.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.jobs == 0 {
        return Err(Hint::error("nothing to train", "--jobs starts at 1"));
    }
    let comparison = Comparison::new(arguments).map_err(explain)?;
    for warning in comparison.warnings() {
        eprintln!("warning: {warning}");
    }
    let stop = interrupt::listen();
    let mut jobs = Vec::new();
    for entry in &comparison.entries {
        if arguments.fresh || !comparison.is_finished(entry).map_err(explain)? {
            jobs.push(comparison.job(entry)?);
        }
    }
    if !jobs.is_empty() {
        comparison.prepare().map_err(explain)?;
    }
    let crew = Crew { slots: arguments.jobs, stop };
    if !crew.train(jobs, comparison.entries.len())? {
        println!("stopped; run the same command again to resume");
        return Ok(());
    }
    let results = comparison.judge().map_err(explain)?;
    let page = report::write_page(&arguments.out)?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&results)?);
    } else {
        eval::print_table(&results);
        println!("\nopen {}", page.display());
    }
    Ok(())
}

/// One run of the comparison.
struct Entry {
    contender: Contender,
    folder: PathBuf,
    config: TrainConfig,
}

/// All runs of the comparison, the judge first.
struct Comparison<'a> {
    arguments: &'a Arguments,
    /// Settings of all runs, over the preset.
    sets: Vec<String>,
    entries: Vec<Entry>,
}

impl<'a> Comparison<'a> {
    /// Resolves the configuration of every arm, so that errors are found before training.
    fn new(arguments: &'a Arguments) -> far_train::Result<Self> {
        let mut sets = arguments.sets.clone();
        if let Some(folder) = &arguments.data {
            sets.push(format!("data.folder={:?}", folder.to_string_lossy()));
        }
        sets.extend(arguments.compute.sets());
        let given: Vec<&str> = sets.iter().map(String::as_str).collect();
        let mut comparison = TrainConfig::resolve(&arguments.config, &given)?.comparison;
        if !arguments.arms.is_empty() {
            comparison.arms.clone_from(&arguments.arms);
        }
        let mut contenders = comparison.contenders()?;
        let mut names = BTreeSet::from([JUDGE]);
        if let Some(twice) = contenders.iter().find(|contender| !names.insert(&contender.name)) {
            return Err(far_train::Error::Config {
                origin: format!("--arm {}", twice.name),
                reason: "another run of the comparison has this name".to_owned(),
            });
        }
        for contender in &mut contenders {
            contender.sets.splice(0..0, ARM_SETS.map(str::to_owned));
        }
        let judge = JUDGE_SETS.map(str::to_owned).into();
        contenders.insert(0, Contender { name: JUDGE.to_owned(), sets: judge });
        let entries = contenders.into_iter().map(|contender| {
            let folder = match contender.name.as_str() {
                JUDGE => arguments.out.join(JUDGE),
                name => arguments.out.join("arms").join(name),
            };
            let config = contender.config(&arguments.config, &sets)?;
            Ok(Entry { contender, folder, config })
        });
        let entries = entries.collect::<far_train::Result<_>>()?;
        Ok(Self { arguments, sets, entries })
    }

    /// Warnings of all configurations, each once.
    fn warnings(&self) -> BTreeSet<String> {
        self.entries.iter().flat_map(|entry| entry.config.warnings()).collect()
    }

    /// Whether a run has completed all its steps; a run of another configuration is an error.
    fn is_finished(&self, entry: &Entry) -> far_train::Result<bool> {
        let Entry { folder, config, .. } = entry;
        let saved = match SavedRun::read(folder) {
            Ok(saved) => saved,
            Err(far_train::Error::NoRun { .. } | far_train::Error::NotSaved { .. }) => {
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        match config.first_difference(&saved.config) {
            None => Ok(saved.step >= config.training.steps),
            Some((key, wanted, found)) => {
                let folder = folder.clone();
                Err(far_train::Error::OtherConfig { folder, key, found, wanted })
            }
        }
    }

    /// Prepares tokenizer, encoders, latents and keys for all arms, in the judge's folder.
    fn prepare(&self) -> far_train::Result<()> {
        let judge = &self.entries[0];
        let existing = if self.arguments.fresh { Existing::Discard } else { Existing::Resume };
        let session = Session::now("cpu", rayon::current_num_threads());
        // Closed before the judge's own process opens it.
        drop(RunFolder::open(&judge.folder, &judge.config, existing, session)?);
        let arms = self.entries.iter().map(|entry| entry.config.arm.arm());
        let arms = arms.collect::<far_train::Result<Vec<_>>>()?;
        let (device, mut progress) = (judge.config.compute.open()?, preparation());
        PreparedData::open_for(&judge.config, &arms, &judge.folder, &device, &mut progress)?;
        Ok(())
    }

    /// The process that trains one run: the command that a user would run.
    fn job(&self, entry: &Entry) -> anyhow::Result<Job> {
        let Arguments { config, fresh, .. } = self.arguments;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["train", "--json", "--every", "1", "--config", config]);
        command.arg("--out").arg(&entry.folder);
        for set in self.sets.iter().chain(&entry.contender.sets) {
            command.args(["--set", set]);
        }
        // The judge's run was started fresh by the preparation in its folder.
        let is_judge = entry.contender.name == JUDGE;
        if !is_judge {
            command.arg("--prepared").arg(&self.entries[0].folder);
        }
        if *fresh && !is_judge {
            command.arg("--fresh");
        }
        let log = entry.folder.with_extension("log");
        let (name, steps) = (entry.contender.name.clone(), entry.config.training.steps);
        Ok(Job { name, steps, command, log })
    }

    /// Evaluates every arm with its own world model, and writes the results.
    fn judge(&self) -> far_train::Result<Results> {
        let runs = self.entries.iter().map(|entry| SavedRun::read(&entry.folder));
        let mut evaluation = RunEvaluation::new(runs.collect::<far_train::Result<_>>()?);
        let names = self.entries.iter().map(|entry| entry.contender.name.clone());
        evaluation.names = names.collect();
        evaluation = evaluation.judged_by(0);
        (evaluation.judge_is_arm, evaluation.common) = (false, false);
        let (lpips, out): (_, &Path) = (self.arguments.lpips.as_deref(), &self.arguments.out);
        eval::evaluate(&evaluation, &self.entries[0].config.compute, lpips, out)
    }
}
