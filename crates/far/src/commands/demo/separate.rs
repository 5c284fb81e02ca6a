//! The paper's protocol: every arm trains a world model of its own on what it recalls.

use super::{ARMS, judgment};
use crate::commands::train::{View, preparation};
use crate::interrupt;
use far_eval::{Arm, Evaluation, Results};
use far_memory::AdapterKind;
use far_model::{CueWeighting, WorldModel};
use far_tensor::Device;
use far_train::{
    ArmTraining, Existing, Result, RunFolder, Session, TrainConfig, TrainingContext, Workshop,
};
use std::path::Path;
use std::sync::Arc;

/// An arm with what of it learns.
pub struct Variant {
    /// Its name in results, and of its run's folder.
    name: &'static str,
    /// The arm.
    id: &'static str,
    adapter: AdapterKind,
    weights: CueWeighting,
}

impl Variant {
    /// Every compared arm as it is.
    pub fn arms() -> Vec<Self> {
        let whole = (AdapterKind::Residual, CueWeighting::Learned);
        ARMS.map(|id| Self { name: id, id, adapter: whole.0, weights: whole.1 }).into()
    }

    /// The paper's ablation: from a frozen encoder alone to learned weights of two cues.
    pub fn ablation() -> Vec<Self> {
        let (identity, residual) = (AdapterKind::Identity, AdapterKind::Residual);
        let (equal, learned) = (CueWeighting::Equal, CueWeighting::Learned);
        let rows = [
            ("far-vision-frozen", "far-vision", identity, learned),
            ("far-vision", "far-vision", residual, learned),
            ("far-multi-equal", "far-multi", residual, equal),
            ("far-multi", "far-multi", residual, learned),
        ];
        rows.map(|(name, id, adapter, weights)| Self { name, id, adapter, weights }).into()
    }

    /// Its configuration: its own recall fills the contexts, the encoder is the common one.
    fn config(&self, config: &TrainConfig, out: &Path) -> TrainConfig {
        let mut config = config.clone();
        self.id.clone_into(&mut config.arm.id);
        (config.arm.adapter, config.arm.weights) = (self.adapter, self.weights);
        config.training.context = TrainingContext::Recalled;
        config.training.evaluate_every = 0;
        config.encoder.path = Some(out.join("common").join("encoder.safetensors"));
        config
    }
}

/// Trains all variants with the same data, steps, seeds and noise, and judges each with its own world
/// model; recall quality stays that of the common one. Everything goes into the folder `name`.
pub fn run(
    config: &TrainConfig,
    out: &Path,
    name: &str,
    variants: &[Variant],
    common: &ArmTraining<'_>,
    device: &Device,
) -> Result<Results> {
    let mut arms = Vec::new();
    let folder = out.join(name);
    for variant in variants {
        eprintln!("{}:", variant.name);
        let config = variant.config(config, out);
        let run = folder.join(variant.name);
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
        arms.push(Arm::policy(variant.name, training.policy()?).with_model(model));
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
    judgment::judge_and_write(&evaluation, None, &folder)
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
