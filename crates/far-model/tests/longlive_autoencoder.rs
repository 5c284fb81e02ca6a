//! The autoencoder of LongLive-RAG on a toy world.

use far_data::{
    Dataset, DatasetDescription, DatasetWriter, EpisodeFacts, Frame, FrameImage, Phase, Picture,
    Split,
};
use far_memory::{Displacement, Pose};
use far_model::{
    ActionFeatures, ConditionScale, CueEncoder, EncodedDataset, LatentShape, LongLiveAutoencoder,
    LongLiveConfig, LongLiveEncoder, PatchPca, PatchPcaConfig,
};
use far_tensor::{Device, Random};
use std::path::Path;
use std::sync::Arc;

const SIDE: u32 = 16;

/// A slope of colors with a square on it; both move with the place.
fn view(place: f32) -> Picture {
    let mut picture = Picture::filled(SIDE, SIDE, [0; 3]);
    let wave = |pitch: f32, shift: f32| 0.5 + 0.5 * (pitch * place + shift).sin();
    let [left, top] = [wave(0.7, 0.0), wave(1.1, 1.0)].map(|share| (share * 10.0) as u32);
    for y in 0..SIDE {
        for x in 0..SIDE {
            let inside = (left..left + 6).contains(&x) && (top..top + 6).contains(&y);
            let slope = (x as f32 * wave(0.3, 2.0) + y as f32 * wave(0.5, 3.0)) / 32.0;
            let color = [slope, 0.6 * wave(0.9, 4.0), 1.0 - slope];
            let color = if inside { [1.0, 0.9, 0.2] } else { color };
            picture.set_pixel(x, y, color.map(|value| (255.0 * value) as u8));
        }
    }
    picture
}

/// Writes two episodes of views along a road.
fn road(folder: &Path) -> Dataset {
    let description = DatasetDescription::new("road", 10.0, [SIDE, SIDE], [90.0, 90.0]);
    let writer = DatasetWriter::create(folder, description).unwrap();
    for id in 0..2 {
        let mut episode = writer.episode(id, EpisodeFacts::new("road", Split::Train, 0)).unwrap();
        for index in 0..40 {
            let place = 20.0 * id as f32 + 0.2 * index as f32;
            let pose = Pose::from_yaw_pitch([place, 0.0, 1.6], 0.0, 0.0);
            let phase = if index < 30 { Phase::Explore } else { Phase::Return };
            let image = FrameImage::Pixels(view(place));
            episode.push(Frame::new(f64::from(index) / 10.0, pose, phase, image)).unwrap();
        }
        episode.finish().unwrap();
    }
    writer.finish().unwrap();
    Dataset::open(folder).unwrap()
}

#[test]
fn an_encoder_is_fitted_to_a_dataset_and_depends_on_the_seed_alone() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = Arc::new(road(&folder.path().join("road")));
    let pixels =
        PatchPcaConfig { resolution: [16, 16], patch: 4, channels: 8, frames: 40, group: 1 };
    let tokenizer = Arc::new(PatchPca::fit(&dataset, &[0, 1], pixels).unwrap());
    let cache = folder.path().join("cache");
    let encoded = EncodedDataset::new(dataset.clone(), tokenizer, Vec::new(), cache, 1 << 20);
    let small = LongLiveConfig { steps: 3, batch: 4, ..small() };
    let mut updates = 0;
    let mut fit = |config: &LongLiveConfig, seed, threads| {
        let device = Device::with_threads(threads);
        LongLiveEncoder::fit(&encoded, &[0, 1], config, seed, &device, |_| updates += 1)
    };
    let encoder = fit(&small, 1, 1).unwrap();
    assert_eq!(fit(&small, 1, 2).unwrap().recipe(), encoder.recipe());
    assert_ne!(fit(&small, 2, 1).unwrap().recipe(), encoder.recipe());
    let none = LongLiveConfig { batch: 0, ..small };
    assert!(fit(&none, 1, 1).err().unwrap().to_string().starts_with("longlive: no episode"));
    assert_eq!(updates, 9);

    let episode = encoded.with_encoders(vec![Arc::new(encoder)]).episode(1).unwrap();
    assert_eq!(episode.memory().len(), 30);
}

const LATENT: LatentShape = LatentShape { channels: 12, height: 2, width: 2, patch: 1 };

fn small() -> LongLiveConfig {
    LongLiveConfig { widths: vec![16, 32], embedding: 24, ..LongLiveConfig::default() }
}

/// Windows of four neighboring views, each as colors at a few places.
fn windows(step: u64, count: usize) -> Vec<f32> {
    let mut random = Random::stream(9, "windows", step);
    let mut frames = Vec::new();
    for _ in 0..count {
        let start = 50.0 * random.uniform();
        for frame in 0..4 {
            let picture = view(start + 0.2 * frame as f32);
            // Four colors per quarter: enough of a latent for a toy.
            for token in 0..4u32 {
                for cell in 0..4u32 {
                    let x = token % 2 * 8 + cell % 2 * 4 + 2;
                    let y = token / 2 * 8 + cell / 2 * 4 + 2;
                    frames.extend(picture.pixel(x, y).map(|value| f32::from(value) / 64.0 - 2.0));
                }
            }
        }
    }
    frames
}

#[test]
fn the_longlive_loss_falls() {
    let mut learner = LongLiveAutoencoder::new(small(), LATENT, 1, &Device::cpu()).unwrap();
    let held_out = windows(1_000, 32);
    let before = learner.losses(&held_out, 32).unwrap();
    for step in 0..600 {
        learner.step(&windows(step, 8), 8).unwrap();
    }
    let after = learner.losses(&held_out, 32).unwrap();
    assert!(after.total < 0.7 * before.total, "{before:?} {after:?}");
    assert!(after.reconstruction < 0.8 * before.reconstruction, "{before:?} {after:?}");
    let sum = after.reconstruction + after.difference + after.smoothness;
    assert!((after.total - sum).abs() < 1e-5);
    assert!(learner.step(&held_out[1..], 32).is_err());
    assert!(learner.step(&[], 8).is_err());
}

#[test]
fn keys_have_unit_length_and_a_file_gives_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("encoder.safetensors");
    let mut learner = LongLiveAutoencoder::new(small(), LATENT, 1, &Device::cpu()).unwrap();
    learner.step(&windows(0, 8), 8).unwrap();
    let encoder = learner.encoder().unwrap();
    let frames = windows(1, 40);
    let keys = encoder.keys(&frames).unwrap();
    assert_eq!((encoder.cue(), encoder.dimension(), keys.len()), ("reconstruction", 24, 160 * 24));
    for key in keys.chunks(24) {
        assert!((key.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-5);
    }
    let scale = ConditionScale { length: 1.0, time: 1.0 };
    let still = Displacement { forward: 0.3, left: 0.0, up: 0.0, turn: 0.0, tilt: 0.0 };
    let actions = vec![ActionFeatures::new(&scale, still, 0.3, &[]); 160];
    assert_eq!(encoder.queries(&frames, &actions).unwrap(), keys, "actions are ignored");
    assert!(encoder.queries(&frames, &actions[1..]).is_err());
    assert!(encoder.keys(&frames[1..]).is_err());

    encoder.save(&path).unwrap();
    let read = LongLiveEncoder::load(&path, &Device::cpu()).unwrap();
    assert_eq!(read.keys(&frames).unwrap(), keys);
    assert_eq!(read.recipe(), encoder.recipe());
    learner.step(&windows(2, 8), 8).unwrap();
    assert_ne!(learner.encoder().unwrap().recipe(), encoder.recipe());
}
