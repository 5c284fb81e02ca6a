//! The two learned autoencoders, of pictures and of latents, on a toy world.

use far_data::{
    Dataset, DatasetDescription, DatasetWriter, EpisodeFacts, Frame, FrameImage, Phase, Picture,
    Split,
};
use far_memory::{Displacement, Pose};
use far_model::{
    ActionFeatures, ConditionScale, Convolutional, ConvolutionalConfig, ConvolutionalTraining,
    ConvolutionalTrainingConfig, CueEncoder, EncodedDataset, LatentShape, LongLiveAutoencoder,
    LongLiveConfig, LongLiveEncoder, Tokenizer,
};
use far_tensor::{Checkpoint, CheckpointWriter, Device, Random};
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

/// Views at random places from a stream of their own.
fn views(purpose: &str, step: u64, count: usize) -> Vec<Picture> {
    let mut random = Random::stream(5, purpose, step);
    (0..count).map(|_| view(50.0 * random.uniform())).collect()
}

fn squared_error(a: &[u8], b: &[u8]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(a.abs_diff(*b)).powi(2)).sum::<f64>() / a.len() as f64
}

fn config() -> ConvolutionalConfig {
    ConvolutionalConfig {
        resolution: [16, 16],
        widths: vec![16, 32],
        channels: 4,
        ..ConvolutionalConfig::default()
    }
}

const TRAINING: ConvolutionalTrainingConfig =
    ConvolutionalTrainingConfig { frames: 64, steps: 200, batch: 8, learning_rate: 3e-3 };

/// A tokenizer after some updates, and the losses on the way.
fn trained(steps: u64) -> (Convolutional, Vec<f32>) {
    let mut training = ConvolutionalTraining::new(config(), &TRAINING, 1, &Device::cpu()).unwrap();
    let step = |step| training.step(&views("train", step, TRAINING.batch), None).unwrap().loss;
    let losses = (0..steps).map(step).collect();
    (training.finish(&views("sample", 0, 64)).unwrap(), losses)
}

#[test]
fn a_trained_tokenizer_tells_pictures_apart() {
    let (tokenizer, losses) = trained(TRAINING.steps);
    let mean = |part: &[f32]| part.iter().sum::<f32>() / part.len() as f32;
    let (first, last) = (mean(&losses[..10]), mean(&losses[190..]));
    assert!(last < 0.3 * first, "the loss fell from {first} to {last}");

    let shape = tokenizer.shape();
    assert_eq!(shape, LatentShape { channels: 4, height: 4, width: 4, patch: 2 });
    let held_out = views("held out", 0, 32);
    let latents = tokenizer.encode_pictures(&held_out).unwrap();
    let power = latents.iter().map(|x| x * x).sum::<f32>() / latents.len() as f32;
    assert!((0.7..1.4).contains(&power), "the mean square of latents is {power}");

    let pixels = held_out[0].pixels.len();
    let mean_picture: Vec<u8> = (0..pixels)
        .map(|place| (held_out.iter().map(|p| u32::from(p.pixels[place])).sum::<u32>() / 32) as u8)
        .collect();
    let (mut decoded_error, mut mean_error) = (0.0, 0.0);
    for (picture, latent) in held_out.iter().zip(latents.chunks(shape.elements())) {
        let decoded = tokenizer.decode(latent).unwrap();
        decoded_error += squared_error(&decoded.pixels, &picture.pixels);
        mean_error += squared_error(&mean_picture, &picture.pixels);
    }
    assert!(decoded_error < 0.3 * mean_error, "{decoded_error} against {mean_error}");
    assert!(tokenizer.decode(&latents[1..]).is_none());
}

#[test]
fn a_tokenizer_from_a_file_gives_identical_latents() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.safetensors");
    let (tokenizer, _) = trained(3);
    tokenizer.save(&path).unwrap();
    let read = Convolutional::load(&path, &Device::cpu()).unwrap();
    // Larger pictures are averaged down.
    let pictures: Vec<Picture> = views("any", 0, 3).iter().map(|p| p.enlarged(3)).collect();
    let latents = tokenizer.encode_pictures(&pictures).unwrap();
    assert_eq!(read.encode_pictures(&pictures).unwrap(), latents);
    assert_eq!((read.recipe(), read.config()), (tokenizer.recipe(), tokenizer.config()));
    assert_ne!(trained(2).0.recipe(), tokenizer.recipe());
    let alone = tokenizer.encode_pictures(&pictures[2..]).unwrap();
    assert_eq!(alone, latents[latents.len() - alone.len()..], "neighbors do not matter");

    let bytes = std::fs::read(&path).unwrap();
    let error = LongLiveEncoder::from_bytes(&path, bytes.clone(), &Device::cpu()).err().unwrap();
    assert!(error.to_string().ends_with("it has no note `longlive-encoder`"), "{error}");
    let torn = bytes[..bytes.len() - 4].to_vec();
    assert!(Convolutional::from_bytes(&path, torn, &Device::cpu()).is_err());
}

#[test]
fn pixels_without_weight_do_not_count() {
    let mut pictures = views("train", 0, 4);
    let loss = |pictures: &[Picture], weights: &[f32]| {
        let training = ConvolutionalTraining::new(config(), &TRAINING, 1, &Device::cpu());
        training.unwrap().step(pictures, Some(weights)).unwrap().loss
    };
    let none = vec![0.0; 4 * 256];
    assert_eq!(loss(&pictures, &none), 0.0);
    let mut training = ConvolutionalTraining::new(config(), &TRAINING, 1, &Device::cpu()).unwrap();
    let plain = training.step(&pictures, None).unwrap().loss;
    assert!((loss(&pictures, &[1.0; 4 * 256]) - plain).abs() < 1e-6);
    assert!(training.step(&pictures, Some(&none[1..])).is_err());
    pictures.clear();
    assert!(training.step(&pictures, None).is_err());
}

#[test]
fn settings_that_make_no_tokenizer_are_named() {
    let wrong = [
        ConvolutionalConfig { resolution: [16, 18], ..config() },
        ConvolutionalConfig { widths: Vec::new(), ..config() },
        ConvolutionalConfig { channels: usize::MAX, ..config() },
        ConvolutionalConfig { patch: 3, ..config() },
    ];
    for config in wrong {
        let made = ConvolutionalTraining::new(config.clone(), &TRAINING, 1, &Device::cpu());
        assert!(made.err().unwrap().to_string().starts_with("tokenizer: "), "{config:?}");
    }
}

/// Writes two episodes of views along a road.
fn road(folder: &Path) -> Dataset {
    let description = DatasetDescription::new("road", 10.0, [SIDE, SIDE], [90.0, 90.0]);
    let writer = DatasetWriter::create(folder, description).unwrap();
    for id in 0..2 {
        let mut episode = writer.episode(id, EpisodeFacts::new("road", Split::Train, 0)).unwrap();
        for index in 0..24 {
            let place = 20.0 * id as f32 + 0.2 * index as f32;
            let pose = Pose::from_yaw_pitch([place, 0.0, 1.6], 0.0, 0.0);
            let phase = if index < 16 { Phase::Explore } else { Phase::Return };
            let image = FrameImage::Pixels(view(place));
            episode.push(Frame::new(f64::from(index) / 10.0, pose, phase, image)).unwrap();
        }
        episode.finish().unwrap();
    }
    writer.finish().unwrap();
    Dataset::open(folder).unwrap()
}

#[test]
fn both_are_fitted_to_a_dataset_and_depend_on_the_seed_alone() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = Arc::new(road(&folder.path().join("road")));
    let training = ConvolutionalTrainingConfig { steps: 4, frames: 20, ..TRAINING };
    let mut updates = 0;
    let mut fit = |seed, threads| {
        let device = Device::with_threads(threads);
        let count = |_: &_| updates += 1;
        Convolutional::fit(&dataset, &[0, 1], config(), &training, seed, &device, count).unwrap()
    };
    let tokenizer = fit(3, 1);
    assert_eq!(fit(3, 2).recipe(), tokenizer.recipe());
    assert_ne!(fit(4, 1).recipe(), tokenizer.recipe());
    assert_eq!(updates, 12);

    let cache = folder.path().join("cache");
    let tokenizer = Arc::new(tokenizer);
    let encoded = EncodedDataset::new(dataset.clone(), tokenizer, Vec::new(), cache, 1 << 20);
    let small = LongLiveConfig { steps: 3, batch: 4, ..small() };
    let fit = |config: &LongLiveConfig, seed| {
        LongLiveEncoder::fit(&encoded, &[0, 1], config, seed, &Device::cpu(), |_| ())
    };
    let encoder = fit(&small, 1).unwrap();
    assert_eq!(fit(&small, 1).unwrap().recipe(), encoder.recipe());
    assert_ne!(fit(&small, 2).unwrap().recipe(), encoder.recipe());
    let long = LongLiveConfig { spacing: 10, ..small };
    assert!(fit(&long, 1).err().unwrap().to_string().starts_with("longlive: no episode"));

    let episode = encoded.with_encoders(vec![Arc::new(encoder)]).episode(1).unwrap();
    assert_eq!(episode.memory().len(), 16);
}

const LATENT: LatentShape = LatentShape { channels: 12, height: 2, width: 2, patch: 1 };

fn small() -> LongLiveConfig {
    LongLiveConfig {
        widths: vec![16, 32],
        embedding: 24,
        learning_rate: 2e-3,
        window: 4,
        spacing: 1,
        ..LongLiveConfig::default()
    }
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
    for step in 0..150 {
        learner.step(&windows(step, 8), 8).unwrap();
    }
    let after = learner.losses(&held_out, 32).unwrap();
    assert!(after.total < 0.7 * before.total, "{before:?} {after:?}");
    assert!(after.reconstruction < 0.8 * before.reconstruction, "{before:?} {after:?}");
    let sum = after.reconstruction + after.difference + after.smoothness;
    assert!((after.total - sum).abs() < 1e-5);
    assert_eq!(learner.updates(), 150);
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

#[test]
fn trainings_go_on_from_a_checkpoint_to_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint.safetensors");
    let device = Device::cpu();
    let mut tokenizer = ConvolutionalTraining::new(config(), &TRAINING, 1, &device).unwrap();
    let mut learner = LongLiveAutoencoder::new(small(), LATENT, 1, &device).unwrap();
    tokenizer.step(&views("train", 0, 4), None).unwrap();
    learner.step(&windows(0, 4), 4).unwrap();
    learner.save(tokenizer.save(CheckpointWriter::new())).save(&path).unwrap();

    let mut checkpoint = Checkpoint::open(&path).unwrap();
    let mut other_tokenizer = ConvolutionalTraining::new(config(), &TRAINING, 7, &device).unwrap();
    let mut other_learner = LongLiveAutoencoder::new(small(), LATENT, 7, &device).unwrap();
    other_tokenizer.load(&mut checkpoint).unwrap();
    other_learner.load(&mut checkpoint).unwrap();
    assert_eq!((other_tokenizer.updates(), other_learner.updates()), (1, 1));
    for tokenizer in [&mut tokenizer, &mut other_tokenizer] {
        tokenizer.step(&views("train", 1, 4), None).unwrap();
    }
    for learner in [&mut learner, &mut other_learner] {
        learner.step(&windows(1, 4), 4).unwrap();
    }
    let recipe = |learner: &LongLiveAutoencoder| learner.encoder().unwrap().recipe();
    assert_eq!(recipe(&other_learner), recipe(&learner));
    let sample = views("sample", 0, 4);
    let [ours, theirs] = [tokenizer, other_tokenizer].map(|t| t.finish(&sample).unwrap().recipe());
    assert_eq!(ours, theirs);
}
