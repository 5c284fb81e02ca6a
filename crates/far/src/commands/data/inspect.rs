//! `far data inspect`: what a dataset holds, as a table, a contact sheet and a map.

use std::path::{Path, PathBuf};

use clap::Args;
use far_data::{ContactSheet, Dataset, DatasetCheck, EpisodeMap, Inspection, PoseReport};

use super::explain;
use super::import::poses_line;
use crate::file;
use crate::progress::{self, counted};

/// What to look at.
#[derive(Args)]
#[command(after_help = "Example: far data inspect data/village --episode 3")]
pub struct Arguments {
    /// The dataset's folder.
    path: PathBuf,
    /// Episode to draw (default: the first).
    #[arg(long)]
    episode: Option<u32>,
    /// Episodes to open for shares and sizes, spread evenly; 0 opens all.
    #[arg(long, default_value_t = 200)]
    open: usize,
    /// Pictures on the contact sheet.
    #[arg(long, default_value_t = 24)]
    pictures: usize,
    /// Folder for contact-sheet.png and map.svg (default: `inspect` inside the dataset).
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// Inspects a dataset.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let dataset = Dataset::open(&arguments.path).map_err(explain)?;
    let ids: Vec<u32> = dataset.ids().collect();
    let opened = if arguments.open == 0 { ids.len() } else { arguments.open.min(ids.len()) };
    let chosen: Vec<u32> = (0..opened).map(|index| ids[index * ids.len() / opened]).collect();
    let bar = progress::bar(chosen.len() as u64, "episodes");
    let inspection = Inspection::of_index(&dataset)
        .and_then(|inspection| inspection.open(&dataset, &chosen, || bar.inc(1)))
        .map_err(explain)?;
    bar.finish_and_clear();
    let episode = arguments.episode.unwrap_or(ids[0]);
    let drawn = dataset.episode(episode).map_err(explain)?;
    let poses = PoseReport::of_episode(&drawn).map_err(explain)?;
    if !arguments.json {
        print(&dataset, &inspection);
        let line =
            poses.as_ref().map_or_else(|| "none: the dataset has no poses".into(), poses_line);
        row(&format!("poses, episode {episode}"), line);
        let whole = DatasetCheck::of(&dataset, true).map_err(explain)?;
        let rate = drawn.check_frame_rate().err();
        let wrong = whole.problems.iter().chain(&rate).map(ToString::to_string);
        let warnings = poses.as_ref().map(PoseReport::warnings).unwrap_or_default();
        let warnings = warnings.into_iter().chain(whole.warnings.clone()).chain(wrong);
        warnings.for_each(|warning| eprintln!("warning: {warning}"));
    }
    let out = arguments.out.clone().unwrap_or_else(|| folder_for(&arguments.path));
    let files = draw(&dataset, episode, arguments.pictures, &out)?;
    if arguments.json {
        let mut report = serde_json::to_value(&inspection)?;
        report["poses"] = serde_json::to_value(&poses)?;
        report["files"] = serde_json::to_value(&files)?;
        println!("{report}");
    } else {
        files.iter().for_each(|file| println!("wrote {}", file.display()));
    }
    Ok(())
}

/// `inspect` inside the dataset, or where the dataset's cache is when that cannot be written.
fn folder_for(dataset: &Path) -> PathBuf {
    let inside = dataset.join("inspect");
    if far_data::can_write(&inside) {
        return inside;
    }
    let outside = far_data::cache_folder(dataset).join("inspect");
    eprintln!("note: {} cannot be written; pictures go to {}", inside.display(), outside.display());
    outside
}

/// Draws one episode and returns the files written.
fn draw(dataset: &Dataset, id: u32, pictures: usize, out: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let episode = dataset.episode(id).map_err(explain)?;
    let facts = dataset.summary(id).map_err(explain)?.facts;
    let corpus = &dataset.description().corpus;
    let title = format!("{corpus} episode {id}, {} {}", facts.scene, facts.route);
    file::create_folder(out)?;
    let write = |name: &str, bytes: &[u8]| {
        let path = out.join(name);
        file::write(&path, bytes).map(|()| path)
    };
    let mut files = Vec::new();
    if dataset.description().images.in_episodes() {
        let sheet = ContactSheet::of_episode(&episode, pictures, title.clone());
        files.push(write("contact-sheet.png", &sheet.map_err(explain)?.render().to_png())?);
    } else {
        eprintln!("note: no contact sheet, since the frames are not in the episode files");
    }
    if dataset.description().poses {
        let map = EpisodeMap::of_episode(&episode, title);
        files.push(write("map.svg", map.to_svg().as_bytes())?);
    }
    Ok(files)
}

fn print(dataset: &Dataset, inspection: &Inspection) {
    let description = dataset.description();
    let [width, height] = description.resolution;
    let variant = match inspection.variant.as_str() {
        "" => String::new(),
        variant => format!(" ({variant})"),
    };
    row("corpus", format!("{}{variant}", inspection.corpus));
    let generator = &description.generator;
    row("made by", format!("{} {}, seed {}", generator.name, generator.version, generator.seed));
    let scenes = counted(inspection.scenes, "scenes");
    row("episodes", format!("{} in {scenes}", inspection.episodes));
    for (rule, parts) in &inspection.splits {
        row(&format!("split, {rule}"), join(parts));
    }
    if !inspection.routes.is_empty() {
        row("routes", join(&inspection.routes));
    }
    let Inspection { frames, return_frames, hours, .. } = inspection;
    let mean = *frames as f64 / inspection.episodes as f64;
    let time = format!("{mean:.0} per episode, {hours:.2} h at {} fps", description.fps);
    row("frames", format!("{frames} ({return_frames} return), {time}"));
    row("pictures", format!("{width}x{height}, {:?}", description.images).to_lowercase());
    if let Some(commands) = &description.robot_action {
        row("robot actions", format!("{} numbers per frame", commands.width()));
    }
    if let Some(rate) = description.audio_rate {
        row("audio", format!("binaural, {rate} Hz"));
    }
    let opened = counted(inspection.opened, "episodes");
    row("opened", format!("{opened} for what follows"));
    row("bytes per frame", format!("{:.0}", inspection.bytes_per_frame));
    if !inspection.events.is_empty() {
        row("events", join(&inspection.events));
    }
    if inspection.changed_frames > 0 {
        row("changed frames", inspection.changed_frames.to_string());
    }
    if inspection.agent_frames > 0 {
        row("agent in view", format!("{} frames", inspection.agent_frames));
    }
    if inspection.coverage.is_some() {
        let covered = "of return frames: some memory sees at least half of the same faces";
        share_row("covered", inspection.covered_share, covered);
        let misled = "of those: the memory with the largest field-of-view overlap does not";
        share_row("overlap misleads", inspection.misled_share, misled);
    }
    if let Some(staleness) = inspection.staleness {
        let changed = "return frames at a known viewpoint show a changed state";
        row("changed examples", format!("{} {changed}", staleness.frames));
        let stale = "of those: the newest pose-matched memory shows an old state";
        share_row("stale", inspection.stale_share, stale);
        let known = "of those: some memory shows the state, or its making";
        share_row("known", inspection.known_share, known);
    }
}

fn row(name: &str, value: String) {
    println!("{name:<22}{value}");
}

fn join(counts: &std::collections::BTreeMap<String, u64>) -> String {
    let parts: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    parts.join(", ")
}

fn share_row(name: &str, share: Option<f64>, meaning: &str) {
    let text = share.map(|share| format!("{:.1} % {meaning}", 100.0 * share));
    row(name, text.unwrap_or_else(|| "no frame to judge".into()));
}
