//! `far tokenizer compare`: what tokenizers keep of frames that none was fitted to.

use crate::commands::compute::ComputeArguments;
use crate::commands::train::explain;
use crate::file;
use crate::hint::Hint;
use crate::progress;
use clap::Args;
use far_data::{Cell, ContactSheet, Dataset, EXPLORE_COLOR, Picture, RETURN_COLOR, Split};
use far_model::{Lpips, Tokenizer, psnr, ssim};
use far_tensor::Device;
use far_train::TrainConfig;
use rayon::prelude::*;
use serde_json::json;
use std::path::PathBuf;

/// Arguments of `far tokenizer compare`.
#[derive(Args)]
#[command(
    after_help = "Example: far tokenizer compare --data data/village --kind patch-pca --kind far --kind mine.safetensors --picture look.png"
)]
pub struct Arguments {
    /// Folder of the dataset; frames of its test split are compared.
    #[arg(long)]
    data: PathBuf,
    /// A tokenizer, as in tokenizer.kind; repeatable.
    #[arg(long = "kind", required = true)]
    kinds: Vec<String>,
    /// A preset or the path of a .toml file, for the settings of patch-pca.
    #[arg(long, default_value = "village")]
    config: String,
    /// Override a setting: --set tokenizer.patch_pca.channels=16; repeatable.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Frames, spread evenly over the episodes.
    #[arg(long, default_value_t = 200)]
    frames: usize,
    /// Write a sheet of some frames with what each tokenizer makes of them.
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// Weights of LPIPS (default: AlexNet's in the cache).
    #[arg(long)]
    lpips: Option<PathBuf>,
    #[command(flatten)]
    compute: ComputeArguments,
    /// Print one JSON object per tokenizer instead of a table.
    #[arg(long)]
    json: bool,
}

/// Rows of the sheet.
const SHOWN: usize = 5;
/// The smallest side of a picture that SSIM and LPIPS accept.
const LEAST_SIDE: u32 = 31;

/// One frame of an episode.
type Place = (u32, usize);

/// Compares tokenizers.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let dataset = Dataset::open(&arguments.data).map_err(explain)?;
    let lpips = Lpips::find(arguments.lpips.as_deref()).map_err(explain)?;
    let select = |split| dataset.select(None, split).map_err(explain);
    let (learned, judged) = (select(Split::Train)?, select(Split::Test)?);
    let places = spread(&dataset, &judged, arguments.frames)?;
    let mut columns = Vec::new();
    if !arguments.json {
        println!(
            "{} frames of {} held-out episodes\n{:24} {:>16} {:>8} {:>8} {:>8}",
            places.len(),
            judged.len(),
            "tokenizer",
            "latent",
            "PSNR",
            "SSIM",
            "LPIPS"
        );
    }
    for kind in &arguments.kinds {
        let size = dataset.description().resolution;
        let config = configuration(arguments, kind, size).map_err(explain)?;
        let device = config.compute.open().map_err(explain)?;
        let tokenizer = config.tokenizer.build(&dataset, &learned, &device).map_err(explain)?;
        let pictures = round_trips(&dataset, tokenizer.as_ref(), &places, &device)?;
        let quality = Quality::mean(&pictures, lpips.as_ref())?;
        let shape = tokenizer.shape();
        if arguments.json {
            let line = json!({
                "tokenizer": kind, "frames": places.len(),
                "latent": [shape.channels, shape.height, shape.width],
                "psnr": quality.psnr, "ssim": quality.ssim, "lpips": quality.lpips,
            });
            println!("{line}");
        } else {
            let latent = format!("{} × {} × {}", shape.channels, shape.height, shape.width);
            let number = |value: Option<f64>, digits: usize| {
                value.map_or("–".to_owned(), |value| format!("{value:.digits$}"))
            };
            let (ssim, lpips) = (number(quality.ssim, 3), number(quality.lpips, 4));
            println!("{kind:24} {latent:>16} {:>8.2} {ssim:>8} {lpips:>8}", quality.psnr);
        }
        columns.push((kind, pictures));
    }
    if lpips.is_none() {
        eprintln!(
            "note: LPIPS needs weights, which scripts/make_lpips_weights.py puts into the cache"
        );
    }
    arguments.picture.as_ref().map_or(Ok(()), |path| file::write(path, sheet(&columns).to_png()))
}

/// The configuration of one tokenizer; patches are fitted to frames of `size`, their own, by default.
fn configuration(
    arguments: &Arguments,
    kind: &str,
    size: [u32; 2],
) -> far_train::Result<TrainConfig> {
    let mut sets = vec![format!("tokenizer.patch_pca.resolution={size:?}")];
    sets.extend(arguments.sets.iter().cloned());
    sets.push(format!("tokenizer.kind=\"{kind}\""));
    sets.extend(arguments.compute.sets());
    TrainConfig::resolve_all(&arguments.config, &sets)
}

/// About so many frames, evenly spread over episodes and time.
fn spread(dataset: &Dataset, episodes: &[u32], count: usize) -> anyhow::Result<Vec<Place>> {
    let mut all = Vec::new();
    for id in episodes {
        let (frames, _) = dataset.lengths(*id).map_err(explain)?;
        all.extend((0..frames as usize).map(|frame| (*id, frame)));
    }
    let count = count.min(all.len());
    if count == 0 {
        return Err(Hint::error(
            format!("{} has no held-out frame", dataset.folder().display()),
            "give a dataset with a test split, and --frames 1 or more",
        ));
    }
    Ok((0..count).map(|place| all[place * all.len() / count]).collect())
}

/// Frames and their reconstructions, at the frame's own size.
fn round_trips(
    dataset: &Dataset,
    tokenizer: &dyn Tokenizer,
    places: &[Place],
    device: &Device,
) -> anyhow::Result<Vec<[Picture; 2]>> {
    let bar = progress::bar(places.len() as u64, "frames");
    let mut pictures = Vec::new();
    for own in places.chunk_by(|a, b| a.0 == b.0) {
        let episode = dataset.episode(own[0].0).map_err(explain)?;
        let frames: Vec<usize> = own.iter().map(|place| place.1).collect();
        let latents = device.run(|| tokenizer.encode(&episode, &frames)).map_err(explain)?;
        for (frame, latent) in frames.iter().zip(latents.chunks_exact(tokenizer.shape().elements()))
        {
            let truth = episode.picture(*frame).map_err(explain)?;
            let Some(decoded) = tokenizer.decode(latent) else {
                let hint = "name its decoder with tokenizer.precomputed.decoder";
                return Err(Hint::error("this tokenizer cannot turn latents into pictures", hint));
            };
            let decoded = match truth.width.checked_div(decoded.width) {
                Some(factor) if factor > 1 => decoded.enlarged(factor),
                _ => decoded,
            };
            pictures.push([truth, decoded]);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(pictures)
}

/// Means over frames.
struct Quality {
    psnr: f64,
    ssim: Option<f64>,
    lpips: Option<f64>,
}

impl Quality {
    fn mean(pairs: &[[Picture; 2]], lpips: Option<&Lpips>) -> anyhow::Result<Self> {
        let large = pairs.iter().all(|[truth, _]| truth.width.min(truth.height) >= LEAST_SIDE);
        let lpips = lpips.filter(|_| large);
        let values = pairs.par_iter().map(|[truth, decoded]| {
            Ok([
                psnr(decoded, truth)?,
                if large { ssim(decoded, truth)? } else { 0.0 },
                lpips.map_or(Ok(0.0), |lpips| lpips.distance(decoded, truth))?,
            ])
        });
        let values: Vec<[f64; 3]> = values.collect::<far_model::Result<_>>().map_err(explain)?;
        let mean = |place: usize| {
            values.iter().map(|values| values[place]).sum::<f64>() / values.len() as f64
        };
        Ok(Self {
            psnr: mean(0),
            ssim: large.then(|| mean(1)),
            lpips: lpips.is_some().then(|| mean(2)),
        })
    }
}

/// Some frames, each beside its reconstruction by every tokenizer.
fn sheet(columns: &[(&String, Vec<[Picture; 2]>)]) -> Picture {
    let count = columns[0].1.len();
    let rows = count.min(SHOWN);
    let mut cells = Vec::new();
    for row in 0..rows {
        let place = (2 * row + 1) * count / (2 * rows);
        let cell = |picture: &Picture, caption: &str, color| Cell {
            picture: picture.clone(),
            caption: caption.to_owned(),
            color,
        };
        cells.push(cell(&columns[0].1[place][0], "recorded", EXPLORE_COLOR));
        let made =
            columns.iter().map(|(kind, pictures)| cell(&pictures[place][1], kind, RETURN_COLOR));
        cells.extend(made);
    }
    let columns = columns.len() as u32 + 1;
    ContactSheet { title: String::new(), columns, cell_width: 128, cells }.render()
}
