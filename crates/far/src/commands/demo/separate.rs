//! The paper's protocol: every arm trains its own world model with the memories it recalls.

use super::judgment;
use crate::commands::train::{explain, finish, located, preparation};
use far_eval::Results;
use far_model::WorldModel;
use far_tensor::Device;
use far_train::{
    ArmTraining, Contender, Existing, PreparedData, Result, RunFolder, Session, TrainConfig,
    TrainingContext, share_preparation,
};
use std::path::Path;
use std::sync::Arc;

/// The demo's configuration for an arm: its own settings, and contexts filled by its own recall.
fn config(contender: &Contender, sets: &[String]) -> Result<TrainConfig> {
    let mut config = contender.config("demo", sets)?;
    config.training.context = TrainingContext::Recalled;
    config.training.evaluate_every = 0;
    Ok(located(config))
}

/// Trains all arms with the same data, steps, seeds and noise, and evaluates each with its own
/// world model; recall quality is that of the common one. Everything goes into the folder `name`.
pub fn run(
    sets: &[String],
    out: &Path,
    (name, arms): (&str, &[&str]),
    common: &ArmTraining<'_>,
    device: &Device,
) -> anyhow::Result<Results> {
    let mut judged = Vec::new();
    let folder = out.join(name);
    for arm in arms {
        eprintln!("{arm}:");
        let config = config(&Contender::parse(arm).map_err(explain)?, sets).map_err(explain)?;
        let run = folder.join(arm);
        let session = Session::now(device.to_string(), rayon::current_num_threads());
        let mut folder =
            RunFolder::open(&run, &config, Existing::Resume, session).map_err(explain)?;
        share_preparation(&out.join("common"), &run).map_err(explain)?;
        let prepared = PreparedData::open(&config, &run, device, &mut preparation());
        let prepared = prepared.map_err(explain)?;
        let mut training = ArmTraining::new(&prepared).map_err(explain)?;
        finish(&mut training, &mut folder, &config.training)?;
        let model: Arc<dyn WorldModel> = training.joint().model().average()?.into();
        judged.push(training.arm(arm).map_err(explain)?.with_model(model));
    }
    let prepared = common.prepared();
    let judge = common.joint().model().average()?;
    judgment::judge_and_write(prepared, judge.as_ref(), &judged, None, &folder).map_err(explain)
}
