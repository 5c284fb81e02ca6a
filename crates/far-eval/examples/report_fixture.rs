//! Writes a run's folder that looks like a real one, for working on the report without training.
//!
//! The walks, poses and frames are real; the predictions are the truth mixed with the recalled frames
//! and noise, so the numbers mean nothing.
//!
//! ```text
//! far world record --world village --episodes 6 --seed 1 --out /tmp/village
//! cargo run --release -p far-eval --example report_fixture -- /tmp/village /tmp/run 0
//! far report /tmp/run
//! ```

use far_data::{Dataset, Episode, Picture};
use far_eval::{Curve, Interval, Kept, Metric, RecalledFrame, Replay, ReplayStep, Results};
use far_tensor::Random;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

const STEPS: usize = 24;
const CLIPS: u32 = 6;
const SLOTS: usize = 3;

/// An arm: its name, how much noise there is in what it recalls (in meters), whether it weighs
/// cues.
const ARMS: [(&str, f32, bool); 11] = [
    ("far-multi", 1.0, true),
    ("far-meta", 1.6, true),
    ("worldmem", 8.0, true),
    ("temporal", 18.0, false),
    ("longlive-rag", 11.0, false),
    ("nearest-pose", 0.5, false),
    ("random", 60.0, false),
    ("none", 0.0, false),
    ("copy", 0.5, false),
    ("oracle", 0.1, false),
    ("tokenizer", 0.0, false),
];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [dataset, out, seed] = arguments.as_slice() else {
        return Err("usage: report_fixture DATASET OUT SEED".into());
    };
    let (out, seed) = (Path::new(out), seed.parse::<u64>()?);
    let dataset = Dataset::open(Path::new(dataset))?;
    let mut replays = Vec::new();
    for id in dataset.ids().take(CLIPS as usize) {
        let episode = dataset.episode(id)?;
        replays.push(replay(&episode, seed)?);
    }
    std::fs::create_dir_all(out)?;
    for replay in &replays {
        replay.write(out)?;
    }
    results(&replays, seed).write(out)?;
    std::fs::write(out.join("metrics.jsonl"), metrics(seed))?;
    std::fs::write(out.join("config.toml"), format!("seed = {seed}\n\n[model]\nwidth = 96\n"))?;
    std::fs::write(out.join("command.txt"), "far demo --out runs/demo\n")?;
    Ok(())
}

fn replay(episode: &Episode, seed: u64) -> Result<Replay, Box<dyn Error>> {
    let (boundary, last) = (episode.boundary(), episode.len() - 1);
    let frames: Vec<usize> =
        (0..STEPS).map(|step| boundary + 1 + step * (last - boundary - 1) / (STEPS - 1)).collect();
    let path = episode.poses().iter().map(|pose| [pose.position[0], pose.position[1], pose.yaw()]);
    let truth = frames.iter().map(|frame| episode.picture(*frame));
    let truth: Vec<Picture> = truth.collect::<Result<_, _>>()?;
    let mut replay = Replay {
        episode: episode.id(),
        boundary,
        path: path.collect(),
        frames,
        decoded: truth.iter().map(|picture| mixed(picture, picture, 0.0, 6, None)).collect(),
        truth,
        memories: BTreeMap::new(),
        sounds: BTreeMap::new(),
        arms: BTreeMap::new(),
    };
    for (index, (name, noise, cues)) in ARMS.iter().enumerate() {
        let mut random = Random::stream(seed + u64::from(episode.id()), name, index as u64);
        let mut steps = Vec::new();
        for step in 0..STEPS {
            let recalled = match *name {
                "none" | "tokenizer" => Vec::new(),
                _ => recall(&replay, step, *noise, *cues, &mut random),
            };
            for memory in &recalled {
                replay.memories.insert(memory.frame, episode.picture(memory.frame)?);
            }
            steps.push(predict(&replay, step, name, recalled, *cues, &mut random));
        }
        replay.arms.insert((*name).to_owned(), steps);
    }
    Ok(replay)
}

/// The nearest memories after noise on their distances, at least five frames apart.
fn recall(
    replay: &Replay,
    step: usize,
    noise: f32,
    cues: bool,
    random: &mut Random,
) -> Vec<RecalledFrame> {
    let [east, north, heading] = replay.path[replay.frames[step]];
    let mut offsets = vec![0.0; replay.boundary];
    random.fill_normal(&mut offsets);
    let mut scored: Vec<(usize, f32)> = (0..replay.boundary)
        .map(|frame| {
            let [e, n, h] = replay.path[frame];
            let turn = (h - heading).sin().abs() + (1.0 - (h - heading).cos());
            (frame, -(e - east).hypot(n - north) - 2.0 * turn + noise * offsets[frame])
        })
        .collect();
    scored.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut recalled: Vec<RecalledFrame> = Vec::new();
    for (frame, score) in scored {
        if recalled.len() < SLOTS && recalled.iter().all(|other| other.frame.abs_diff(frame) > 5) {
            let (meta, vision) = (3.0 + score / 4.0, 0.7 + score / 6.0);
            let share = meta_share(step);
            let (cues, score) = if cues {
                let cues = vec![[Some(meta / 4.0), Some(meta)], [Some(0.4), Some(vision)]];
                (cues, share * meta + (1.0 - share) * vision)
            } else {
                (Vec::new(), score)
            };
            let utility = Some(0.04 * meta);
            let score = Some(score);
            recalled.push(RecalledFrame { frame, score, cues, utility, repeats: None });
        }
    }
    recalled
}

/// The weight of the first cue.
fn meta_share(step: usize) -> f32 {
    0.6 + 0.25 * (step as f32 / 4.0).sin()
}

fn predict(
    replay: &Replay,
    step: usize,
    name: &str,
    recalled: Vec<RecalledFrame>,
    cues: bool,
    random: &mut Random,
) -> ReplayStep {
    let decoded = &replay.decoded[step];
    let memory = recalled.first().map(|memory| &replay.memories[&memory.frame]);
    let drift = 0.35 + 0.3 * step as f32 / STEPS as f32;
    let picture = match (name, memory) {
        ("tokenizer", _) => decoded.clone(),
        ("copy", Some(memory)) => memory.clone(),
        (_, Some(memory)) => mixed(decoded, memory, drift, 10, Some(random)),
        (_, None) => mixed(decoded, &replay.decoded[0], 0.85, 16, Some(random)),
    };
    let share = meta_share(step);
    let weights = [("meta".to_owned(), share), ("vision".to_owned(), 1.0 - share)];
    let weights = if cues { weights.to_vec() } else { Vec::new() };
    ReplayStep { psnr: psnr(&picture, decoded), picture, recalled, weights }
}

/// A mix of two pictures with detail finer than `levels` steps removed, and some noise.
fn mixed(
    first: &Picture,
    second: &Picture,
    share: f32,
    levels: u8,
    random: Option<&mut Random>,
) -> Picture {
    let mut noise = vec![0.0; first.pixels.len()];
    if let Some(random) = random {
        random.fill_normal(&mut noise);
    }
    let mut picture = first.clone();
    let values = picture.pixels.iter_mut().zip(&second.pixels).zip(&noise);
    for ((value, other), noise) in values {
        let mean = f32::from(*value) * (1.0 - share) + f32::from(*other) * share + 5.0 * noise;
        *value = (mean / f32::from(levels)).round().mul_add(f32::from(levels), 0.0) as u8;
    }
    picture
}

fn psnr(picture: &Picture, truth: &Picture) -> f64 {
    let squares = picture.pixels.iter().zip(&truth.pixels);
    let squares = squares.map(|(a, b)| f64::from(a.abs_diff(*b)).powi(2));
    let error = squares.sum::<f64>() / truth.pixels.len() as f64;
    10.0 * (255.0 * 255.0 / error).log10()
}

fn results(replays: &[Replay], seed: u64) -> Results {
    let mut results = Results {
        corpus: "village".into(),
        clips: replays.len(),
        seed,
        device: "cpu".into(),
        train_seconds: Some(201.4),
        judge: "common".into(),
        slots: SLOTS,
        descriptions: [5, 15].map(|tier| Metric::of("psnr").of_tier(tier)).into(),
        ..Results::default()
    };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let rollouts = |name: &str| -> Vec<Vec<f64>> {
        let steps = replays.iter().map(|replay| &replay.arms[name]);
        steps.map(|steps| steps.iter().map(|step| step.psnr).collect()).collect()
    };
    let values = |name: &str| -> BTreeMap<&str, Vec<f64>> {
        let psnr = rollouts(name);
        let noise = ARMS.iter().find(|arm| arm.0 == name).map_or(0.0, |arm| f64::from(arm.1));
        let clips = psnr.iter().map(|clip| mean(clip));
        let clips: Vec<f64> = clips.collect();
        let closure = psnr.iter().map(|clip| mean(&clip[STEPS - 2..])).collect();
        let quality =
            clips.iter().map(|value| 0.95 * (-noise / 12.0).exp() + value / 900.0).collect();
        let ssim = clips.iter().map(|value| 1.0 - (-value / 16.0).exp()).collect();
        let lpips = clips.iter().map(|value| (-value / 14.0).exp()).collect();
        let mut values = BTreeMap::from([("psnr", clips), ("psnr_closure", closure)]);
        let ahead = values["psnr"].iter().map(|value| value + 1.0).collect();
        let raw = values["psnr"].iter().map(|value| value - 0.4).collect();
        values.extend([("ssim", ssim), ("lpips", lpips)]);
        values.extend([("one_step_psnr", ahead), ("psnr_raw", raw)]);
        let (near, far) = values["psnr"].split_at(values["psnr"].len().min(5));
        let tiers = [("psnr_tier_5", near.to_vec()), ("psnr_tier_15", far.to_vec())];
        values.extend(tiers);
        if !["none", "copy", "tokenizer"].contains(&name) {
            values.insert("recall_quality", quality);
        }
        values
    };
    let learned = values("far-multi");
    let mut pairs = BTreeMap::new();
    for (name, ..) in ARMS {
        let own = values(name);
        let arm = own.iter().map(|(id, values)| ((*id).to_owned(), Interval::of(values, seed)));
        results.arms.insert(name.to_owned(), arm.collect());
        let pair = own.iter().filter_map(|(id, values)| {
            let differences = learned.get(id)?.iter().zip(values).map(|(a, b)| a - b);
            Some(((*id).to_owned(), Interval::of(&differences.collect::<Vec<_>>(), seed)))
        });
        pairs.insert(name.to_owned(), pair.collect());
        let time = (0..STEPS / 2).map(|bin| (bin as f64 + 0.5) / (STEPS / 2) as f64).collect();
        let rollouts = rollouts(name);
        let bins = (0..STEPS / 2).map(|bin| {
            let clips = rollouts.iter().map(|clip| mean(&clip[2 * bin..2 * bin + 2]));
            Interval::of(&clips.collect::<Vec<_>>(), seed)
        });
        let curve = Curve { time, values: bins.collect() };
        results.curves.insert(name.to_owned(), BTreeMap::from([("psnr".to_owned(), curve)]));
    }
    pairs.remove("far-multi");
    results.paired.insert("far-multi".to_owned(), pairs);
    results
}

fn metrics(seed: u64) -> String {
    let random = Random::stream(seed, "metrics", 0);
    let mut noise = vec![0.0; 3 * 900];
    random.fill_normal(&mut noise);
    let mut text = String::new();
    for step in 0..900usize {
        let progress = step as f32 / 900.0;
        let near = |value: f32, spread: f32, index: usize| value + spread * noise[3 * step + index];
        let loss = near(0.9 - 0.6 * progress, 0.03, 0);
        let rate = 0.002 * (1.0 - progress);
        let _ = writeln!(
            text,
            "{{\"kind\":\"step\",\"step\":{step},\"loss\":{loss:.4},\"learning_rate\":{rate:.6}}}"
        );
        if step % 5 == 0 {
            let meta = near(0.5 + 0.25 * progress, 0.01, 1);
            let vision = 1.0 - meta;
            let divergence = near(0.3 * (1.0 - progress), 0.02, 1).abs();
            let correlation = near(0.7 * (1.0 - (-6.0 * progress).exp()), 0.03, 2);
            let weights = format!("\"meta\":{meta:.3},\"vision\":{vision:.3}");
            for (arm, weights) in [("far-multi", weights.as_str()), ("far-meta", "\"meta\":1")] {
                let _ = writeln!(
                    text,
                    "{{\"kind\":\"retriever\",\"step\":{step},\"arm\":\"{arm}\",\"loss\":{divergence:.4},\
                     \"global\":{{\"divergence\":{divergence:.4},\"rank_correlation\":{correlation:.3}}},\
                     \"weights\":{{{weights}}}}}"
                );
            }
        }
        if step % 100 == 0 {
            let quality = near(0.85 * (1.0 - (-8.0 * progress).exp()), 0.02, 2);
            let _ = writeln!(
                text,
                "{{\"kind\":\"evaluation\",\"step\":{step},\"values\":{{\"recall_quality\":{quality:.3}}}}}"
            );
        }
    }
    text
}
