//! `far bench rollout`: sampling frames from contexts of memories.

use super::engine::EngineArguments;
use super::json_peer;
use super::network_shape::NetworkShape;
use super::world_model_fixture::{contexts, normal, world_model};
use super::world_model_run::{AttentionName, conclude, measure};
use super::world_model_work::Predictions;
use super::yardstick::Yardstick;
use crate::hint::Hint;
use crate::progress;
use clap::Args;
use far_model::DdimConfig;
use serde_json::json;
use std::collections::BTreeMap;

/// What to measure and how.
#[derive(Args)]
pub struct Arguments {
    /// Size of the world model.
    #[arg(long, value_enum, default_value_t = NetworkShape::Paper)]
    shape: NetworkShape,
    #[command(flatten)]
    engine: EngineArguments,
    /// Clips that are rolled out side by side, one measurement each.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8])]
    clips: Vec<usize>,
    /// Memories in a context, beside the current frame.
    #[arg(long, default_value_t = 12)]
    context: usize,
    /// Steps of DDIM.
    #[arg(long, default_value_t = 20)]
    steps: usize,
    /// Who reads whom in the network.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [AttentionName::Joint, AttentionName::ContextFirst])]
    attention: Vec<AttentionName>,
    /// Seconds to measure each case for.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// A command that prints JSON lines with `clips`, `dtype` and `median_s`, to compare joint
    /// attention with; the fastest line of a case counts.
    #[arg(long)]
    peer: Option<String>,
}

/// Runs the benchmark.
///
/// # Errors
/// If the device cannot be used or has no room, or the peer fails.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Arguments { context, steps, .. } = *arguments;
    if steps == 0 || arguments.clips.is_empty() || arguments.clips.contains(&0) {
        let hint = "give --clips and --steps 1 or more";
        return Err(Hint::error("there is nothing to measure", hint));
    }
    let peers = arguments.peer.as_deref().map(json_peer::run).transpose()?;
    let engine = arguments.engine.open()?;
    let sizes = arguments.shape.sizes();
    let cases = arguments.attention.len() * arguments.clips.len();
    let bar = progress::bar(cases as u64, "cases");
    let yardstick = Yardstick::measure(&engine, &bar)?;
    let sampler = DdimConfig { steps, ..DdimConfig::default() };
    let mut joint: BTreeMap<usize, f64> = BTreeMap::new();
    for &attention in &arguments.attention {
        bar.set_message(attention.name());
        let (model, parameters) = world_model(sizes, attention.into(), &engine.device)?;
        for &clips in &arguments.clips {
            bar.tick();
            let of = Predictions { examples: clips, contexts: 1, draws: steps, slots: context };
            let batch = contexts(&*model, of)?;
            let noise = normal(clips * model.shape().elements(), "noise", 0);
            let frame = || Ok(model.sample(&batch, &noise, &sampler)?);
            let mut line = engine.line(&arguments.shape.name());
            line["attention"] = json!(attention.name());
            line["clips"] = json!(clips);
            line["context"] = json!(context);
            line["steps"] = json!(steps);
            let seconds = measure(&engine, &mut line, arguments.seconds, frame)?;
            let rate = clips as f64 / seconds;
            line["frames_per_s"] = json!(rate);
            let bytes = engine.number_bytes();
            let work = of.work(&sizes, attention.into(), bytes, parameters, steps);
            yardstick.judge(&mut line, work, seconds);
            if attention == AttentionName::Joint {
                joint.insert(clips, rate);
                if let Some(lines) = &peers {
                    let same = ["shape", "dtype", "clips", "context", "steps"];
                    json_peer::compare(&mut line, lines, &same)?;
                }
            } else if let Some(joint) = joint.get(&clips) {
                line["factor_over_joint"] = json!(rate / joint);
            }
            let title =
                format!("DDIM-{steps} of {clips} clips, {context} memories, {}", attention.name());
            let titles = [title, format!("  frames            {rate:>9.2} per second")];
            conclude((&engine, &arguments.engine), &bar, line, "frame", titles, frame)?;
        }
    }
    bar.finish_and_clear();
    Ok(())
}
