//! `far train`: trains a world model and its retriever.

mod curve;
mod forecast;
mod health;
mod view;

use super::beside::{self, BesideArguments, Companion};
use super::compute::ComputeArguments;
use crate::hint::Hint;
use crate::interrupt::{self, Interrupted};
use crate::stage;
use crate::step_table::StepTable;
use clap::Args;
use far_train::{
    ArmTraining, CueRegistry, Ending, Existing, PreparedData, RunCheck, RunFolder, Session, Stage,
    TrainConfig, TrainingLoop, TrainingSettings, check_prepared, share_preparation,
};
use forecast::Forecast;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use view::View;

/// Arguments of `far train`.
#[derive(Args)]
#[command(
    after_help = "Example: far train --config quick --data data/village --out runs/far --set training.steps=1200\n\n\
    Run the same command again to resume; a larger training.steps goes on with a finished run.\n\
    docs/settings.md lists every setting."
)]
pub struct Arguments {
    /// A preset (quick, default, paper-loopnav, …) or the path of a .toml file.
    #[arg(long, default_value = "default")]
    config: String,
    /// Folder of the dataset (default: the configuration's data.folder).
    #[arg(long)]
    data: Option<PathBuf>,
    /// Folder of the run.
    #[arg(long, required_unless_present = "print_config")]
    out: Option<PathBuf>,
    /// Override a setting: --set training.steps=300; repeatable.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    #[command(flatten)]
    beside: BesideArguments,
    #[command(flatten)]
    compute: ComputeArguments,
    /// Run whose tokenizer and encoders are reused.
    #[arg(long, value_name = "RUN")]
    prepared: Option<PathBuf>,
    /// Delete an existing run in the folder and start again.
    #[arg(long)]
    fresh: bool,
    /// Seconds between two lines of progress if stderr is not a terminal.
    #[arg(long, value_name = "SECONDS", default_value_t = 15.0)]
    every: f32,
    /// Check configuration, data, device and folder, print size, memory and time of the run, and exit.
    /// Nothing is written.
    #[arg(long, conflicts_with = "print_config")]
    check: bool,
    /// Print the whole configuration with comments and exit.
    #[arg(long)]
    print_config: bool,
    /// Also print where the time of a step went, and what was copied between host and GPU.
    #[arg(long)]
    profile: bool,
    /// Print one JSON object instead of sentences.
    #[arg(long)]
    json: bool,
}

/// Trains, or prints the configuration.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let sets = overlays(arguments).map_err(explain)?;
    let config = TrainConfig::resolve_all(&arguments.config, &sets).map_err(explain)?;
    let companions = arguments.beside.companions(&arguments.config, &sets).map_err(explain)?;
    let Some(out) = arguments.out.as_deref().filter(|_| !arguments.print_config) else {
        print!("{}", config.to_commented_toml());
        return Ok(());
    };
    let config = located(config);
    for warning in config.warnings() {
        eprintln!("warning: {warning}");
    }
    if arguments.check {
        return check(arguments, &config, &companions, out);
    }
    let (outcome, view) = train(arguments, &config, &companions, out).map_err(explain)?;
    let finished = outcome.ending == Ending::Finished;
    if arguments.json {
        let mut summary = serde_json::json!({
            "run": out, "finished": finished, "step": outcome.step,
            "steps": config.training.steps, "parameters": outcome.parameters,
            "seconds": outcome.seconds, "checkpoint": outcome.checkpoint,
            "loss": view.loss(), "recall_quality": view.recall_quality(),
        });
        if arguments.profile {
            summary["profile"] = outcome.profile.json();
        }
        println!("{summary}");
    } else if finished {
        let loss = view.loss().map_or(String::new(), |loss| format!(", loss {loss:.4}"));
        let (step, seconds) = (outcome.step, outcome.seconds);
        println!("{step} steps in {seconds:.0} s{loss}: {}", out.display());
        println!("next: far eval {} --rule nearest-pose", shell_word(&out.to_string_lossy()));
    }
    if arguments.profile && !arguments.json {
        let StepTable { steps, .. } = outcome.profile;
        println!("a step takes {:.2} ms, the mean of {steps}:", 1e3 * outcome.profile.mean());
        outcome.profile.lines().iter().for_each(|line| println!("{line}"));
    }
    match outcome.ending {
        Ending::Finished => Ok(()),
        Ending::Stopped(step) => Err(Interrupted::error(format!(
            "stopped after step {step} of {}; to resume:\n  {}",
            config.training.steps,
            again(arguments)
        ))),
    }
}

/// A configuration that means the same from every working directory.
pub fn located(mut config: TrainConfig) -> TrainConfig {
    // Only an empty path has no absolute form; the dataset is then not found either way.
    if let Ok(folder) = std::path::absolute(&config.data.folder) {
        config.data.folder = folder;
    }
    config
}

fn existing(arguments: &Arguments) -> Existing {
    if arguments.fresh { Existing::Discard } else { Existing::Resume }
}

/// Prints what the run would be.
fn check(
    arguments: &Arguments,
    config: &TrainConfig,
    companions: &[Companion],
    out: &Path,
) -> anyhow::Result<()> {
    let (existing, prepared) = (existing(arguments), arguments.prepared.as_deref());
    let forecast = Forecast::new(config, companions, out, existing, prepared).map_err(explain)?;
    if arguments.json {
        println!("{}", forecast.to_json());
    } else {
        println!("{forecast}");
        println!("\nnothing was written; to train:\n  {}", again(arguments));
    }
    Ok(())
}

/// Settings that the arguments override in the preset.
fn overlays(arguments: &Arguments) -> far_train::Result<Vec<String>> {
    let mut sets: Vec<String> = arguments.sets.clone();
    if let Some(folder) = &arguments.data {
        sets.push(folder_setting(folder)?);
    }
    sets.extend(arguments.compute.sets());
    Ok(sets)
}

/// The setting of a dataset's folder: a string of TOML, whatever characters the path has.
pub fn folder_setting(folder: &Path) -> far_train::Result<String> {
    let text = folder.to_str().ok_or_else(|| far_train::Error::Setting {
        key: "data.folder".into(),
        reason: format!("{} is not UTF-8; rename the folder", folder.display()),
    })?;
    Ok(format!("data.folder={text:?}"))
}

/// Result of a training.
struct Outcome {
    ending: Ending,
    step: u64,
    parameters: usize,
    seconds: f64,
    checkpoint: Option<PathBuf>,
    /// Of the steps that this command made; evaluations and checkpoints belong to their rest.
    profile: StepTable,
}

fn train(
    arguments: &Arguments,
    config: &TrainConfig,
    companions: &[Companion],
    out: &Path,
) -> far_train::Result<(Outcome, View)> {
    let others = beside::arms(companions)?;
    let device = config.compute.open()?;
    // Everything is checked before anything is deleted or written.
    RunFolder::look(out, config, existing(arguments))?;
    arguments.prepared.as_deref().map_or(Ok(()), check_prepared)?;
    let checked = RunCheck::new(config, companions, &device)?;
    if checked.clips == 0 {
        let split = config.evaluation.split.name();
        eprintln!("warning: the dataset has no {split} episode: the run cannot be evaluated on it");
    }
    let session = Session::now(device.to_string(), rayon::current_num_threads());
    let mut folder = RunFolder::open(out, config, existing(arguments), session)?;
    if let Some(prepared) = &arguments.prepared {
        share_preparation(prepared, folder.path())?;
    }
    let cues = CueRegistry::of(config);
    let (path, stages) = (folder.path(), &mut preparation());
    let prepared = PreparedData::open_with(config, &others, &cues, path, &device, stages)?;
    if let Some([then, now]) = prepared.change_of_episodes() {
        eprintln!("note: {then} episodes were learned from up to the last checkpoint, now {now}");
    }
    let mut training = ArmTraining::with_companions(&prepared, companions)?;
    let parameters = training.parameters().total();
    eprintln!("world model: {}", training.parameters());
    eprintln!("arm: {} on {device}", config.arm.id);
    let every = Duration::try_from_secs_f32(arguments.every).unwrap_or(Duration::MAX);
    let mut view = View::new(config.training.steps).with_lines_every(every);
    let (begun, earlier) = (Instant::now(), device.copies());
    let ending = interrupt::while_watched(|stop| {
        far_train::train(&mut training, &mut folder, &config.training, stop, &mut view)
    });
    view.end();
    let ending = ending?;
    if ending == Ending::Finished {
        training.save_retrievers(&folder.retrievers())?;
    }
    let (times, steps) = training.joint().all_times();
    let copies = device.copies().zip(earlier).map(|(now, earlier)| now.since(earlier));
    let profile = StepTable { steps, elapsed: begun.elapsed(), times, copies };
    let newest = folder.checkpoint_steps()?.first().copied();
    let outcome = Outcome {
        ending,
        step: training.completed(),
        parameters,
        seconds: folder.seconds(),
        profile,
        checkpoint: newest.map(|step| folder.checkpoint_path(step)),
    };
    Ok((outcome, view))
}

/// Trains to the last step in view of the user.
///
/// # Errors
/// If it is interrupted, or stops.
pub fn finish(
    training: &mut ArmTraining<'_>,
    folder: &mut RunFolder,
    settings: &TrainingSettings,
) -> anyhow::Result<()> {
    let mut view = View::new(settings.steps);
    let ending = interrupt::while_watched(|stop| {
        far_train::train(training, folder, settings, stop, &mut view)
    });
    view.end();
    match ending.map_err(explain)? {
        Ending::Finished => Ok(()),
        Ending::Stopped(step) => Err(Interrupted::after(step)),
    }
}

/// Shows the preparation before the first step: one bar per stage.
pub fn preparation() -> impl FnMut(Stage) {
    let mut shown: Option<(&'static str, stage::Stage)> = None;
    move |stage| {
        let same = shown.as_ref().is_some_and(|(unit, _)| *unit == stage.unit);
        if !same {
            shown = Some((stage.unit, stage::Stage::new(stage.total, stage.unit)));
        }
        if let Some((_, bar)) = &shown {
            bar.show(stage.done, stage.total);
            if stage.done == stage.total {
                bar.end();
            }
        }
    }
}

/// The command that resumes this run.
fn again(arguments: &Arguments) -> String {
    let mut words = vec!["far train".to_owned(), format!("--config {}", arguments.config)];
    let quote = |path: &Path| shell_word(&path.to_string_lossy());
    words.extend(arguments.data.as_deref().map(|data| format!("--data {}", quote(data))));
    words.extend(arguments.out.as_deref().map(|out| format!("--out {}", quote(out))));
    let prepared = arguments.prepared.as_deref();
    words.extend(prepared.map(|prepared| format!("--prepared {}", quote(prepared))));
    let sets = arguments.sets.iter().cloned().chain(arguments.compute.sets());
    words.extend(sets.map(|set| format!("--set {}", shell_word(&set))));
    words.extend(arguments.beside.words());
    words.join(" ")
}

/// A word quoted for a shell, if needed.
pub fn shell_word(word: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "-_./=,:+".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// A training error as one line with its cause, and a hint.
pub fn explain(error: impl Into<far_train::Error>) -> anyhow::Error {
    let error = error.into();
    let message = match std::error::Error::source(&error) {
        Some(cause) if !error.to_string().contains(&cause.to_string()) => {
            format!("{error}: {cause}")
        }
        _ => error.to_string(),
    };
    match error.is_usage() {
        true => Hint::usage(message, error.hint()),
        false => Hint::error(message, error.hint()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_to_go_on_survives_a_shell() {
        assert_eq!(shell_word("training.steps=3"), "training.steps=3");
        assert_eq!(shell_word("my data"), "'my data'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word(""), "''");
    }
}
