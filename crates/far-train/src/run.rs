//! A run from its first step to its last: steps, records, evaluations and checkpoints in an order
//! that can be interrupted anywhere.

use crate::config::TrainingSettings;
use crate::{Error, EvaluationRecord, Record, Result, RetrieverRecord, RunFolder, StepRecord};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// What a run knows of the training that it drives.
///
/// Everything must be a function of the configuration and the number of the step: after `load`
/// of a checkpoint the steps that follow are those that followed `save`, bit by bit.
pub trait TrainingLoop {
    /// Steps that were made, 0 at the beginning.
    fn completed(&self) -> u64;

    /// Makes the next step.
    ///
    /// # Errors
    /// If it cannot be made; nothing has changed then.
    fn step(&mut self) -> Result<StepReport>;

    /// Judges the averaged model as it stands.
    ///
    /// # Errors
    /// If it cannot be judged.
    fn evaluate(&mut self) -> Result<EvaluationRecord>;

    /// Writes everything that later steps depend on.
    ///
    /// # Errors
    /// If it cannot be written.
    fn save(&self, path: &Path) -> Result<()>;

    /// Takes everything back.
    ///
    /// # Errors
    /// If the file is damaged or comes from another architecture.
    fn load(&mut self, path: &Path) -> Result<()>;
}

/// What a step did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepReport {
    /// The world model's step.
    pub step: StepRecord,
    /// The retrievers', in steps where they learn.
    pub retrievers: Vec<RetrieverRecord>,
}

/// An observer of a run.
pub trait Watch {
    /// The run begins, or resumes from a step; newer checkpoints could not be read for these
    /// reasons.
    fn begin(&mut self, resumed: Option<u64>, refused: &[Error]);

    /// A step was made.
    fn step(&mut self, report: &StepReport);

    /// The averaged model was judged.
    fn evaluation(&mut self, record: &EvaluationRecord);

    /// A checkpoint was published.
    fn checkpoint(&mut self, step: u64);
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All steps were made.
    Finished,
    /// It was asked to stop after this step, and can be resumed from there.
    Stopped(u64),
}

/// Trains to the last step, or until `stop` is set; then the step is finished and a checkpoint
/// written. The same call on the same folder resumes.
///
/// # Errors
/// If a step fails, or the folder refuses. The newest checkpoint is whole in every case.
pub fn train(
    training: &mut dyn TrainingLoop,
    folder: &mut RunFolder,
    settings: &TrainingSettings,
    stop: &AtomicBool,
    watch: &mut dyn Watch,
) -> Result<Ending> {
    let begun = Instant::now();
    let (resumed, refused) = folder.resume(|path| load(training, path))?;
    watch.begin(resumed, &refused);
    let mut saved = resumed.unwrap_or(0);
    let steps = settings.steps;
    if training.completed() < steps {
        folder.remove_retrievers()?;
    }
    while training.completed() < steps && !stop.load(Ordering::Relaxed) {
        let report = training.step()?;
        let step = training.completed();
        let is_due = |every: u64| every > 0 && (step.is_multiple_of(every) || step == steps);
        if is_due(settings.log_every) {
            folder.log(&Record::Step(report.step.clone()))?;
        }
        for retriever in &report.retrievers {
            folder.log(&Record::Retriever(Box::new(retriever.clone())))?;
        }
        watch.step(&report);
        // All records of a step precede its checkpoint, so that going on from it repeats none.
        if is_due(settings.evaluate_every) {
            let record = training.evaluate()?;
            folder.log(&Record::Evaluation(record.clone()))?;
            watch.evaluation(&record);
        }
        if is_due(settings.checkpoint_every) {
            publish(training, folder, begun, watch)?;
            saved = step;
        }
    }
    if training.completed() > saved {
        publish(training, folder, begun, watch)?;
    }
    match training.completed() {
        step if step < steps => Ok(Ending::Stopped(step)),
        _ => Ok(Ending::Finished),
    }
}

fn publish(
    training: &dyn TrainingLoop,
    folder: &mut RunFolder,
    begun: Instant,
    watch: &mut dyn Watch,
) -> Result<()> {
    let step = training.completed();
    folder.checkpoint(step, begun.elapsed().as_secs_f64(), |path| training.save(path))?;
    watch.checkpoint(step);
    Ok(())
}

/// Loads a checkpoint and checks that it is of the step that its name says.
fn load(training: &mut dyn TrainingLoop, path: &Path) -> Result<()> {
    training.load(path)?;
    let found = training.completed();
    if path.ends_with(crate::run_folder::checkpoint_name(found)) {
        return Ok(());
    }
    Err(Error::Corrupt { path: path.into(), reason: format!("it holds step {found}") })
}
