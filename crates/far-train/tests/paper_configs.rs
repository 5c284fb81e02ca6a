//! The paper's configurations: as many parameters as its networks have, and steps that can be made.

use far_model::{ConditionScale, DitSetting, POSE_FEATURES, SignalLayout};
use far_tensor::Device;
use far_train::{ArmTraining, Error, PreparedData, TrainConfig, TrainingLoop, synthetic};

const PRESETS: [&str; 4] = ["paper-loopnav", "paper-soundspaces", "paper-thor", "paper-thor-dyn"];

/// Two steps of one example with a retriever step after the second.
const TWO_STEPS: [&str; 9] = [
    "data.batch=1",
    "data.goals_per_observation=1",
    "retriever.interval=2",
    "training.steps=2",
    "training.log_every=1",
    "encoder.pretraining.steps=1",
    "encoder.pretraining.batch=2",
    "encoder.pretraining.positives=2",
    "encoder.pretraining.negatives=2",
];

/// Everything that makes the networks small and lets two steps show in their average; shapes of latents
/// stay the paper's.
const SMALL: [&str; 8] = [
    "training={ learning_rate = 0.01, warm_up = 1, average_decay = 0.5 }",
    "world_model={ depth = 2, width = 48, heads = 4 }",
    "encoder={ depth = 1, width = 16, heads = 2, key = 8 }",
    "retriever.chunk_size=4",
    "utility.levels=1",
    "evaluation={ clips_in_training = 1, questions = 1, utility_pool = 3, slots = 3, stride = 16 }",
    "evaluation.sampler.steps=1",
    "detector.steps=2",
];

/// What a preset needs besides to run here: only anchored examples teach the retriever of the corridor,
/// which one example in a step seldom is.
fn own(preset: &str) -> &'static [&'static str] {
    match preset {
        "paper-thor-dyn" => &["data.anchor.probability=1"],
        _ => &[],
    }
}

/// AI2-THOR-dyn as the paper's main text has it: memories of two observations.
const TWO_OBSERVATIONS: &[&str] = &["data.anchor.probability=1", "world_model.earlier_view=1.5"];

#[test]
fn parameters_are_those_of_dit_b_and_conditioning() {
    for preset in PRESETS {
        let config = TrainConfig::resolve(preset, &[]).expect(preset);
        let shape = synthetic::latents_of(preset);
        let scale = ConditionScale { length: 1.0, time: 1.0 };
        let setting = DitSetting {
            config: config.world_model,
            shape,
            scale,
            signals: SignalLayout::default(),
            view: None,
        };
        let count = setting.parameter_count().expect(preset);

        let linear = |inputs: usize, outputs: usize| inputs * outputs + outputs;
        let (width, waves, token) = (768, 256, shape.token_width());
        let mlp = linear(width, 4 * width) + linear(4 * width, width);
        let attention = linear(width, 3 * width) + linear(width, width);
        let blocks = 12 * (linear(width, 6 * width) + attention + mlp);
        let embedder = |inputs: usize| linear(inputs, width) + linear(width, width);
        let last = linear(width, 2 * width) + linear(width, 2 * token);
        let dit = blocks + linear(token, width) + embedder(waves) + last;
        assert_eq!(count.in_dit(), dit, "{preset}");

        // Poses from the present and from the goal; times; strides; roles; scales and offsets of
        // queries and keys per head.
        let conditioning = embedder(2 * POSE_FEATURES) + 2 * embedder(waves) + 3 * width;
        let norms = 12 * 2 * 2 * (width / 12);
        assert_eq!(count.total(), dit + conditioning + norms, "{preset}");

        let millions = if preset == "paper-loopnav" { "129.7" } else { "129.5" };
        assert_eq!(format!("{:.1}", dit as f64 / 1e6), millions);
    }
}

#[test]
fn every_configuration_makes_two_steps_one_of_them_the_retrievers() {
    let rows = PRESETS.map(|preset| (preset, own(preset)));
    for (preset, own) in rows.into_iter().chain([("paper-thor-dyn", TWO_OBSERVATIONS)]) {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        let place = format!("data.folder={:?}", data.to_string_lossy());
        let sets = [&TWO_STEPS[..], &SMALL, own, &[place.as_str()]].concat();
        let config = TrainConfig::resolve(preset, &sets).expect(preset);
        synthetic::write(&config, synthetic::latents_of(preset), &data, [24, 20]).expect(preset);
        let device = Device::cpu();
        let prepared =
            PreparedData::open(&config, folder.path(), &device, &mut |_| {}).expect(preset);
        let mut training = ArmTraining::new(&prepared).expect(preset);
        let first = training.step().expect(preset);
        assert!(first.retrievers.is_empty(), "{preset}");
        let second = training.step().expect(preset);
        assert_eq!(second.retrievers.len(), 1, "{preset}");
        for step in [&first.step, &second.step] {
            assert!(step.loss.is_some_and(|loss| loss > 0.0), "{preset}: {step:?}");
        }
        assert!(second.retrievers[0].loss.is_some(), "{preset}");
        let judged = training.evaluate().expect(preset);
        assert!(judged.values.contains_key("recall_quality"), "{preset}: {judged:?}");
        assert!(!judged.values.contains_key("psnr"), "{preset}: latents alone have no pictures");
    }
}

#[test]
fn keys_that_nothing_makes_are_refused_before_anything_is_computed() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let place = format!("data.folder={:?}", data.to_string_lossy());
    let config = TrainConfig::resolve("paper-soundspaces", &[&place, "arm.cue=\"smell\""]);
    let config = config.expect("a configuration");
    synthetic::write(&config, synthetic::SDXL, &data, [4, 4]).expect("a dataset");
    let refused = PreparedData::open(&config, folder.path(), &Device::cpu(), &mut |_| {
        panic!("something is computed");
    });
    let error = refused.err().expect("there is no encoder of smells");
    assert!(matches!(&error, Error::NoEncoder { cue, .. } if cue == "smell"), "{error}");
    assert!(error.hint().contains("--set arm.id=far-meta"), "{}", error.hint());
}
