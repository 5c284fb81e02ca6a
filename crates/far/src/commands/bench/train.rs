//! `far bench train`: forward, backward and AdamW of the world model's network.

use super::engine::{Engine, EngineArguments, memory_line};
use super::json_peer::{self, load_average, median};
use super::kernel_table::KernelTable;
use super::network_shape::NetworkShape;
use super::training_network::TrainingNetwork;
use super::yardstick::Yardstick;
use crate::hint::Hint;
use crate::progress;
use clap::Args;
use indicatif::ProgressBar;
use serde_json::{Value, json};
use std::time::Instant;

/// What to measure and how.
#[derive(Args)]
pub struct Arguments {
    /// Size of the network and of the batch.
    #[arg(long, value_enum, default_value_t = NetworkShape::Small)]
    shape: NetworkShape,
    #[command(flatten)]
    engine: EngineArguments,
    /// Steps in each round; the first third warms up.
    #[arg(long, default_value_t = 30)]
    steps: usize,
    /// Rounds; with a peer, each runs the peer and then this engine.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// A command that prints JSON lines with `shape`, `dtype` and `median_s`, to compare with; the
    /// fastest line of this shape and precision counts.
    #[arg(long)]
    peer: Option<String>,
}

/// Runs the benchmark.
///
/// # Errors
/// If the device cannot be used or the peer fails.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.steps < 3 || arguments.rounds == 0 {
        let hint = "give --steps 3 or more and --rounds 1 or more";
        return Err(Hint::error("there is nothing to measure", hint));
    }
    let shape = arguments.shape.name();
    let mut peers = Vec::new();
    if let Some(command) = &arguments.peer {
        // A wrong command should not be found out after minutes.
        peers.push(json_peer::run(command)?);
    }
    let engine = arguments.engine.open()?;
    let bar = progress::bar((arguments.rounds * arguments.steps) as u64, "steps");
    let yardstick = Yardstick::measure(&engine, &bar)?;
    let sizes = arguments.shape.sizes();
    let mut runner = Runner::new(TrainingNetwork::new(sizes, &engine.device)?, &engine, bar);
    let (mut medians, mut fastest) = (Vec::new(), f64::INFINITY);
    for round in 0..arguments.rounds {
        if let (Some(command), true) = (&arguments.peer, round > 0) {
            peers.push(json_peer::run(command)?);
        }
        let times = runner.round(arguments.steps)?;
        fastest = times.iter().copied().fold(fastest, f64::min);
        medians.push(median(&times));
    }
    let best = medians.iter().copied().fold(f64::INFINITY, f64::min);
    let mut line = engine.line(&shape);
    line["median_s"] = json!(best);
    line["min_s"] = json!(fastest);
    line["first_step_s"] = json!(runner.first);
    engine.note_memory(&mut line);
    line["round_medians_s"] = json!(medians);
    line["load_average"] = json!(load_average());
    let parameters = runner.network.trained.parameters.count();
    yardstick.judge(&mut line, sizes.training(parameters, engine.number_bytes()), best);
    if !peers.is_empty() {
        let wanted = [("shape", json!(shape)), ("dtype", line["dtype"].clone())];
        let peers = peers
            .iter()
            .map(|lines| json_peer::least(lines, &wanted, "median_s"))
            .collect::<anyhow::Result<Vec<Value>>>()?;
        compare(&mut line, &medians, &peers);
    }
    let profile = arguments.engine.profile.then(|| runner.profile(arguments.steps.min(10)));
    let profile = profile.transpose()?;
    runner.bar.finish_and_clear();
    if let Some(table) = &profile {
        line["profile"] = table.json();
        line["profile_total_ms"] = json!(table.total());
    }
    if arguments.engine.json {
        println!("{line}");
    } else {
        print_table(&line);
        if let Some(table) = profile {
            table.print("step", best);
        }
    }
    Ok(())
}

/// Adds the peer's fastest lines of each round beside the medians of the same rounds.
fn compare(line: &mut Value, medians: &[f64], peers: &[Value]) {
    let of_peer = |peer: &Value| peer["median_s"].as_f64().unwrap_or(f64::NAN);
    let times: Vec<f64> = peers.iter().map(of_peer).collect();
    let best = times.iter().copied().fold(f64::INFINITY, f64::min);
    let ratios: Vec<f64> = medians.iter().zip(&times).map(|(far, peer)| far / peer).collect();
    let own = medians.iter().copied().fold(f64::INFINITY, f64::min);
    let fastest = peers.iter().find(|peer| of_peer(peer) == best).unwrap_or(&Value::Null);
    line["peer"] = fastest.clone();
    line["peer_medians_s"] = json!(times);
    line["ratio"] = json!(own / best);
    line["median_ratio"] = json!(median(&ratios));
}

/// The network under the clock.
struct Runner<'a> {
    network: TrainingNetwork,
    engine: &'a Engine,
    bar: ProgressBar,
    /// Seconds of the very first step, with the compilation of kernels.
    first: Option<f64>,
}

impl<'a> Runner<'a> {
    fn new(network: TrainingNetwork, engine: &'a Engine, bar: ProgressBar) -> Self {
        bar.set_message("");
        Self { network, engine, bar, first: None }
    }

    /// Seconds of each step after the first third.
    fn round(&mut self, steps: usize) -> anyhow::Result<Vec<f64>> {
        let Self { network, engine, bar, first } = self;
        let times = engine.device.run(|| {
            let mut times = Vec::with_capacity(steps);
            for _ in 0..steps {
                let start = Instant::now();
                network.step()?;
                let seconds = start.elapsed().as_secs_f64();
                first.get_or_insert(seconds);
                times.push(seconds);
                bar.inc(1);
            }
            far_tensor::Result::Ok(times)
        });
        Ok(times?.split_off(steps / 3))
    }

    fn profile(&mut self, steps: usize) -> anyhow::Result<KernelTable> {
        self.bar.set_message("timing kernels");
        let Self { network, engine, .. } = self;
        engine.profiled(steps, || Ok(engine.device.run(|| network.step())?))
    }
}

fn print_table(line: &Value) {
    let number = |key: &str| line[key].as_f64().unwrap_or(f64::NAN);
    let text = |key: &str| line[key].as_str().unwrap_or_default();
    println!(
        "one training step, shape {}, {}, on {}",
        text("shape"),
        text("dtype"),
        text("machine")
    );
    println!("  median            {:>9.2} ms", 1e3 * number("median_s"));
    println!("  fastest           {:>9.2} ms", 1e3 * number("min_s"));
    println!("  the first one     {:>9.2} ms", 1e3 * number("first_step_s"));
    println!("  rate              {:>9.1} GFLOP/s", number("gflops"));
    Yardstick::print(line);
    memory_line(line).iter().for_each(|line| println!("{line}"));
    if line["ratio"].is_number() {
        let peer = &line["peer"];
        println!(
            "  against the peer  {:>9.3} × its time ({}: {:.2} ms)",
            number("ratio"),
            peer["engine"].as_str().unwrap_or("peer"),
            1e3 * peer["median_s"].as_f64().unwrap_or(f64::NAN),
        );
    }
}
