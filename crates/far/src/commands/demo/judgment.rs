//! The comparison of all arms under one world model.

use super::contest;
use crate::commands::eval::write_results;
use crate::stage::Stage;
use far_eval::{Arm, Control, Results};
use far_memory::RecallPolicy;
use far_model::WorldModel;
use far_train::{ArmTraining, Error, LearnedRetriever, PreparedData, Result};
use std::path::Path;

/// Evaluates every arm with the averaged world model of a training, and writes results and replays
/// into the run's folder.
pub fn common(
    prepared: &PreparedData,
    training: &ArmTraining<'_>,
    seconds: f64,
    run: &Path,
) -> Result<Results> {
    let judge = training.joint().model().average()?;
    let mut arms = Vec::new();
    let retrievers = training.joint().retrievers();
    let learned = retrievers.iter().map(LearnedRetriever::name);
    let besides = learned.filter(|name| !contest::arms().any(|id| id == *name));
    let ids: Vec<&str> = contest::arms().map(|id| id as &str).collect();
    for id in ids.into_iter().chain(besides) {
        let arm = Arm::policy(id, policy(prepared, training, id)?);
        arms.push(if id == prepared.config().arm.id { arm.leading() } else { arm });
    }
    arms.extend(Control::ALL.map(Arm::control));
    judge_and_write(prepared, judge.as_ref(), &arms, Some(seconds), run)
}

/// Evaluates these arms with a progress bar and writes the results.
pub fn judge_and_write(
    prepared: &PreparedData,
    judge: &dyn WorldModel,
    arms: &[Arm],
    seconds: Option<f64>,
    run: &Path,
) -> Result<Results> {
    let (plan, device) = (prepared.config().evaluation_plan(), prepared.device().to_string());
    let bar = Stage::new(0, "passes evaluated");
    let judged = prepared.evaluation(judge, arms, &plan, &device).run(&mut |state| {
        bar.show(state.done, state.total);
    });
    bar.end();
    let (mut results, shown) = judged?;
    results.train_seconds = seconds;
    write_results(&results, &shown, run)?;
    Ok(results)
}

/// The policy of an arm: a trained retriever, or a rule with the dataset's camera.
fn policy(
    prepared: &PreparedData,
    training: &ArmTraining<'_>,
    id: &str,
) -> Result<Box<dyn RecallPolicy>> {
    let learned = training.joint().retrievers().iter().find(|retriever| retriever.name() == id);
    if let Some(retriever) = learned {
        return Ok(Box::new(retriever.policy().clone()));
    }
    prepared.rule(id)?.build().map_err(Error::from)
}
