//! `far data import`: recordings of other programs as a dataset.

use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, ValueEnum};
use far_data::PoseReport;
use far_data::import::{
    CameraAxes, ConventionChoice, FORMATS, ImportOptions, ImportPlan, ImportProgress, Lens,
    ReturnRule, Up, find_format,
};

use super::explain;
use crate::hint::Hint;
use crate::progress::{self, counted};

/// What to import, and how.
#[derive(Args)]
#[command(
    after_help = "Example: far data import seven-scenes chess --out data/chess --window 250 --crop square --resize 64\n\n\
    Run the same command again to resume an interrupted import. docs/importing.md says what each format holds."
)]
pub struct Arguments {
    /// frames, seven-scenes, tum, transforms, colmap, realestate10k, scannet, tartanair, lerobot, loopnav, worldmem,
    /// soundspaces, thor or dataset.
    #[arg(value_parser = known_format)]
    format: String,
    /// The folder of the recording or recordings.
    source: PathBuf,
    /// Folder of the dataset.
    #[arg(long)]
    out: PathBuf,
    /// Directions of the camera's axes: opencv, opengl, ros, unity, ned, or letters such as rdf.
    #[arg(long)]
    axes: Option<CameraAxes>,
    /// Handedness of the world's axes.
    #[arg(long, value_enum)]
    handed: Option<Handed>,
    /// Which way is up in the world: x, y, z, -x, -y, -z, or cameras (as the cameras have it on average).
    #[arg(long, allow_hyphen_values = true)]
    up: Option<Up>,
    /// Unit of length: m, cm, mm, or a number of meters.
    #[arg(long, value_parser = unit)]
    unit: Option<f64>,
    /// Poses turn camera points into world points.
    #[arg(long, conflicts_with = "world_to_camera")]
    camera_to_world: bool,
    /// Poses turn world points into camera points.
    #[arg(long)]
    world_to_camera: bool,
    /// Order of quaternions in tables without a fixed one; default: wxyz.
    #[arg(long, value_enum, default_value = "wxyz")]
    quaternion: Order,
    /// What the camera sees, when the source does not say: 90 (horizontal degrees) or 90x75.
    #[arg(long)]
    fov: Option<Lens>,
    /// Frames per second to keep; default: all.
    #[arg(long)]
    fps: Option<f64>,
    /// Frames per second of a source without times.
    #[arg(long)]
    source_fps: Option<f64>,
    /// Size of the stored pictures: 64 or 128x96; default: as they are.
    #[arg(long, value_parser = size)]
    resize: Option<[u32; 2]>,
    /// Keep the largest square in the middle of the pictures.
    #[arg(long, value_enum)]
    crop: Option<Crop>,
    /// Cut recordings into episodes of this many frames.
    #[arg(long)]
    window: Option<usize>,
    /// Where the return begins: auto (where places are seen again), last:30%, or column (what the source says).
    #[arg(long = "return", default_value = "auto")]
    return_rule: ReturnRule,
    /// Share of scenes, recordings or windows that test.
    #[arg(long, default_value_t = 0.2)]
    test_share: f64,
    /// Decides which ones test.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Camera to take where a source has several.
    #[arg(long)]
    camera: Option<String>,
    /// Column of the source with the camera's position and quaternion (lerobot).
    #[arg(long)]
    pose_column: Option<String>,
    /// The camera never moves: a source without poses gets the same one in every frame.
    #[arg(long)]
    still_camera: bool,
    /// Make a dataset without poses; sources without them need not be told.
    #[arg(long, conflicts_with_all = ["pose_column", "still_camera"])]
    no_poses: bool,
    /// Import poses although the pictures contradict them.
    #[arg(long)]
    trust_poses: bool,
    /// License of the data, noted in dataset.json.
    #[arg(long, default_value = "")]
    license: String,
    /// Read, check and report; write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Handed {
    Right,
    Left,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Order {
    Wxyz,
    Xyzw,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Crop {
    Square,
}

/// Imports a source.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let begin = Instant::now();
    let format = find_format(&arguments.format).map_err(explain)?;
    let plan =
        ImportPlan::new(format, &arguments.source, &arguments.options()?).map_err(explain)?;
    if !arguments.json {
        print(&plan);
    }
    let planned = begin.elapsed().as_secs_f64();
    if arguments.dry_run {
        if arguments.json {
            println!("{}", summary(&plan));
        }
        return Ok(());
    }
    let bar = progress::bar(plan.frames(), "frames");
    let result = plan
        .write(&arguments.out, &|step| match step {
            ImportProgress::Start { kept_frames } => {
                bar.set_position(kept_frames);
                bar.reset_eta();
            }
            ImportProgress::Frames(frames) => bar.inc(frames),
        })
        .map_err(explain)?;
    bar.finish_and_clear();
    let seconds = begin.elapsed().as_secs_f64() - planned;
    let rate = result.frames as f64 / seconds.max(1e-9);
    if arguments.json {
        let mut report = summary(&plan);
        report["written_frames"] = result.frames.into();
        report["kept"] = result.kept.into();
        report["seconds"] = seconds.into();
        report["frames_per_s"] = rate.into();
        println!("{report}");
    } else {
        println!(
            "imported {} frames in {seconds:.1} s ({rate:.0} frames/s); {}, {} kept from before, in {}",
            result.frames,
            counted(result.episodes as u64, "episodes"),
            result.kept,
            arguments.out.display()
        );
        println!("next: far data inspect {}", arguments.out.display());
    }
    Ok(())
}

impl Arguments {
    fn options(&self) -> anyhow::Result<ImportOptions> {
        let positive = |name: &str, value: Option<f64>| match value {
            Some(value) if !value.is_finite() || value <= 0.0 => {
                Err(Hint::error(format!("{name} is {value}"), format!("{name} must be above 0")))
            }
            _ => Ok(()),
        };
        positive("--fps", self.fps)?;
        positive("--source-fps", self.source_fps)?;
        if self.window.is_some_and(|window| window < 2) {
            return Err(Hint::error("--window is too short", "an episode has at least 2 frames"));
        }
        if !(0.0..1.0).contains(&self.test_share) {
            let message = format!("--test-share is {}", self.test_share);
            return Err(Hint::error(message, "a share lies between 0 and 1"));
        }
        Ok(ImportOptions {
            convention: ConventionChoice {
                axes: self.axes,
                left_handed: self.handed.map(|handed| handed == Handed::Left),
                up: self.up,
                unit: self.unit,
                world_to_camera: (self.world_to_camera || self.camera_to_world)
                    .then_some(self.world_to_camera),
            },
            quaternions_xyzw: self.quaternion == Order::Xyzw,
            lens: self.fov,
            fps: self.fps,
            source_fps: self.source_fps,
            resize: self.resize,
            square: self.crop == Some(Crop::Square),
            window: self.window,
            return_rule: self.return_rule,
            test_share: self.test_share,
            seed: self.seed,
            camera: self.camera.clone(),
            pose_column: self.pose_column.clone(),
            still_camera: self.still_camera,
            no_poses: self.no_poses,
            trust_poses: self.trust_poses,
            license: self.license.clone(),
        })
    }
}

/// Says what was found and decided.
fn print(plan: &ImportPlan) {
    for (name, report) in &plan.reports {
        println!("{name}: {}", poses_line(report));
        report.warnings().iter().for_each(|warning| eprintln!("warning: {name}: {warning}"));
    }
    plan.notes.iter().for_each(|note| eprintln!("note: {note}"));
    let returns = plan.episodes.iter().filter(|episode| episode.boundary < episode.frames.len());
    let (mut count, mut explore, mut frames) = (0, 0, 0);
    for episode in returns {
        count += 1;
        explore += episode.boundary;
        frames += episode.frames.len();
    }
    let shares: Vec<f64> = plan.episodes.iter().filter_map(|episode| episode.share).collect();
    let seen = match shares.len() {
        0 => String::new(),
        found => {
            let mean = shares.iter().sum::<f64>() / found as f64;
            format!("; {:.0} % of the return's frames see a place again", 100.0 * mean)
        }
    };
    println!(
        "{}, {} frames; {count} return, on average after {:.0} % of their frames{seen}",
        counted(plan.episodes.len() as u64, "episodes"),
        plan.frames(),
        100.0 * explore as f64 / frames.max(1) as f64,
    );
}

/// The check of poses in one line.
pub fn poses_line(report: &PoseReport) -> String {
    let warp = match &report.warp {
        Some(warp) => format!(
            "frames turned by the poses {:.1} dB alike, unturned {:.1} dB ({} pairs)",
            warp.warped_db, warp.unwarped_db, warp.pairs
        ),
        None => "too few turns to compare pictures".into(),
    };
    format!(
        "{:.0} % of the way forward, upright {:.2}, {:.2} m/s, {:.1} m across, {} jumps; {warp}",
        100.0 * report.forward_share,
        report.upright,
        report.speed,
        report.extent,
        report.jumps.len()
    )
}

fn summary(plan: &ImportPlan) -> serde_json::Value {
    let reports: serde_json::Map<String, serde_json::Value> = plan
        .reports
        .iter()
        .map(|(name, report)| (name.clone(), serde_json::json!(report)))
        .collect();
    let boundaries: Vec<usize> = plan.episodes.iter().map(|episode| episode.boundary).collect();
    serde_json::json!({
        "episodes": plan.episodes.len(), "frames": plan.frames(), "boundaries": boundaries,
        "poses": reports, "notes": plan.notes, "description": plan.description,
    })
}

fn known_format(name: &str) -> Result<String, String> {
    if find_format(name).is_ok() {
        return Ok(name.into());
    }
    let lines: Vec<String> =
        FORMATS.iter().map(|format| format!("  {:<14}{}", format.name, format.about)).collect();
    Err(format!("it is not one of\n{}", lines.join("\n")))
}

fn unit(text: &str) -> Result<f64, String> {
    match text {
        "m" => Ok(1.0),
        "cm" => Ok(0.01),
        "mm" => Ok(0.001),
        number => match number.parse::<f64>() {
            Ok(unit) if unit.is_finite() && unit > 0.0 => Ok(unit),
            _ => Err("it is not m, cm, mm or a number of meters".into()),
        },
    }
}

fn size(text: &str) -> Result<[u32; 2], String> {
    let side = |word: &str| match word.parse::<u32>() {
        Ok(side) if (1..=16_384).contains(&side) => Ok(side),
        _ => Err(format!("`{word}` is not a number of pixels from 1 to 16384")),
    };
    match text.split_once('x') {
        Some((width, height)) => Ok([side(width)?, side(height)?]),
        None => side(text).map(|side| [side, side]),
    }
}
