//! Every value of the paper's tables of settings, against the presets that claim them.
//!
//! The tables are those of its appendix: shared settings, training settings and inference settings by
//! corpus, and the numbers in the text around them. `–` is what a table leaves out.

use far_train::{Contender, TrainConfig};

/// LoopNav, SoundSpaces v1, v2, AI2-THOR and AI2-THOR-dyn.
const CORPORA: usize = 5;
const PAPER: [&str; CORPORA] =
    ["paper-loopnav", "paper-soundspaces", "paper-soundspaces", "paper-thor", "paper-thor-dyn"];
const PRINTED: [&str; CORPORA] = [
    "printed-loopnav",
    "printed-soundspaces-v1",
    "printed-soundspaces-v2",
    "printed-thor",
    "printed-thor-dyn",
];

/// What all corpora share: setting, value.
const SHARED: [(&str, &str); 29] = [
    ("world_model.depth", "12"),
    ("world_model.width", "768"),
    ("world_model.heads", "12"),
    ("world_model.attention", "\"joint\""),
    ("world_model.prediction", "\"noise\""),
    ("world_model.learned_variance", "true"),
    ("world_model.copy", "false"),
    ("training.slots", "3"),
    ("training.context", "\"recalled\""),
    ("training.learning_rate", "1e-4"),
    ("retriever.learning_rate", "1e-4"),
    ("training.warm_up", "5000"),
    ("training.average_decay", "0.9999"),
    ("training.average_warm_up", "false"),
    ("training.evaluate_every", "2500"),
    ("utility.levels", "4"),
    ("utility.range", "[0, 1000]"),
    ("utility.temperature", "1.0"),
    ("utility.target", "\"posterior\""),
    ("retriever.credit", "\"single\""),
    ("retriever.selection", "\"chunks\""),
    ("retriever.extra_candidates", "0"),
    ("retriever.eager", "0"),
    ("retriever.start", "0"),
    ("retriever.exploration_steps", "0"),
    ("retriever.random_length", "0.0"),
    ("retriever.gate_rate_factor", "1.0"),
    ("retriever.queries", "0"),
    ("compute.precision", "\"f32\""),
];

/// The encoder: six layers, 384, 12 heads, keys of 256, 8 positives and 24 negatives.
const ENCODER: [(&str, &str); 6] = [
    ("encoder.depth", "6"),
    ("encoder.width", "384"),
    ("encoder.heads", "12"),
    ("encoder.key", "256"),
    ("encoder.pretraining.positives", "8"),
    ("encoder.pretraining.negatives", "24"),
];

/// What differs from corpus to corpus: setting, values.
const BY_CORPUS: [(&str, [&str; CORPORA]); 25] = [
    ("data.pool", ["200", "200", "200", "400", "400"]),
    ("data.horizon", ["128", "128", "128", "32", "32"]),
    ("data.goals_per_observation", ["4", "4", "4", "4", "4"]),
    ("data.batch", ["128", "64", "64", "64", "64"]),
    (
        "data.split_rule",
        [
            "\"episode\"",
            "\"scene-disjoint\"",
            "\"scene-disjoint\"",
            "\"scene-disjoint\"",
            "\"episode\"",
        ],
    ),
    ("data.anchor.kind", ["–", "–", "–", "\"event\"", "\"reveal\""]),
    ("data.anchor.probability", ["–", "–", "–", "0.3", "0.35"]),
    ("data.anchor.horizon", ["–", "–", "–", "32", "135"]),
    ("tokenizer.precomputed.scale", ["0.07843137255", "0.13025", "0.13025", "0.13025", "0.13025"]),
    ("conditioning.interactions", ["false", "false", "false", "true", "false"]),
    ("conditioning.agent", ["false", "false", "false", "false", "true"]),
    ("arm.cue", ["\"vision\"", "\"audio\"", "\"audio\"", "\"vision\"", "\"agent\""]),
    ("retriever.chunk_size", ["10", "10", "10", "10", "30"]),
    ("retriever.metadata_layers", ["2", "2", "2", "3", "3"]),
    ("retriever.interval", ["20", "20", "20", "20", "7"]),
    ("retriever.anchored_only", ["false", "false", "false", "false", "true"]),
    ("training.change_mask.coefficient", ["–", "–", "–", "0.3", "5.0"]),
    ("training.change_mask.utility_coefficient", ["–", "–", "–", "0.0", "5.0"]),
    ("encoder.pretraining.steps", ["400000", "400000", "400000", "400000", "12500"]),
    ("encoder.pretraining.learning_rate", ["2e-4", "2e-4", "2e-4", "2e-4", "5e-5"]),
    ("training.steps", ["700000", "700000", "700000", "700000", "100000"]),
    ("evaluation.slots", ["11", "11", "11", "11", "3"]),
    ("evaluation.stride", ["4", "16", "16", "4", "–"]),
    ("evaluation.clips", ["3796", "1167", "1167", "1309", "202"]),
    ("evaluation.pool", ["1000", "1000", "1000", "1000", "–"]),
];

/// What the printed presets have smaller; `configs/printed.toml` says why.
const SMALLER: [&str; 12] = [
    "data.batch",
    "world_model.depth",
    "world_model.width",
    "world_model.heads",
    "encoder.pretraining.steps",
    "retriever.interval",
    "training.steps",
    "training.warm_up",
    "training.average_decay",
    "training.evaluate_every",
    "evaluation.clips",
    // The latents are not the paper's, so its scale has no meaning.
    "tokenizer.precomputed.scale",
];

/// The value of a setting as a configuration writes it; `None` where it is absent.
fn value(config: &TrainConfig, key: &str) -> Option<toml::Value> {
    let mut value = toml::Value::Table(toml::from_str(&config.to_toml()).expect("TOML"));
    for name in key.split('.') {
        value = value.get(name)?.clone();
    }
    Some(value)
}

/// The same number or text; numbers are f32 in a configuration.
fn same(found: &toml::Value, expected: &str) -> bool {
    let expected: toml::Table = toml::from_str(&format!("value = {expected}")).expect("TOML");
    let expected = &expected["value"];
    match (found.as_float(), expected.as_float()) {
        (Some(found), Some(expected)) => (found - expected).abs() <= 1e-6 * expected.abs(),
        _ => found == expected,
    }
}

fn rows() -> Vec<(&'static str, [&'static str; CORPORA])> {
    let shared = SHARED.iter().chain(&ENCODER).map(|(key, value)| (*key, [*value; CORPORA]));
    shared.chain(BY_CORPUS).collect()
}

/// Settings of a preset that are not the paper's: key, found, expected.
fn differences(preset: &str, corpus: usize) -> Vec<(&'static str, String, &'static str)> {
    let config = TrainConfig::resolve(preset, &[]).expect(preset);
    let rows = rows().into_iter().map(|(key, values)| (key, values[corpus]));
    let stated = rows.filter(|(key, expected)| *expected != "–" || key.contains("anchor"));
    let wrong = stated.filter_map(|(key, expected)| {
        let found = value(&config, key);
        let right = match (&found, expected) {
            (None, "–") => true,
            (Some(found), expected) => expected != "–" && same(found, expected),
            (None, _) => false,
        };
        let found = found.map_or("absent".to_owned(), |found| found.to_string());
        (!right).then_some((key, found, expected))
    });
    wrong.collect()
}

#[test]
fn the_papers_presets_have_every_value_of_its_tables() {
    for (corpus, preset) in PAPER.iter().enumerate() {
        assert_eq!(differences(preset, corpus), [], "{preset}");
        let config = TrainConfig::resolve(preset, &[]).expect(preset);
        let optimizer = config.training.optimizer();
        assert_eq!((optimizer.clip, optimizer.epsilon), (Some(1.0), 1e-6), "{preset}");
        assert_eq!((optimizer.warm_up_from, optimizer.weight_decay), (0.2, 0.0), "{preset}");
        assert_eq!(config.evaluation.sampler.steps, 20, "{preset}");
    }
}

#[test]
fn printed_presets_differ_in_size_alone() {
    for (corpus, preset) in PRINTED.iter().enumerate() {
        let found: Vec<&str> =
            differences(preset, corpus).into_iter().map(|(key, ..)| key).collect();
        for key in &found {
            assert!(SMALLER.contains(key), "{preset}: {key} is not the paper's");
        }
        for key in ["data.batch", "world_model.depth", "world_model.width", "training.steps"] {
            assert!(found.contains(&key), "{preset}: {key} is the paper's");
        }
        let config = TrainConfig::resolve(preset, &[]).expect(preset);
        assert_eq!(config.evaluation.sampler.steps, 20, "{preset}");
        // What counts in steps is the same share of all steps as in the paper.
        let paper = TrainConfig::resolve(PAPER[corpus], &[]).expect("known").training;
        let own = &config.training;
        let share = |part: f64, steps: u64| part / steps as f64;
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 0.1;
        assert!(near(
            share(own.warm_up as f64, own.steps),
            share(paper.warm_up as f64, paper.steps)
        ));
        let horizon = |decay: f32| 1.0 / f64::from(1.0 - decay);
        assert!(near(
            share(horizon(own.average_decay), own.steps),
            share(horizon(paper.average_decay), paper.steps)
        ));
    }
}

#[test]
fn rivals_have_their_own_batch_and_pool() {
    let arm = |preset: &str, name: &str| {
        let config = TrainConfig::resolve(preset, &[]).expect(preset);
        let contenders = config.comparison.contenders().expect(preset);
        let found = contenders.into_iter().find(|contender| contender.name == name);
        found.expect(name).config(preset, &[]).expect(preset)
    };
    let batches = [("paper-loopnav", 112), ("paper-soundspaces", 63), ("paper-thor", 64)];
    for (preset, batch) in batches {
        assert_eq!(arm(preset, "temporal").data.batch, batch, "{preset}");
        assert_eq!(arm(preset, "far-multi").data.batch, if batch == 112 { 128 } else { 64 });
        let cap = arm(preset, "worldmem").arm.settings.get("pool_cap").cloned();
        let expected = (preset != "paper-thor").then_some(200);
        assert_eq!(cap.and_then(|cap| cap.as_integer()), expected, "{preset}");
    }
    for preset in PAPER.iter().chain(&PRINTED) {
        let config = TrainConfig::resolve(preset, &[]).expect(preset);
        for Contender { name, .. } in config.comparison.contenders().expect(preset) {
            arm(preset, &name).arm.arm().expect(&name);
        }
    }
}
