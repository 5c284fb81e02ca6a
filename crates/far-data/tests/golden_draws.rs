//! What the sampler draws for a seed, as numbers: the package for Python compares its own draws with the
//! same file (`python/tests/test_data.py`).

use std::path::Path;

use far_data::{
    Dataset, DatasetDescription, DatasetWriter, EpisodeFacts, Frame, FrameImage, Phase, Picture,
    SamplingConfig, Split, TrainingSampler,
};
use far_memory::Pose;
use serde_json::{Value, json};

/// Three walks of 40 frames, ten of which return.
fn dataset(folder: &Path) -> Dataset {
    let description = DatasetDescription::new("garden", 10.0, [8, 8], [90.0, 90.0]);
    let writer = DatasetWriter::create(folder, description).expect("a recording");
    for id in 0..3 {
        let facts = EpisodeFacts::new("lawn", Split::Train, 0);
        let mut episode = writer.episode(id, facts).expect("an episode");
        for frame in 0..40 {
            let phase = if frame < 30 { Phase::Explore } else { Phase::Return };
            let image = FrameImage::Pixels(Picture::filled(8, 8, [frame as u8; 3]));
            let frame = Frame::new(f64::from(frame) / 10.0, Pose::identity(), phase, image);
            episode.push(frame).expect("a frame");
        }
        episode.finish().expect("an episode");
    }
    writer.finish().expect("a recording");
    Dataset::open(folder).expect("opens")
}

#[test]
fn the_draws_of_a_seed_are_these() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = dataset(folder.path());
    let config = SamplingConfig {
        seed: 7,
        batch: 8,
        goals_per_observation: 2,
        horizon: 8,
        pool: 5,
        ..SamplingConfig::of_corpus("garden")
    };
    let observations = config.batch / config.goals_per_observation;
    let sampler = TrainingSampler::new(&dataset, config).expect("a sampler");
    let mut draws = Vec::new();
    for step in [0, 1, 1_000_000] {
        for number in 0..observations {
            let examples = sampler.observation(step, number).expect("drawn");
            let goals: Vec<u32> = examples.iter().map(|example| example.future.frame).collect();
            let first = &examples[0];
            draws.push(json!({
                "step": step, "observation": number, "episode": first.query.episode,
                "current": first.query.current, "pool": *first.memory.frames, "goals": goals,
            }));
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden_draws.json");
    // FAR_GOLDEN=1 writes the file anew, after a change of the sampler that is meant.
    if std::env::var_os("FAR_GOLDEN").is_some() {
        let lines: Vec<String> = draws.iter().map(Value::to_string).collect();
        std::fs::write(&path, format!("[\n{}\n]\n", lines.join(",\n"))).expect("written");
    }
    let golden = std::fs::read(&path).expect("the file is there");
    let golden: Value = serde_json::from_slice(&golden).expect("JSON");
    assert_eq!(Value::Array(draws), golden);
}
