//! Sound is heard by recall alone, and the presets of the apartments train in the small.

use far_data::Dataset;
use far_memory::Pool;
use far_model::{
    AudioConfig, AudioFeature, ConditionScale, ContextBatch, ContextBuilder, CueEncoder,
    DdimConfig, DitConfig, DitSetting, DitWorldModel, EncodedDataset, EncoderDescription,
    KeyEncoder, LatentShape, PatchPca, PatchPcaConfig, Query, QueryVitConfig, SignalLayout,
    TrainableWorldModel, embed_queries,
};
use far_tensor::{AdamWConfig, Device};
use far_world::{Recording, world};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// Everything that a question about an episode gives: what recall asks and compares, what the world
/// model reads, and what it answers.
struct Outcome {
    key: Vec<f32>,
    query: Vec<f32>,
    context: ContextBatch<'static>,
    answer: Vec<f32>,
}

const AUDIO: &str = "audio";

fn ask(folder: &Path, cache: &Path) -> Outcome {
    let dataset = Arc::new(Dataset::open(folder).unwrap());
    let pixels =
        PatchPcaConfig { resolution: [16, 16], patch: 8, channels: 4, frames: 100, group: 1 };
    let tokenizer = PatchPca::fit(&dataset, &[0], pixels).unwrap();
    let shape: LatentShape = far_model::Tokenizer::shape(&tokenizer);
    let scale = ConditionScale { length: 4.0, time: 12.8 };
    let config = AudioConfig { pool: [32, 101], patch: [3, 1], ..<_>::default() };
    let feature = Arc::new(AudioFeature::of(dataset.description(), config).unwrap());
    let plain =
        EncodedDataset::new(dataset, Arc::new(tokenizer), Vec::new(), cache.to_path_buf(), 1 << 24)
            .with_features(vec![feature]);
    let description = EncoderDescription {
        cue: AUDIO.to_owned(),
        network: QueryVitConfig { depth: 1, width: 16, heads: 2, key: 8 },
        latent: plain.input_shape(AUDIO),
        input: plain.input_recipe(AUDIO),
        scale,
        signals: 0,
    };
    let device = Device::cpu();
    let (_, parameters) = description.build(3).unwrap();
    let encoder = KeyEncoder::new(description, parameters.values(), &device).unwrap();
    let encoders: Vec<Arc<dyn CueEncoder>> = vec![Arc::new(encoder)];
    let data = plain.with_encoders(encoders);
    let episode = data.episode(0).unwrap();

    let (current, goal) = (episode.boundary() + 4, episode.boundary() + 20);
    let asked = Query::new(episode.clone(), current, goal);
    let mut query = asked.for_memory(Pool::All);
    let present = asked.recorded();
    embed_queries(data.encoders(), &scale, &[present], std::slice::from_mut(&mut query)).unwrap();
    let key = data.encoders()[0].keys(episode.input(AUDIO, 30)).unwrap();

    let config = DitConfig { depth: 2, width: 16, heads: 2, ..DitConfig::default() };
    let setting = DitSetting { config, shape, scale, signals: SignalLayout::default(), view: None };
    let model = DitWorldModel::new(setting, AdamWConfig::default(), 7, &device).unwrap();
    let mut context = ContextBuilder::new(&model, 3);
    context.add(present, [2, 30, 50]).unwrap();
    let context = context.build();
    let noise: Vec<f32> = (0..shape.elements()).map(|place| (place as f32 * 0.7).sin()).collect();
    let sampler = DdimConfig { steps: 3, ..DdimConfig::default() };
    let answer = model.average().unwrap().sample(&context, &noise, &sampler).unwrap();
    Outcome {
        key,
        query: query.key(AUDIO).unwrap().to_vec(),
        context: context.into_owned(),
        answer,
    }
}

#[test]
fn the_world_model_never_hears() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let apartment = world("apartment").unwrap();
    let recording = Recording::new(apartment, Some("v1"), 3, 16).unwrap();
    far_world::record(apartment, &recording, 1, &data, 1, &|_| ()).unwrap();
    let heard = ask(&data, &folder.path().join("first"));

    // The same walk through an apartment in which the sound plays backward.
    let path = data.join("episodes/000000.wav");
    let mut reader = hound::WavReader::open(&path).unwrap();
    let (spec, mut samples) = (reader.spec(), Vec::new());
    samples.extend(reader.samples::<i16>().map(Result::unwrap));
    let mut writer = hound::WavWriter::create(&path, spec).unwrap();
    samples.iter().rev().for_each(|sample| writer.write_sample(*sample).unwrap());
    writer.finalize().unwrap();
    let otherwise = ask(&data, &folder.path().join("second"));

    assert_ne!(heard.key, otherwise.key);
    assert_ne!(heard.query, otherwise.query);
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    let [a, b] = [&heard.context, &otherwise.context];
    assert_eq!(bits(&a.latents()), bits(&b.latents()));
    assert_eq!(
        (a.present(), a.conditions(), a.states()),
        (b.present(), b.conditions(), b.states())
    );
    assert_eq!(bits(&heard.answer), bits(&otherwise.answer));
    assert!(heard.answer.iter().all(|value| value.is_finite()));
}

fn far(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_far")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

const SMALL: [&str; 11] = [
    "data={ batch = 8, horizon = 32 }",
    "tokenizer.patch_pca={ resolution = [16, 16], patch = 8, channels = 8, frames = 200 }",
    "world_model={ depth = 2, width = 16, heads = 2 }",
    "encoder={ depth = 1, width = 16, heads = 2, key = 8 }",
    "encoder.pretraining={ steps = 6, batch = 4, positives = 2, negatives = 6 }",
    "retriever={ queries = 8, eager = 4, interval = 2 }",
    "training={ steps = 200, warm_up = 5, checkpoint_every = 200 }",
    "evaluation={ questions = 2, utility_pool = 6, utility_levels = 1, replays = 1, pool = 60 }",
    "evaluation.clips=8",
    "evaluation.sampler.steps=2",
    "compute.device=\"cpu\"",
];

/// Both presets, told apart by returns of two lengths and by walls.
#[test]
fn the_presets_train_and_are_judged() {
    let folder = tempfile::tempdir().unwrap();
    for variant in ["v1", "v2"] {
        let [data, run] =
            ["data", "run"].map(|name| folder.path().join(format!("{name}-{variant}")));
        let [data, run] = [data.to_str().unwrap(), run.to_str().unwrap()];
        let record = ["world", "record", "--world", "apartment", "--variant", variant];
        far(&[&record[..], &["--episodes", "9", "--size", "16", "--out", data]].concat());
        let preset = format!("apartment-{variant}");
        let sets: Vec<&str> = SMALL.iter().flat_map(|set| ["--set", set]).collect();
        let train = ["train", "--config", &preset, "--data", data, "--out", run, "--json"];
        far(&[&train[..], &sets].concat());
        let results = far(&["eval", run, "--device", "cpu", "--json"]);
        let results: Value = serde_json::from_str(&results).unwrap();
        let arm = &results["arms"]["far-multi"];
        assert!(arm["psnr"]["mean"].is_f64(), "{results}");
        let tiers: Vec<&String> = arm.as_object().unwrap().keys().collect();
        let tiers = tiers.iter().filter(|metric| metric.starts_with("psnr_tier_")).count();
        assert!(tiers >= 2, "{results}");
        assert!(arm["weight_audio_clear"]["mean"].as_f64().unwrap() > 0.0, "{results}");
        assert!(results["arms"]["copy"]["weight_audio_clear"].is_null());
    }
}
