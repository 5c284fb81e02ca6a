//! A run of `far-multi` with poses and touch: trained, then judged.

use crate::touch::Touch;
use far_eval::{Replay, Results};
use far_tensor::Device;
use far_train::{
    ArmTraining, CueRegistry, Error, EvaluationRecord, Existing, Listener, PreparedData, Result,
    RunEvaluation, RunFolder, SavedRun, Session, StepReport, TrainConfig, Watch, train,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The lines that a file of a configuration would have, and sizes that fit a few seconds.
const SETTINGS: [&str; 9] = [
    "arm={ id = \"far-multi\", cue = \"touch\" }",
    "tokenizer.patch_pca={ resolution = [16, 16], patch = 8, channels = 8 }",
    "data={ batch = 8, horizon = 8 }",
    "world_model={ depth = 2, width = 32, heads = 2 }",
    "encoder={ depth = 1, width = 16, heads = 2, key = 8 }",
    "encoder.pretraining={ steps = 30, radius = 0.3, positives = 3, negatives = 8 }",
    "retriever={ queries = 8, chunk_size = 4 }",
    "training={ evaluate_every = 0, warm_up = 5 }",
    "evaluation={ stride = 2, utility_pool = 12, sampler = { steps = 5 } }",
];

/// Trains in `run` on the dataset in `data` for so many steps, and judges the result.
///
/// # Errors
/// If the dataset cannot be read, or training or the evaluation stops.
pub fn run(data: &Path, run: &Path, steps: u64) -> Result<(Results, Vec<Replay>)> {
    let (folder, steps) =
        (format!("data.folder={:?}", data.to_string_lossy()), format!("training.steps={steps}"));
    let settings = [&SETTINGS[..], &[folder.as_str(), steps.as_str()]].concat();
    let config = TrainConfig::resolve("quick", &settings)?;
    let device = Device::cpu();

    // Everything that knows of the new cue: the registry here, the features below.
    let cues = CueRegistry::of(&config).with(Arc::new(Touch));
    let session = Session::now(device.to_string(), 1);
    let mut saved = RunFolder::open(run, &config, Existing::Resume, session)?;
    let prepared = PreparedData::open_with(&config, &[], &cues, run, &device, &mut |_| {})?;
    let mut training = ArmTraining::new(&prepared)?;
    let stop = AtomicBool::new(false);
    train(&mut training, &mut saved, &config.training, &stop, &mut Quiet)?;

    let evaluation =
        RunEvaluation::new(vec![SavedRun::read(run)?]).with_features([Arc::new(Touch) as _]);
    let listener = Listener { stage: &mut |_| {}, progress: &mut |_| {} };
    let (results, shown) =
        evaluation.run(&device, far_eval::Perceptual::default(), None, listener)?;
    results.write(run)?;
    shown.write(run)?;
    Ok((results, shown.replays))
}

/// Nobody looks on.
struct Quiet;

impl Watch for Quiet {
    fn begin(&mut self, _: Option<u64>, _: &[Error]) {}
    fn step(&mut self, _: &StepReport) {}
    fn evaluation(&mut self, _: &EvaluationRecord) {}
    fn checkpoint(&mut self, _: u64) {}
}

/// The mean weight λ of each cue over all steps of an arm's rollouts.
pub fn mean_weights(replays: &[Replay], arm: &str) -> Vec<(String, f32)> {
    let steps: Vec<_> =
        replays.iter().filter_map(|replay| replay.arms.get(arm)).flatten().collect();
    let cues = steps.first().map_or(&[][..], |step| &step.weights);
    let mean =
        |cue: usize| steps.iter().map(|step| step.weights[cue].1).sum::<f32>() / steps.len() as f32;
    cues.iter().enumerate().map(|(place, (name, _))| (name.clone(), mean(place))).collect()
}
