//! Predictions of a world model under the clock: what `far bench utility` and `far bench rollout`
//! share.

use super::engine::{Engine, EngineArguments, memory_line};
use super::json_peer::median;
use super::kernel_table::KernelTable;
use clap::ValueEnum;
use far_model::ContextAttention;
use indicatif::ProgressBar;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Who reads whom in attention over all frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AttentionName {
    /// Every frame reads every other, as in the paper.
    Joint,
    /// Context frames read each other; the target reads all.
    ContextFirst,
}

impl AttentionName {
    /// As written on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Joint => "joint",
            Self::ContextFirst => "context-first",
        }
    }
}

impl From<AttentionName> for ContextAttention {
    fn from(name: AttentionName) -> Self {
        match name {
            AttentionName::Joint => Self::Joint,
            AttentionName::ContextFirst => Self::ContextFirst,
        }
    }
}

/// Repeats some work for `seconds`, at least three times after a first one, and adds its times to a
/// line; gives the median in seconds.
///
/// # Errors
/// Those of the work.
pub fn measure<T>(
    engine: &Engine,
    line: &mut Value,
    seconds: f64,
    mut work: impl FnMut() -> anyhow::Result<T>,
) -> anyhow::Result<f64> {
    let mut timed = || {
        let start = Instant::now();
        work()?;
        engine.device.synchronize()?;
        anyhow::Ok(start.elapsed().as_secs_f64())
    };
    engine.device.forget_peak();
    let first = timed()?;
    let until = Instant::now() + Duration::from_secs_f64(seconds.max(0.0));
    let mut times = Vec::new();
    while times.len() < 3 || Instant::now() < until {
        times.push(timed()?);
    }
    let middle = median(&times);
    line["median_s"] = json!(middle);
    line["min_s"] = json!(times.iter().copied().fold(f64::INFINITY, f64::min));
    line["first_s"] = json!(first);
    line["runs"] = json!(times.len());
    engine.note_memory(line);
    Ok(middle)
}

/// Times every kernel of the work where that is asked for, then prints the line or, behind the title and
/// the rate, a table.
///
/// # Errors
/// Those of the work.
pub fn conclude<T>(
    (engine, arguments): (&Engine, &EngineArguments),
    bar: &ProgressBar,
    mut line: Value,
    run: &str,
    [title, rate]: [String; 2],
    work: impl FnMut() -> anyhow::Result<T>,
) -> anyhow::Result<()> {
    let table = arguments.profile.then(|| engine.profiled(2, work)).transpose()?;
    if let Some(table) = &table {
        line["profile"] = table.json();
    }
    bar.inc(1);
    bar.suspend(|| {
        if arguments.json {
            println!("{line}");
            return;
        }
        let shape = line["shape"].as_str().unwrap_or_default();
        println!("{title}, shape {shape}, {}, on {}", engine.precision, engine.device);
        println!("{rate}");
        print(&line, table.as_ref(), run);
    });
    Ok(())
}

fn print(line: &Value, table: Option<&KernelTable>, run: &str) {
    let number = |key: &str| line[key].as_f64().unwrap_or(f64::NAN);
    println!("  median            {:>9.2} ms", 1e3 * number("median_s"));
    println!("  the first one     {:>9.2} ms", 1e3 * number("first_s"));
    super::yardstick::Yardstick::print(line);
    memory_line(line).iter().for_each(|line| println!("{line}"));
    if let Some(factor) = line["factor_over_joint"].as_f64() {
        println!("  against joint     {factor:>9.2} × as fast");
    }
    if let Some(ratio) = line["ratio"].as_f64() {
        let peer = line["peer"]["engine"].as_str().unwrap_or("peer");
        println!("  against {peer:<10}{ratio:>9.2} × as fast");
    }
    if let Some(table) = table {
        table.print(run, number("median_s"));
    }
}
