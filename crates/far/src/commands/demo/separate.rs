//! The paper's protocol: every arm trains a world model of its own on what it recalls.

use super::{ARMS, judgment};
use crate::commands::train::{View, preparation};
use crate::interrupt;
use far_eval::{Arm, Evaluation, Results};
use far_model::WorldModel;
use far_tensor::Device;
use far_train::{
    ArmTraining, Existing, Result, RunFolder, Session, TrainConfig, TrainingContext, Workshop,
};
use std::path::Path;
use std::sync::Arc;

/// Trains all arms with the same data, steps, seeds and noise, and judges each with its own world
/// model; recall quality stays that of the common one.
pub fn run(
    config: &TrainConfig,
    out: &Path,
    device: &Device,
    common: &ArmTraining<'_>,
) -> Result<Results> {
    let mut arms = Vec::new();
    let folder = out.join("separate");
    for id in ARMS {
        eprintln!("{id}:");
        let config = own(config, out, id);
        let run = folder.join(id);
        let session = Session::now("cpu", rayon::current_num_threads());
        let mut folder = RunFolder::open(&run, &config, Existing::Resume, session)?;
        share(&out.join("common"), &run)?;
        let workshop = Workshop::open(&config, &run, device, &mut preparation())?;
        let mut training = ArmTraining::new(&workshop)?;
        let mut view = View::new(config.training.steps);
        let stop = interrupt::listen();
        far_train::train(&mut training, &mut folder, &config.training, stop, &mut view)?;
        view.end();
        let model: Arc<dyn WorldModel> = training.joint().model().average()?.into();
        arms.push(Arm::policy(id, training.policy()?).with_model(model));
    }
    let workshop = common.workshop();
    let judge = common.joint().model().average()?;
    let evaluation = Evaluation {
        dataset: workshop.data(),
        episodes: workshop.judged_episodes(),
        judge: judge.as_ref(),
        arms: &arms,
        plan: &config.evaluation_plan(),
        lpips: None,
        device: "cpu",
    };
    let mut results = judgment::judge_and_write(&evaluation, 0.0, &folder)?;
    results.train_seconds = None;
    results.write(&folder)?;
    Ok(results)
}

/// The configuration of one arm: its own recall fills the contexts, the encoder is the common one.
fn own(config: &TrainConfig, out: &Path, id: &str) -> TrainConfig {
    let mut config = config.clone();
    id.clone_into(&mut config.arm.id);
    config.training.context = TrainingContext::Recalled;
    config.training.evaluate_every = 0;
    config.encoder.path = Some(out.join("common").join("encoder.safetensors"));
    config
}

/// Copies what was fitted before, so that it is not fitted again.
fn share(from: &Path, to: &Path) -> Result<()> {
    for name in ["tokenizer.safetensors", "longlive.safetensors"] {
        let (source, path) = (from.join(name), to.join(name));
        if !path.exists() {
            std::fs::copy(&source, &path).map_err(|error| far_train::Error::File {
                action: "copy",
                path: source,
                source: error,
            })?;
        }
    }
    Ok(())
}
