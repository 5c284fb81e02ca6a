//! Pretraining of the encoder in a made-up corridor: what is seen depends on the place alone.

use far_data::{
    ContrastiveConfig, Dataset, DatasetDescription, DatasetWriter, Episode, EpisodeFacts, Frame,
    FrameImage, ImageEncoding, Phase, Picture, Split,
};
use far_memory::Pose;
use far_model::{EncodedDataset, KeyEncoder, LatentShape, QueryVitConfig, Tokenizer};
use far_tensor::Device;
use far_train::{Contrastive, ContrastiveTraining, Error, retrieval};
use std::path::Path;
use std::sync::Arc;

const SHAPE: LatentShape = LatentShape { channels: 6, height: 2, width: 2, patch: 1 };
const NETWORK: QueryVitConfig = QueryVitConfig { depth: 1, width: 32, heads: 2, key: 16 };

/// Sees waves of several lengths along the corridor instead of pictures.
struct Waves;

impl Tokenizer for Waves {
    fn shape(&self) -> LatentShape {
        SHAPE
    }

    fn recipe(&self) -> String {
        "waves".into()
    }

    fn encode(&self, episode: &Episode, frames: &[usize]) -> far_model::Result<Vec<f32>> {
        let wave =
            |x: f32, number: usize| (0.3 * x * (1 + number % 6) as f32 + number as f32).sin();
        let poses = frames.iter().map(|frame| episode.poses()[*frame]);
        Ok(poses.flat_map(|pose| (0..24).map(move |n| wave(pose.position[0], n))).collect())
    }

    fn decode(&self, _: &[f32]) -> Option<Picture> {
        None
    }
}

/// Out along the corridor for 60 frames and back for 30, at a pace of each episode's own.
fn corridor(folder: &Path) -> EncodedDataset {
    let mut description = DatasetDescription::new("corridor", 10.0, [8, 8], [90.0, 90.0]);
    description.images = ImageEncoding::None;
    let writer = DatasetWriter::create(folder, description).unwrap();
    for id in 0..8 {
        let split = if id % 4 == 3 { Split::Test } else { Split::Train };
        let facts = EpisodeFacts::new(format!("corridor-{id}"), split, u64::from(id));
        let mut episode = writer.episode(id, facts).unwrap();
        for index in 0..90 {
            let pace = 0.2 + 0.01 * id as f32;
            let (place, phase) = match index {
                0..60 => (index as f32, Phase::Explore),
                _ => (2.0 * (90 - index) as f32, Phase::Return),
            };
            let pose = Pose::from_yaw_pitch([place * pace, 0.0, 1.6], 0.0, 0.0);
            let time = index as f64 / 10.0;
            episode.push(Frame::new(time, pose, phase, FrameImage::Absent)).unwrap();
        }
        episode.finish().unwrap();
    }
    writer.finish().unwrap();
    let dataset = Arc::new(Dataset::open(folder).unwrap());
    let cache = folder.join("cache");
    EncodedDataset::new(dataset, Arc::new(Waves), Vec::new(), cache, 1 << 24)
}

fn sampler() -> ContrastiveConfig {
    ContrastiveConfig {
        batch: 8,
        horizon: 12,
        positives: 4,
        negatives: 12,
        radius: 0.7,
        heading: None,
        ..ContrastiveConfig::default()
    }
}

fn config() -> ContrastiveTraining {
    ContrastiveTraining {
        learning_rate: 1e-3,
        warm_up: 10,
        seed: 5,
        ..ContrastiveTraining::default()
    }
}

fn begin(encoded: &EncodedDataset, config: ContrastiveTraining) -> Contrastive<'_> {
    Contrastive::new(encoded, "vision", sampler(), NETWORK, config, &Device::cpu()).unwrap()
}

#[test]
fn an_encoder_learns_to_find_what_was_seen_near_the_goal() {
    let folder = tempfile::tempdir().unwrap();
    let encoded = corridor(folder.path());
    let mut training = begin(&encoded, config());
    let held_out = ContrastiveConfig { split: Split::Test, ..sampler() };
    let judge = |encoder: &KeyEncoder| retrieval(&encoded, encoder, &held_out, 8).unwrap();
    let fresh = judge(&training.encoder().unwrap());
    let steps: Vec<_> = (0..300).map(|_| training.step().unwrap()).collect();
    assert_eq!(steps.last().map(|step| step.number), Some(300));
    let mean = |range: std::ops::Range<usize>| {
        let length = range.len() as f32;
        steps[range].iter().map(|step| step.loss).sum::<f32>() / length
    };
    assert!(mean(280..300) < 0.5 * mean(0..20), "{} {}", mean(0..20), mean(280..300));
    let learned = judge(&training.encoder().unwrap());
    assert_eq!((learned.queries, learned.answerable), (64, 1.0));
    assert!(learned.top_three > fresh.top_three + 0.2, "{fresh:?} {learned:?}");
    assert!(learned.top_three > 3.0 * learned.chance, "{learned:?}");
}

#[test]
fn an_encoder_to_begin_with_is_taken_and_learns_on() {
    let folder = tempfile::tempdir().unwrap();
    let encoded = corridor(folder.path());
    let mut first = begin(&encoded, config());
    let given = first.encoder().unwrap();
    let mut other = begin(&encoded, ContrastiveTraining { seed: 6, ..config() });
    assert!(other.encoder().unwrap().values() != given.values(), "another seed has other weights");
    other.begin_with(&given).unwrap();
    assert!(
        other.encoder().unwrap().values() == given.values(),
        "it begins with the given weights"
    );
    // The same examples by the same weights: the same update.
    let step = other.step().unwrap();
    assert_eq!(step, first.step().unwrap());
    assert!(step.gradient_norm > 0.0, "{step:?}");
    assert!(other.encoder().unwrap().values() != given.values(), "a step changes them");
}

#[test]
fn an_interrupted_run_ends_in_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let encoded = corridor(folder.path());
    let [middle, whole, resumed] =
        ["middle", "whole", "resumed"].map(|name| folder.path().join(name));
    let mut training = begin(&encoded, config());
    for step in 0..6 {
        if step == 3 {
            training.save(&middle).unwrap();
        }
        training.step().unwrap();
    }
    training.save(&whole).unwrap();
    let mut training = begin(&encoded, config());
    training.resume(&middle).unwrap();
    assert_eq!(training.done(), 3);
    for _ in 0..3 {
        training.step().unwrap();
    }
    training.save(&resumed).unwrap();
    assert_eq!(std::fs::read(whole).unwrap(), std::fs::read(resumed).unwrap());
}

#[test]
fn a_checkpoint_of_another_run_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let encoded = corridor(folder.path());
    let path = folder.path().join("state");
    begin(&encoded, config()).save(&path).unwrap();
    let mut other = begin(&encoded, ContrastiveTraining { seed: 6, ..config() });
    match other.resume(&path).unwrap_err() {
        Error::OtherConfig { key, found, wanted, .. } => {
            assert_eq!(
                (key.as_str(), found.as_str(), wanted.as_str()),
                ("pretraining.seed", "5", "6")
            );
        }
        error => panic!("{error}"),
    }
    std::fs::write(&path, b"nothing").unwrap();
    assert!(other.resume(&path).is_err());
}
