//! `far bench utility`: judging candidate memories by the world model's loss.

use super::engine::EngineArguments;
use super::network_shape::NetworkShape;
use super::world_model_fixture::{contexts, normal, world_model};
use super::world_model_run::{AttentionName, conclude, measure};
use super::world_model_work::Predictions;
use super::yardstick::Yardstick;
use crate::hint::Hint;
use crate::progress;
use clap::Args;
use far_model::{Futures, UtilityConfig};
use serde_json::json;

/// What to measure and how.
#[derive(Args)]
pub struct Arguments {
    /// Size of the world model.
    #[arg(long, value_enum, default_value_t = NetworkShape::Small)]
    shape: NetworkShape,
    #[command(flatten)]
    engine: EngineArguments,
    /// Examples whose candidates are judged together.
    #[arg(long, default_value_t = 16)]
    examples: usize,
    /// Candidate memories of each example, each judged alone beside the current frame.
    #[arg(long, default_value_t = 8)]
    candidates: usize,
    /// Noise levels that each candidate is judged at.
    #[arg(long, default_value_t = 4)]
    draws: usize,
    /// Who reads whom in the network.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [AttentionName::Joint, AttentionName::ContextFirst])]
    attention: Vec<AttentionName>,
    /// Seconds to measure for, per kind of attention.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
}

/// Runs the benchmark.
///
/// # Errors
/// If the device cannot be used or has no room.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Arguments { examples, candidates, draws, .. } = *arguments;
    if examples == 0 || candidates == 0 || draws == 0 {
        let hint = "give --examples, --candidates and --draws 1 or more";
        return Err(Hint::error("there is nothing to measure", hint));
    }
    let engine = arguments.engine.open()?;
    let bar = progress::bar(arguments.attention.len() as u64, "kinds of attention");
    let yardstick = Yardstick::measure(&engine, &bar)?;
    let sizes = arguments.shape.sizes();
    let predictions = Predictions { examples, contexts: candidates, draws, slots: 1 };
    let mut joint = None;
    for &attention in &arguments.attention {
        bar.set_message(attention.name());
        bar.tick();
        let (model, parameters) = world_model(sizes, attention.into(), &engine.device)?;
        let batch = contexts(&*model, predictions)?;
        let elements = model.shape().elements();
        let latents = normal(examples * elements, "future", 0);
        let futures = Futures { latents, states: Vec::new() };
        let config = UtilityConfig { levels: draws, ..UtilityConfig::default() };
        let drawn = config.perturbations(examples, elements, 0, 0);
        let pass = || Ok(model.losses(&batch, &futures, &drawn, None)?);
        let mut line = engine.line(&arguments.shape.name());
        line["attention"] = json!(attention.name());
        line["examples"] = json!(examples);
        line["candidates"] = json!(candidates);
        line["draws"] = json!(draws);
        let seconds = measure(&engine, &mut line, arguments.seconds, pass)?;
        let rate = (examples * candidates) as f64 / seconds;
        line["candidates_per_s"] = json!(rate);
        let work = predictions.work(&sizes, attention.into(), engine.number_bytes(), parameters, 1);
        yardstick.judge(&mut line, work, seconds);
        if attention == AttentionName::Joint {
            joint = Some(rate);
        } else if let Some(joint) = joint {
            line["factor_over_joint"] = json!(rate / joint);
        }
        let title = format!(
            "utility of {examples} × {candidates} candidates at {draws} noise levels, {}",
            attention.name()
        );
        let titles = [title, format!("  candidates        {rate:>9.1} per second")];
        conclude((&engine, &arguments.engine), &bar, line, "pass", titles, pass)?;
    }
    bar.finish_and_clear();
    Ok(())
}
