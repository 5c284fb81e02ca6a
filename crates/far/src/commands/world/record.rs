//! `far world record`: records episodes of a world as a dataset.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use far_world::{Progress, Recording};

use crate::hint::Hint;
use crate::progress::counted;
use crate::stage::Stage;

/// Arguments of `far world record`.
#[derive(Args)]
#[command(
    after_help = "Example: far world record --world village --episodes 100 --out data/village\n\n\
    Run the same command again to resume an interrupted recording."
)]
pub struct Arguments {
    /// village, apartment, kitchen or corridor.
    #[arg(long)]
    world: String,
    /// Variant of the world (default: its first).
    #[arg(long)]
    variant: Option<String>,
    /// Number of episodes.
    #[arg(long, default_value_t = 100)]
    episodes: u32,
    /// Number of scenes, which the episodes take in turn (default: the world's own, 120 villages, 81
    /// apartments, 120 kitchens or 7 halls).
    #[arg(long)]
    scenes: Option<u32>,
    /// Width and height of the frames in pixels.
    #[arg(long, default_value_t = 64)]
    size: u32,
    /// Seed of the recording; the same seed gives the same bytes.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Folder of the dataset.
    #[arg(long)]
    out: PathBuf,
    /// Threads (default: the number of cores).
    #[arg(long)]
    threads: Option<usize>,
    /// Print one JSON object instead of a sentence.
    #[arg(long)]
    json: bool,
}

/// Records a dataset.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let world = super::find(&arguments.world)?;
    let variant = arguments.variant.as_deref();
    let mut recording =
        Recording::new(world, variant, arguments.seed, arguments.size).map_err(super::explain)?;
    if let Some(scenes) = arguments.scenes {
        recording = recording.with_scenes(world, scenes).map_err(super::explain)?;
    }
    if arguments.episodes == 0 || arguments.threads == Some(0) {
        return Err(Hint::error("nothing to record", "--episodes and --threads start at 1"));
    }
    let threads = arguments
        .threads
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let bar = Stage::new(u64::from(arguments.episodes), "episodes recorded");
    let frames = std::sync::atomic::AtomicU64::new(0);
    let begin = Instant::now();
    let report = far_world::record(
        world,
        &recording,
        arguments.episodes,
        &arguments.out,
        threads,
        &|step| match step {
            Progress::Start { kept, .. } => {
                bar.start_at(kept as u64);
            }
            Progress::Frame => {
                frames.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
            Progress::Episode => {
                let done = frames.load(std::sync::atomic::Ordering::Relaxed) as f64;
                bar.note(format!("{:.0} frames/s", done / begin.elapsed().as_secs_f64()));
                bar.advance();
            }
        },
    )
    .map_err(super::explain)?;
    bar.end();
    let seconds = begin.elapsed().as_secs_f64();
    let rate = report.frames as f64 / seconds;
    let dataset = far_data::Dataset::open(&arguments.out).map_err(super::super::data::explain)?;
    let mut total_frames = 0u64;
    for id in dataset.ids() {
        let summary = dataset.summary(id).map_err(super::super::data::explain)?;
        total_frames += u64::from(summary.frames);
    }
    let bytes = folder_bytes(&arguments.out)?;
    let per_frame = bytes as f64 / total_frames.max(1) as f64;
    if arguments.json {
        println!(
            "{}",
            serde_json::json!({
                "world": world.name(), "variant": recording.variant, "size": recording.size, "scenes": recording.scenes,
                "threads": threads, "episodes": report.episodes, "kept": report.kept,
                "frames": report.frames, "seconds": seconds, "frames_per_s": rate,
                "bytes_per_frame": per_frame,
            })
        );
    } else {
        println!(
            "recorded {} frames in {seconds:.1} s ({rate:.0} frames/s); {}, {} kept from before, \
             {per_frame:.0} bytes per frame, in {}",
            report.frames,
            counted(report.episodes as u64, "episodes"),
            report.kept,
            arguments.out.display()
        );
    }
    Ok(())
}

/// Bytes of all files in a dataset's folder.
fn folder_bytes(folder: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for folder in [folder.to_path_buf(), folder.join("episodes")] {
        let cannot = || format!("cannot list {}", folder.display());
        for entry in std::fs::read_dir(&folder).with_context(cannot)? {
            let metadata = entry.with_context(cannot)?.metadata().with_context(cannot)?;
            bytes += if metadata.is_file() { metadata.len() } else { 0 };
        }
    }
    Ok(bytes)
}
