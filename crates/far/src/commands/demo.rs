//! `far demo`: walk villages, remember the way out, learn what to recall, compare every rule.

use crate::hint::Hint;
use crate::progress;
use anyhow::Context;
use clap::Args;
use far_data::{Dataset, Split, SplitRule};
use far_eval::{Clip, ClipConfig, Comparison, ComparisonConfig, page};
use far_memory::RecallPolicy;
use far_memory::policy::{PolicyConfig, RuleConfig};
use far_tensor::Device;
use far_train::{Distillation, DistillationConfig};
use far_world::{Progress, Recording};
use rayon::prelude::*;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Rules that the demonstration leaves out: `far` is learned here, `oracle` is added by the
/// comparison.
const APART: [&str; 2] = ["far", "oracle"];

/// What to walk and where to put the result.
#[derive(Args)]
pub struct Arguments {
    /// Folder of the run; walks recorded there are used again.
    #[arg(long, default_value = "runs/demo")]
    out: PathBuf,
    /// Walks to record.
    #[arg(long, default_value_t = 60)]
    episodes: u32,
    /// Memories that every rule may recall.
    #[arg(long, default_value_t = 3)]
    slots: usize,
    /// Seed of everything.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the demonstration.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let start = Instant::now();
    let Arguments { out, episodes, slots, seed, json } = arguments;
    if *slots == 0 || *episodes < 10 {
        return Err(Hint::error(
            "there is nothing to compare",
            "give --slots 1 or more and --episodes 10 or more",
        ));
    }
    let dataset = record(&out.join(format!("village-{episodes}-{seed}")), *episodes, *seed)?;
    let learning = open_clips(&dataset, Split::Train, "walks to learn from")?;
    let judging = open_clips(&dataset, Split::Test, "walks to judge by")?;
    let retriever = learn(&learning, *seed, out)?;
    let mut policies: Vec<Box<dyn RecallPolicy>> = vec![Box::new(retriever)];
    let (camera, reach) = (dataset.description().camera(), dataset.description().overlap_radius);
    for id in RuleConfig::IDS.iter().filter(|id| !APART.contains(id)) {
        policies.push(PolicyConfig::from_id(id)?.with_camera(&camera, reach).build()?);
    }
    let config = ComparisonConfig { slots: *slots, seed: *seed };
    let comparison = Comparison::run(&judging, &policies, config)?;

    let results = serde_json::to_string_pretty(&comparison)?;
    write(&out.join("results.json"), &results)?;
    let title = "What would you recall on the way back?";
    let html = page(&comparison, &judging, 0, title)?;
    let index = out.join("index.html");
    write(&index, &html)?;
    if *json {
        println!("{results}");
    } else {
        print_table(&comparison);
        println!("\nlook at {} ({:.0} s)", index.display(), start.elapsed().as_secs_f64());
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn record(folder: &Path, episodes: u32, seed: u64) -> anyhow::Result<Dataset> {
    let world = far_world::world("village")?;
    let recording = Recording::new(world, None, seed, 64)?;
    let bar = progress::bar(u64::from(episodes), "walks recorded");
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    far_world::record(world, &recording, episodes, folder, threads, &|news| match news {
        Progress::Start { kept, .. } => bar.set_position(kept as u64),
        Progress::Episode => bar.inc(1),
        Progress::Frame => {}
    })?;
    bar.finish_and_clear();
    Ok(Dataset::open(folder)?)
}

/// Opens the clips of one half of the scenes; no scene is in both.
fn open_clips(dataset: &Dataset, split: Split, unit: &'static str) -> anyhow::Result<Vec<Clip>> {
    let ids = dataset.select(SplitRule::SceneDisjoint, split)?;
    let bar = progress::bar(ids.len() as u64, unit);
    let clips = ids.par_iter().map(|id| {
        let clip = Clip::open(dataset, *id, ClipConfig::default());
        bar.inc(1);
        clip
    });
    let clips: Vec<Clip> = clips.collect::<far_eval::Result<_>>()?;
    bar.finish_and_clear();
    Ok(clips.into_iter().filter(|clip| !clip.queries().is_empty()).collect())
}

/// Learns what to recall and keeps the retriever in the run's folder.
fn learn(clips: &[Clip], seed: u64, out: &Path) -> anyhow::Result<far_memory::Retriever> {
    let config = DistillationConfig { seed, ..DistillationConfig::default() };
    let mut distillation = Distillation::new(clips, &Device::cpu(), config)?;
    let bar = progress::bar(config.steps, "updates");
    for _ in 0..config.steps {
        let divergence = distillation.step()?;
        bar.set_message(format!("KL {divergence:.3}"));
        bar.inc(1);
    }
    bar.finish_and_clear();
    let retriever = distillation.retriever()?;
    retriever.save(out.join("retriever.safetensors"))?;
    Ok(retriever)
}

fn print_table(comparison: &Comparison) {
    println!(
        "{} held-out walks, {} questions, {} memories each",
        comparison.clips, comparison.questions, comparison.slots
    );
    println!("share of the coming view's new surfaces that the recalled memories show:\n");
    let far = comparison.paired.get("far");
    for rule in &comparison.rules {
        let coverage = rule.coverage;
        let bar = "█".repeat((40.0 * coverage.mean).round() as usize);
        let against = far.and_then(|far| far.get(&rule.id)).map_or(String::new(), |difference| {
            let sign = if !difference.excludes_zero() { " " } else { "*" };
            format!(
                "far {:+5.1} [{:+5.1}, {:+5.1}]{sign}",
                100.0 * difference.mean,
                100.0 * difference.lo,
                100.0 * difference.hi
            )
        });
        println!("  {:<20} {:>5.1} %  {bar:<30} {against}", rule.id, 100.0 * coverage.mean);
    }
    println!("\n  * the 95 % interval of the paired difference excludes zero");
}
