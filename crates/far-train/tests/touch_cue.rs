//! The example of `docs/adding-a-cue.md` does what the document says.

#[path = "../examples/touch_cue/experiment.rs"]
mod experiment;
#[path = "../examples/touch_cue/touch.rs"]
mod touch;
#[path = "../examples/touch_cue/walk.rs"]
mod walk;

use far_data::Dataset;
use far_model::CueFeature;
use far_tensor::Device;
use far_train::{CueRegistry, RunEvaluation, SavedRun, TrainConfig};
use std::path::Path;

#[test]
fn a_cue_of_ones_own_is_trained_weighed_and_judged() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, run) = (folder.path().join("data"), folder.path().join("run"));
    walk::write(&data, 4).expect("a dataset");
    let (results, replays) = experiment::run(&data, &run, 6).expect("a run");
    assert!(results.arms["far-multi"]["psnr"].mean.is_finite());
    let weights = experiment::mean_weights(&replays, "far-multi");
    let names: Vec<&str> = weights.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["meta", "touch"]);
    let sum: f32 = weights.iter().map(|(_, weight)| weight).sum();
    assert!((sum - 1.0).abs() < 1e-5 && weights[1].1 > 0.0, "{weights:?}");
    assert!(run.join("encoder-touch.safetensors").exists());

    // Whoever forgets the feature is told which cues there are.
    let forgotten = RunEvaluation::new(vec![SavedRun::read(&run).expect("a run")]);
    let listener = far_train::Listener { stage: &mut |_| {}, progress: &mut |_| {} };
    let message = forgotten
        .run(&Device::cpu(), far_eval::Perceptual::default(), None, listener)
        .expect_err("no feature");
    assert!(message.to_string().contains("cue `touch`"), "{message}");
}

#[test]
fn touch_is_what_was_felt_until_now() {
    let folder = tempfile::tempdir().expect("a folder");
    walk::write(folder.path(), 4).expect("a dataset");
    let dataset = Dataset::open(folder.path()).expect("it opens");
    let episode = dataset.episode(0).expect("an episode");
    let rows = touch::Touch.rows(&episode).expect("rows");
    assert_eq!(rows.len(), 4 * episode.len());
    let up = |frame: usize| episode.action(frame).up / 0.05;
    assert_eq!(rows[..4], [0.0, 0.0, 0.0, up(0)]);
    assert_eq!(rows[4 * 9..4 * 10], [up(6), up(7), up(8), up(9)]);
}

#[test]
fn a_column_is_a_cue_by_one_line_of_a_configuration() {
    let folder = tempfile::tempdir().expect("a folder");
    walk::write(folder.path(), 4).expect("a dataset");
    let dataset = Dataset::open(folder.path()).expect("it opens");
    let feature = |sets: &[&str], cue: &str| {
        let config = TrainConfig::resolve("quick", sets).expect("a configuration");
        CueRegistry::of(&config).feature(cue, &dataset)
    };
    let felt = feature(&["cues.felt={ column = \"action\", scale = 0.1 }"], "felt");
    let felt = felt.expect("a cue").expect("a feature");
    assert_eq!((felt.cue(), felt.shape().elements()), ("felt", 5));
    let rows = felt.rows(&dataset.episode(1).expect("an episode")).expect("rows");
    let forward = dataset.episode(1).expect("an episode").action(7).forward;
    assert_eq!(rows[5 * 7], forward / 0.1);

    let fails = |column: &str| {
        let set = format!("cues.felt.column={column}");
        feature(&[&set], "felt").err().expect("it is wrong")
    };
    assert!(fails("force").to_string().contains("column `force`"));
    assert!(fails("phase").to_string().contains("found string"));
    assert!(fails("force").hint().contains("docs/dataset.md"));
    let unknown = feature(&["cues.felt.column=action"], "smell").err().expect("no such cue");
    assert!(unknown.to_string().contains("vision, agent, audio, interaction, felt"), "{unknown}");
}

#[test]
fn the_document_shows_the_file_of_the_example() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let document = std::fs::read_to_string(root.join("docs/adding-a-cue.md")).expect("there");
    let shown = include_str!("../examples/touch_cue/touch.rs");
    assert!(document.contains(shown.trim_end()), "docs/adding-a-cue.md shows another touch.rs");
    assert!(document.contains("cargo run --release -p far-train --example touch_cue"));
}
