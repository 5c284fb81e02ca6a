//! How near to the present the memory with the most similar key was seen: LongLive-RAG's keys after
//! short trainings with several weights of their evenness term.
//!
//! ```sh
//! far world record --world village --episodes 24 --out data/village
//! cargo run --release -p far-model --example reconstructive_keys -- data/village 500 1 0.1 0.01
//! ```
//!
//! The last four episodes are held out; keys of raw latents and of an untrained encoder stand beside.

use far_data::Dataset;
use far_model::{
    CueEncoder, EncodedDataset, EncodedEpisode, LongLiveConfig, LongLiveEncoder, PatchPca,
    PatchPcaConfig, Result, Tokenizer,
};
use far_tensor::Device;
use std::path::PathBuf;
use std::sync::Arc;

/// Episodes that nothing is fitted to.
const HELD_OUT: usize = 4;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().map_or_else(|| PathBuf::from("data/village"), PathBuf::from);
    let steps = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(500);
    let weights: Vec<f32> = arguments.filter_map(|text| text.parse().ok()).collect();

    let dataset = Arc::new(Dataset::open(&folder)?);
    let ids: Vec<u32> = dataset.ids().collect();
    let (learned, held_out) = ids.split_at(ids.len().saturating_sub(HELD_OUT));
    let tokenizer = Arc::new(PatchPca::fit(&dataset, learned, PatchPcaConfig::default())?);
    let elements = tokenizer.shape().elements();
    let cache = folder.join("cache");
    let encoded = EncodedDataset::new(dataset, tokenizer, Vec::new(), cache, 1 << 30);
    let episodes: Vec<_> = held_out.iter().map(|id| encoded.episode(*id)).collect::<Result<_>>()?;

    println!("keys                    distance of the best (m)   cosines");
    report("raw latents", &episodes, |frames| {
        Ok(frames.chunks_exact(elements).flat_map(unit).collect())
    })?;
    let device = Device::cpu();
    let fit = |smoothness_weight: f32, steps: u64| {
        let config = LongLiveConfig {
            embedding: 256,
            batch: 16,
            steps,
            smoothness_weight,
            ..LongLiveConfig::default()
        };
        LongLiveEncoder::fit(&encoded, learned, &config, 0, &device, |_| ())
    };
    let untrained = fit(1.0, 0)?;
    report("untrained", &episodes, |frames| untrained.keys(frames))?;
    for weight in weights {
        let encoder = fit(weight, steps)?;
        report(&format!("weight {weight}, {steps} steps"), &episodes, |frames| {
            encoder.keys(frames)
        })?;
    }
    Ok(())
}

/// Prints the mean distance from frames of the return to the memory of most similar key, and the
/// range of all cosines.
fn report(
    name: &str,
    episodes: &[Arc<EncodedEpisode>],
    keys: impl Fn(&[f32]) -> Result<Vec<f32>>,
) -> Result<()> {
    let (mut total, mut chance, mut count) = (0.0, 0.0, 0.0);
    let (mut least, mut most) = (f32::INFINITY, f32::NEG_INFINITY);
    for episode in episodes {
        let frames: Vec<f32> =
            (0..episode.len()).flat_map(|frame| episode.latent(frame).to_vec()).collect();
        let keys = keys(&frames)?;
        let key = |frame: usize| keys.chunks_exact(keys.len() / episode.len()).nth(frame);
        let cosine = |a: usize, b: usize| -> f32 {
            key(a).into_iter().flatten().zip(key(b).into_iter().flatten()).map(|(a, b)| a * b).sum()
        };
        for now in (episode.boundary()..episode.len()).step_by(5) {
            let distance = |memory: usize| {
                let gap = episode.poses()[memory].displacement_from(&episode.poses()[now]);
                gap.forward.hypot(gap.left)
            };
            let cosines: Vec<f32> =
                (0..episode.boundary()).map(|memory| cosine(now, memory)).collect();
            let best = (0..cosines.len()).max_by(|a, b| cosines[*a].total_cmp(&cosines[*b]));
            total += best.map_or(0.0, distance);
            chance += (0..cosines.len()).map(distance).sum::<f32>() / cosines.len() as f32;
            count += 1.0;
            least = cosines.iter().copied().fold(least, f32::min);
            most = cosines.iter().copied().fold(most, f32::max);
        }
    }
    let (found, chance) = (total / count, chance / count);
    println!("{name:<23} {found:5.2}, by chance {chance:5.2}   {least:.3} to {most:.3}");
    Ok(())
}

/// A vector of length one.
fn unit(values: &[f32]) -> Vec<f32> {
    let length = values.iter().map(|value| value * value).sum::<f32>().sqrt().max(1e-12);
    values.iter().map(|value| value / length).collect()
}
