//! One seed's comparison: the judge and every arm as runs in one folder, trained and then judged together.

use super::crew::{Crew, Job};
use super::{Arguments, eval};
use crate::commands::train::{explain, located, preparation};
use crate::interrupt;
use far_eval::Results;
use far_train::{
    Contender, CueRegistry, Existing, FolderLock, PreparedData, RunCheck, RunEvaluation, RunFolder,
    SavedRun, Session, TrainConfig,
};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Name of the judge's run; no arm may have this name.
const JUDGE: &str = "judge";
/// Settings of the judge: no learned retriever, contexts half random and half near the goal.
const JUDGE_SETS: [&str; 2] = ["arm.id=random", "training.context=mixed"];
/// Settings of every arm, before its own: contexts are what it recalls.
const ARM_SETS: [&str; 1] = ["training.context=recalled"];

/// Longest time that a training is waited for whose comparison was killed: it is about to stop.
const GRACE: Duration = Duration::from_secs(60);

/// Waits for a training in a folder that nobody asked to stop, as that of a comparison that was killed.
fn wait_for(folder: &Path) -> anyhow::Result<()> {
    let begun = Instant::now();
    while folder.is_dir() {
        match FolderLock::take(folder, "lock") {
            Err(far_train::Error::Locked { .. }) if begun.elapsed() < GRACE => {
                std::thread::sleep(Duration::from_millis(200));
            }
            taken => return taken.map(drop).map_err(explain),
        }
    }
    Ok(())
}

/// One run of the comparison.
struct Entry {
    contender: Contender,
    folder: PathBuf,
    config: TrainConfig,
}

/// All runs of the comparison with one seed, the judge first.
pub(super) struct Comparison<'a> {
    arguments: &'a Arguments,
    /// Folder of the runs and results.
    pub out: PathBuf,
    /// Settings of all runs, over the preset.
    sets: Vec<String>,
    entries: Vec<Entry>,
}

impl<'a> Comparison<'a> {
    /// The comparisons with all seeds.
    pub fn all(arguments: &'a Arguments) -> far_train::Result<Vec<Self>> {
        let first = Self::new(arguments, None, arguments.out.clone())?;
        if arguments.seeds == 1 {
            return Ok(vec![first]);
        }
        let seed = first.seed();
        let seeds = (0..arguments.seeds).map(|number| {
            let seed = seed.saturating_add(number);
            Self::new(arguments, Some(seed), arguments.out.join(format!("seed-{seed}")))
        });
        seeds.collect()
    }

    /// Resolves the configuration of every arm, so that errors are found before training.
    fn new(arguments: &'a Arguments, seed: Option<u64>, out: PathBuf) -> far_train::Result<Self> {
        let mut sets = arguments.sets.clone();
        if let Some(folder) = &arguments.data {
            sets.push(format!("data.folder={:?}", folder.to_string_lossy()));
        }
        sets.extend(arguments.compute.sets());
        sets.extend(seed.map(|seed| format!("training.seed={seed}")));
        let mut comparison = TrainConfig::resolve_all(&arguments.config, &sets)?.comparison;
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
                JUDGE => out.join(JUDGE),
                name => out.join("arms").join(name),
            };
            let config = located(contender.config(&arguments.config, &sets)?);
            Ok(Entry { contender, folder, config })
        });
        let entries = entries.collect::<far_train::Result<_>>()?;
        Ok(Self { arguments, out, sets, entries })
    }

    /// The seed of all its runs.
    pub fn seed(&self) -> u64 {
        self.entries[0].config.training.seed
    }

    /// Trains what is not finished and evaluates all arms; `None` if stopped before the end.
    pub fn run(&self) -> anyhow::Result<Option<Results>> {
        let mut jobs = Vec::new();
        for entry in &self.entries {
            if self.arguments.fresh || !self.is_finished(entry).map_err(explain)? {
                wait_for(&entry.folder)?;
                jobs.push(self.job(entry)?);
            }
        }
        if jobs.is_empty() && self.arguments.seeds > 1 && self.has_scores() {
            return Ok(Some(Results::read(&self.out).map_err(far_train::Error::from)?));
        }
        if !jobs.is_empty() {
            self.prepare().map_err(explain)?;
        }
        let finished = interrupt::while_watched(|stop| {
            Crew { slots: self.arguments.jobs, stop }.train(jobs, self.entries.len())
        });
        if !finished? {
            return Ok(None);
        }
        Ok(Some(self.judge().map_err(explain)?))
    }

    /// Whether an earlier call has evaluated every arm.
    fn has_scores(&self) -> bool {
        let scores = self.out.join(far_eval::SCORES_FOLDER);
        let names = self.entries[1..].iter().map(|entry| &entry.contender.name);
        self.out.join("results.json").exists()
            && names.into_iter().all(|name| scores.join(format!("{name}.json")).exists())
    }

    /// Warnings of all configurations, each once.
    pub fn warnings(&self) -> BTreeSet<String> {
        self.entries.iter().flat_map(|entry| entry.config.warnings()).collect()
    }

    /// Checks the folder, every arm against the dataset and the device, and files that are named.
    pub fn check(&self) -> far_train::Result<()> {
        let out = &self.arguments.out;
        let foreign =
            ["config.toml", "dataset.json"].into_iter().find(|name| out.join(name).exists());
        if let Some(name) = foreign {
            let (folder, name) = (out.clone(), name.to_owned());
            return Err(far_train::Error::OtherFolder { folder, kind: "comparison", name });
        }
        self.arguments.weights.check()?;
        let existing = self.existing();
        for Entry { folder, config, .. } in &self.entries {
            let checked = RunCheck::new(config, &[], &config.compute.open()?)?;
            if checked.clips == 0 {
                let (folder, split) = (config.data.folder.clone(), config.evaluation.split.name());
                return Err(far_train::Error::NothingHeldOut { folder, split });
            }
            RunFolder::look(folder, config, existing)?;
        }
        Ok(())
    }

    fn existing(&self) -> Existing {
        if self.arguments.fresh { Existing::Discard } else { Existing::Resume }
    }

    /// Whether a run has completed all its steps; a run of another configuration is an error.
    fn is_finished(&self, entry: &Entry) -> far_train::Result<bool> {
        let Entry { folder, config, .. } = entry;
        let saved = match SavedRun::read(folder) {
            Ok(saved) => saved,
            // Whatever is wrong with a run, its own training says, or sets right.
            Err(_) => return Ok(false),
        };
        match config.first_obstacle(&saved.config) {
            None => Ok(saved.step >= config.training.steps && saved.is_prepared()),
            Some((key, wanted, found)) => {
                let folder = folder.clone();
                Err(far_train::Error::OtherConfig { folder, key, found, wanted })
            }
        }
    }

    /// Prepares tokenizer, encoders, latents and keys for all arms, in the judge's folder.
    fn prepare(&self) -> far_train::Result<()> {
        let judge = &self.entries[0];
        let existing = self.existing();
        let session = Session::now("cpu", rayon::current_num_threads());
        // Closed before the judge's own process opens it.
        drop(RunFolder::open(&judge.folder, &judge.config, existing, session)?);
        let arms = self.entries.iter().map(|entry| entry.config.arm.arm());
        let arms = arms.collect::<far_train::Result<Vec<_>>>()?;
        let (device, mut progress) = (judge.config.compute.open()?, preparation());
        let (config, folder) = (&judge.config, &judge.folder);
        let cues = CueRegistry::of(config);
        PreparedData::open_with(config, &arms, &cues, folder, &device, &mut progress)?;
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
        let (compute, weights) = (&self.entries[0].config.compute, &self.arguments.weights);
        eval::evaluate(&evaluation, compute, weights, &self.out)
    }
}
