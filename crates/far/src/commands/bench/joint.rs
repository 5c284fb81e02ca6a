//! `far bench joint`: the whole step of Algorithm 1, in parts, and its floor.

use super::engine::{Engine, EngineArguments, memory_line};
use super::joint_data::JointData;
use super::json_peer::{self, load_average, median};
use crate::commands::train::{explain, preparation};
use crate::hint::Hint;
use crate::progress;
use crate::step_table::StepTable;
use clap::Args;
use far_train::{ArmTraining, PreparedData, StepTimes, TrainConfig, TrainingLoop};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Updates of the world model that are timed by themselves, and credits.
const ALONE: [usize; 2] = [10, 3];

/// What to measure and how.
#[derive(Args)]
pub struct Arguments {
    /// A preset (paper-loopnav, village, …) or the path of a .toml file.
    #[arg(long, default_value = "village")]
    config: String,
    /// Folder of the dataset (default: one made for the measurement, of latents or of a world's walks).
    #[arg(long)]
    data: Option<PathBuf>,
    /// Override a setting: --set arm.id=far-meta; repeatable.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    #[command(flatten)]
    engine: EngineArguments,
    /// Rounds of as many steps as lie between two updates of the retriever; one more warms up.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// A command that prints JSON lines with `config`, `dtype` and `median_s`, to compare with; the
    /// fastest line of this configuration and precision counts.
    #[arg(long)]
    peer: Option<String>,
}

/// Runs the benchmark.
///
/// # Errors
/// If the device cannot be used or has no room, the dataset lacks something, or the peer fails.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.rounds == 0 {
        return Err(Hint::error("there is nothing to measure", "give --rounds 1 or more"));
    }
    let peers = arguments.peer.as_deref().map(json_peer::run).transpose()?;
    let engine = arguments.engine.open()?;
    let data = JointData::new(&arguments.config, arguments.data.as_deref())?;
    let config = configuration(arguments, &data)?;
    data.make(&config)?;
    let mut line = engine.line(&arguments.config);
    let device = &engine.device;
    let prepared = PreparedData::open(&config, data.run(), device, &mut preparation());
    let prepared = prepared.map_err(explain)?;
    let mut training = ArmTraining::new(&prepared).map_err(explain)?;
    let interval = config.retriever.interval.max(1);
    let bar = progress::bar((1 + arguments.rounds as u64) * interval, "steps");
    let mut round = || {
        let begun = Instant::now();
        let (mut times, earlier) = (StepTimes::default(), device.copies());
        for _ in 0..interval {
            training.step().map_err(explain)?;
            times.add(training.joint().times());
            bar.inc(1);
        }
        device.synchronize()?;
        let copies = device.copies().zip(earlier).map(|(now, earlier)| now.since(earlier));
        anyhow::Ok(StepTable { steps: interval, elapsed: begun.elapsed(), times, copies })
    };
    let first = round()?;
    device.forget_peak();
    let mut rounds = Vec::new();
    for _ in 0..arguments.rounds {
        rounds.push(round()?);
    }
    bar.finish_and_clear();
    engine.note_memory(&mut line);
    rounds.sort_by_key(|round| round.elapsed);
    let middle = &rounds[rounds.len() / 2];
    let [updates, credits] = ALONE;
    let alone = training.joint_mut().measure_alone(updates, credits).map_err(explain)?;
    let seconds =
        |times: &[Duration]| -> Vec<f64> { times.iter().map(Duration::as_secs_f64).collect() };
    let network = median(&seconds(&alone.network));
    let credit = if alone.credit.is_empty() { 0.0 } else { median(&seconds(&alone.credit)) };
    line["config"] = json!(arguments.config);
    line["arm"] = json!(config.arm.id);
    line["batch"] = json!(config.data.batch);
    line["interval"] = json!(interval);
    line["first_round_s"] = json!(first.elapsed.as_secs_f64());
    line["round_s"] = json!(seconds(&rounds.iter().map(|round| round.elapsed).collect::<Vec<_>>()));
    line["median_s"] = json!(middle.mean());
    line["steps_per_s"] = json!(1.0 / middle.mean());
    let table = middle.json();
    for (name, value) in table.as_object().into_iter().flatten() {
        line[name] = value.clone();
    }
    line["network_alone_s"] = json!(network);
    line["credit_alone_s"] = json!(credit);
    let alone = network + credit / interval as f64;
    line["alone_s"] = json!(alone);
    line["over_alone"] = json!(line["median_s"].as_f64().unwrap_or(f64::NAN) / alone);
    line["load_average"] = json!(load_average());
    if let Some(lines) = &peers {
        json_peer::compare(&mut line, lines, &["config", "dtype", "arm"])?;
    }
    if arguments.engine.profile {
        profile(arguments, &engine, &mut training, line, middle)
    } else {
        conclude(arguments, &line, middle);
        Ok(())
    }
}

/// The preset as it is trained, but for what a measurement should not wait for.
fn configuration(arguments: &Arguments, data: &JointData) -> anyhow::Result<TrainConfig> {
    let mut sets = vec![
        // An untrained encoder has as much work as any other.
        "encoder.pretraining.steps=1".to_owned(),
        // The steps that most of a training consists of.
        "retriever.eager=0".to_owned(),
        "retriever.start=0".to_owned(),
        "training.steps=1000000000".to_owned(),
        format!("data.folder={:?}", data.folder().to_string_lossy()),
    ];
    sets.extend(arguments.sets.iter().cloned());
    TrainConfig::resolve_all(&arguments.config, &sets).map_err(explain)
}

/// Times every kernel of one more round.
fn profile(
    arguments: &Arguments,
    engine: &Engine,
    training: &mut ArmTraining<'_>,
    mut line: Value,
    round: &StepTable,
) -> anyhow::Result<()> {
    let steps = line["interval"].as_u64().unwrap_or(1) as usize;
    let table = engine.profiled(steps, || training.step().map_err(explain))?;
    line["profile"] = table.json();
    conclude(arguments, &line, round);
    if !arguments.engine.json {
        table.print("step", line["median_s"].as_f64().unwrap_or(f64::NAN));
    }
    Ok(())
}

fn conclude(arguments: &Arguments, line: &Value, round: &StepTable) {
    if arguments.engine.json {
        println!("{line}");
        return;
    }
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let text = |key: &str| line[key].as_str().unwrap_or_default();
    println!(
        "a step of Algorithm 1, {}, {}, batch {}, retriever every {} steps, {}, on {}",
        text("config"),
        text("arm"),
        line["batch"],
        line["interval"],
        text("dtype"),
        text("machine")
    );
    let print = |name: &str, seconds: &Value| {
        println!("  {name:<18}{:>9.2} ms", 1e3 * number(seconds));
    };
    print("mean", &line["median_s"]);
    println!("  {:<18}{:>9.2} steps/s", "rate", number(&line["steps_per_s"]));
    round.lines().iter().for_each(|line| println!("{line}"));
    print("network alone", &line["network_alone_s"]);
    print("credit alone", &line["credit_alone_s"]);
    println!(
        "  {:<18}{:>9.2} × their time, {:.2} ms",
        "against both",
        number(&line["over_alone"]),
        1e3 * number(&line["alone_s"])
    );
    memory_line(line).iter().for_each(|line| println!("{line}"));
    if let Some(ratio) = line["ratio"].as_f64() {
        let peer = &line["peer"];
        println!(
            "  against {:<10}{ratio:>9.2} × as fast ({:.2} ms)",
            peer["engine"].as_str().unwrap_or("peer"),
            1e3 * number(&peer["median_s"])
        );
    }
}
