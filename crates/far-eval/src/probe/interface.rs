//! What a probe is: a question beside the quality of frames, which an evaluation asks of every arm.

use crate::arm::Arm;
use crate::encoded_clip::EncodedClip;
use crate::evaluation::EvaluationContext;
use crate::frame_quality::Truth;
use crate::probe::Measured;
use crate::{KeptFile, Result};
use far_data::Picture;
use far_memory::Recall;
use far_model::Query;

/// Clips that are evaluated together.
pub struct ClipGroup {
    /// The number of the first among all clips.
    pub first: usize,
    /// The clips.
    pub clips: Vec<EncodedClip>,
}

/// What one arm recalled, and perhaps generated, in one clip.
#[derive(Clone, Copy)]
pub struct Observed<'a> {
    /// The arm.
    pub arm: &'a Arm,
    /// The clip.
    pub clip: &'a EncodedClip,
    /// The clip's place in its group.
    pub place: usize,
    /// The clip's number among all clips: the row of its values.
    pub row: usize,
    /// From which frame to which each prediction leads.
    pub queries: &'a [Query],
    /// What was recalled for each.
    pub recalls: &'a [Recall],
    /// The generated pictures of a rollout, one per query; `None` for single queries, whose
    /// pictures are not kept.
    pub pictures: Option<&'a [Picture]>,
}

/// One probe of an evaluation. All functions but [`Probe::finish`] do nothing unless a probe says
/// otherwise.
///
/// An evaluation calls [`Probe::begin`] once. Then, for each group of clips: [`Probe::observe`] for
/// the single questions of every arm, [`Probe::prepare`], [`Probe::observe`] for the rollouts of every
/// arm, [`Probe::ask`]. Last come [`Probe::finish`] and [`Probe::kept`]. A corpus without the signals
/// that a probe needs has no such metric: the probe then measures nothing, which is no error.
pub trait Probe {
    /// Before the first group. Returns how many passes of a world model the probe's own questions
    /// will take, so that the progress is right (see [`Cost`](crate::Cost)); a probe that returns passes here
    /// reports them with [`EvaluationContext::advance`].
    ///
    /// # Errors
    /// If the dataset cannot be read.
    fn begin(&mut self, _context: &EvaluationContext<'_>) -> Result<u64> {
        Ok(0)
    }

    /// Before the rollouts of a group: `truths` has the true frames of each clip's rollout. Not
    /// called where there are no rollouts, or the tokenizer cannot decode.
    ///
    /// # Errors
    /// If the dataset cannot be read.
    fn prepare(
        &mut self,
        _context: &EvaluationContext<'_>,
        _group: &ClipGroup,
        _truths: &[Vec<Truth>],
    ) -> Result<()> {
        Ok(())
    }

    /// What an arm did in a clip: once for its single questions, once for its rollout.
    ///
    /// # Errors
    /// If a metric refuses a picture.
    fn observe(&mut self, _context: &EvaluationContext<'_>, _seen: &Observed<'_>) -> Result<()> {
        Ok(())
    }

    /// After everything else of a group: questions of the probe's own, put to
    /// [`EvaluationContext::predictors`].
    ///
    /// # Errors
    /// If a policy or a world model refuses its input.
    fn ask(&mut self, _context: &EvaluationContext<'_>, _group: &ClipGroup) -> Result<()> {
        Ok(())
    }

    /// After the last group: what was measured, in the order in which tables show it.
    ///
    /// # Errors
    /// If a policy or a world model refuses its input.
    fn finish(&mut self, context: &EvaluationContext<'_>) -> Result<Vec<Measured>>;

    /// Files to look at later, kept in the folder of the results.
    fn kept(&mut self) -> Vec<KeptFile> {
        Vec::new()
    }
}
