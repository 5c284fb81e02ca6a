//! How well memories are recalled: arms compared on equal terms, with intervals and pages to look
//! at.
//!
//! An [`Evaluation`] takes a dataset, a world model that judges, and [`Arm`]s that recall for it; it
//! gives [`Results`] with paired differences, and [`Replay`]s. Its parts can be used alone:
//!
//! | what | type |
//! |---|---|
//! | one prediction: recall, then generate | [`Predictor`] |
//! | the return generated frame by frame | [`Rollout`] |
//! | predictions from real frames | [`one_step_psnr`] |
//! | utility of memories, alone and together | [`UtilityMeter`], [`PoolUtility`] |
//! | the best that could be recalled | [`GreedyOracle`] |
//! | recall quality | [`RecallJudgment`] |
//! | closeness of frames | [`FrameQuality`] |
//! | a question of one's own | [`Probe`], [`Measured`] |
//! | scores of several seeds, merged | [`Scores`], [`merge`] |
//! | what it all costs | [`Cost`] |
//!
//! All arms get the same clips, questions, memories, slots and noise; random numbers come from streams
//! named by seed, purpose and place, so that no arm shifts those of another.

mod arm;
mod bootstrap;
mod cost;
mod encoded_clip;
mod error;
mod evaluation;
mod frame_quality;
mod one_step;
mod oracle;
mod plan;
mod pool_utility;
mod prediction;
mod probe;
mod recall_quality;
mod replay;
mod report;
mod results;
mod rollout;
mod scores;
mod spectrogram;
mod state_thread;
mod tally;
#[cfg(test)]
mod testing;
mod utility;

pub use arm::{Arm, ArmDescription, Choice, Control, Role};
pub use bootstrap::Interval;
pub use cost::Cost;
pub use encoded_clip::EncodedClip;
pub use error::{Error, Result};
pub use evaluation::{Evaluation, EvaluationContext, Progress};
pub use frame_quality::{Distance, FRAME_METRICS, FrameQuality, FrameValues, Perceptual, Truth};
pub use one_step::one_step_psnr;
pub use oracle::{GreedyOracle, OracleChoice};
pub use plan::{EvaluationPlan, UtilityConfig};
pub use pool_utility::PoolUtility;
pub use prediction::{Ask, Imagined, Predictor};
pub use probe::{
    BothEndsView, ClipGroup, CounterfactualAnswer, CounterfactualView, EndAnswer, EndView,
    Measured, Observed, Probe, Probes, Sight,
};
pub use recall_quality::RecallJudgment;
pub use report::{
    Better, Cell, Headline, Kept, KeptFile, Metric, MetricTable, PairedCell, PairedRow, ReportRun,
    Row, Series, ShownArm, Spread, TrainedPart, Training, TrainingLog, Verdict, event_file,
    markdown, report_page, summary,
};
pub use results::{
    ArmResults, Curve, KEPT_FOLDERS, RecalledFrame, Replay, ReplayStep, Results, Shown,
};
pub use rollout::Rollout;
pub use scores::{Protocol, SCORES_FOLDER, Scores, keep_shared_metrics, merge};
pub use tally::MeasuredArm;
pub use utility::{Draw, UtilityMeter};
