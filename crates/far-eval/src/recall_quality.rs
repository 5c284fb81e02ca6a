//! How good recalled memories are for the world model that reads them.
//!
//! recall_quality = (U(recalled) − U(random)) / (U(oracle) − U(random)), a ratio of means over
//! questions: 1 is the oracle, 0 is chance. U of a set is the mean utility of its memories, each
//! measured alone (see [`UtilityMeter::utilities`]). U(random) is the mean of the pool. The oracle is
//! chunked Top-K by utility on an independent draw of noise, then judged by the same draw as
//! everybody: chosen and judged by one draw it would profit from that draw's accidents.
//!
//! Measuring a whole pool is dear, so evenly spaced candidates stand for it. What any arm recalled is
//! measured besides and may be chosen by the oracle, but does not count into the mean of the pool,
//! which would no longer be chance's.

use crate::prediction::Ask;
use crate::utility::{Draw, UtilityMeter};
use crate::{EvaluationPlan, Result};
use far_memory::Recall;

/// Utilities of memories for one question, as differences to the mean of the pool.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolUtility {
    frames: Vec<usize>,
    gains: Vec<f64>,
}

impl PoolUtility {
    /// Measures evenly spaced candidates and, besides, these frames.
    ///
    /// # Errors
    /// If the world model refuses a context.
    pub fn measure(
        meter: &UtilityMeter<'_>,
        plan: &EvaluationPlan,
        ask: &Ask<'_>,
        besides: impl Iterator<Item = usize>,
    ) -> Result<Self> {
        let frames = ask.clip.candidates_and(plan.utility.candidates, besides);
        let utilities = meter.utilities(ask, &frames, Draw::Judge)?;
        let gains = utilities.into_iter().map(f64::from).collect();
        let mut measured = Self { frames, gains };
        let spread = ask.clip.candidates(plan.utility.candidates);
        let random = measured.mean(spread.into_iter());
        measured.gains.iter_mut().for_each(|gain| *gain -= random);
        Ok(measured)
    }

    /// The frames that were measured, ascending.
    pub fn frames(&self) -> &[usize] {
        &self.frames
    }

    /// U(frame) − U(random) in nats; `None` if it was not measured.
    pub fn gain(&self, frame: usize) -> Option<f64> {
        self.frames.binary_search(&frame).ok().map(|place| self.gains[place])
    }

    /// U(recalled) − U(random), in nats. A recall of nothing counts as chance, 0: it neither helps
    /// nor misleads.
    pub fn set_gain(&self, recall: &Recall) -> f64 {
        if recall.is_empty() { 0.0 } else { self.mean(recall.ids().map(|id| id.index())) }
    }

    /// The mean over frames, all of which were measured.
    fn mean(&self, frames: impl ExactSizeIterator<Item = usize>) -> f64 {
        let count = frames.len() as f64;
        frames.filter_map(|frame| self.gain(frame)).sum::<f64>() / count
    }
}

/// One question judged.
#[derive(Clone, Debug, PartialEq)]
pub struct RecallJudgment {
    /// What the oracle recalled.
    pub oracle: Recall,
    /// U(oracle) − U(random), in nats.
    pub oracle_gain: f64,
    /// U(recalled) − U(random) of each recall that was judged, in nats.
    pub gains: Vec<f64>,
}

impl RecallJudgment {
    /// Judges recalls of the same question.
    ///
    /// Takes 2·S passes of the world model for each candidate and each further recalled memory.
    ///
    /// # Errors
    /// If the world model refuses a context.
    pub fn new(
        meter: &UtilityMeter<'_>,
        plan: &EvaluationPlan,
        ask: &Ask<'_>,
        recalls: &[&Recall],
    ) -> Result<Self> {
        let recalled = recalls.iter().flat_map(|recall| recall.ids().map(|id| id.index()));
        let measured = PoolUtility::measure(meter, plan, ask, recalled)?;
        let oracle = meter.oracle(ask, measured.frames())?;
        let gains = recalls.iter().map(|recall| measured.set_gain(recall)).collect();
        Ok(Self { oracle_gain: measured.set_gain(&oracle), oracle, gains })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prediction::Predictor;
    use crate::testing::{Copier, EXPLORED, arms, clips, plan, road};
    use crate::{Arm, UtilityConfig};

    /// Everything by hand: utilities of the copier are minus squared distances of colors.
    #[test]
    fn the_gains_are_differences_of_mean_utilities() {
        let (_folder, dataset) = road(&[21], None);
        let clips = clips(&dataset);
        let (clip, copier) = (&clips[0], Copier::new());
        let utility = UtilityConfig { candidates: 8, ..UtilityConfig::default() };
        let plan = EvaluationPlan { utility, ..plan() };
        let episode = clip.episode();
        let ask = Ask::recorded(clip, clip.query(43, 50));
        let arms: Vec<Arm> = arms(&["temporal", "nearest-pose", "none"]);
        let recalls: Vec<Recall> = arms
            .iter()
            .map(|arm| {
                let encoders = dataset.encoders();
                let predictor = Predictor::new(arm, &arms, &copier, encoders, &plan).unwrap();
                predictor.recall(std::slice::from_ref(&ask)).unwrap().remove(0)
            })
            .collect();
        let meter = UtilityMeter::new(&copier, &plan);
        let references: Vec<&Recall> = recalls.iter().collect();
        let judged = RecallJudgment::new(&meter, &plan, &ask, &references).unwrap();

        let utility = |frame: usize| {
            let pair = episode.latent(frame).iter().zip(episode.latent(50));
            -f64::from(pair.map(|(a, b)| (a - b) * (a - b)).sum::<f32>())
        };
        let mean = |frames: &[usize]| {
            frames.iter().map(|frame| utility(*frame)).sum::<f64>() / frames.len() as f64
        };
        let random = mean(&[0, 5, 10, 15, 20, 25, 30, 35]);
        let temporal = mean(&[EXPLORED - 3, EXPLORED - 2, EXPLORED - 1]) - random;
        assert!((judged.gains[0] - temporal).abs() < 1e-4, "{} {temporal}", judged.gains[0]);
        // Frame 50 shows the place of frame 29; the nearest three are around it.
        let nearest = mean(&[28, 29, 30]) - random;
        assert!((judged.gains[1] - nearest).abs() < 1e-4, "{} {nearest}", judged.gains[1]);
        assert_eq!(judged.gains[2], 0.0);
        assert!(judged.oracle.ids().any(|id| id.index() == 29), "the place itself is best");
        assert!(judged.gains[1] > judged.gains[0]);
    }

    /// Chosen by utility and judged by another draw, the oracle takes one memory per chunk.
    #[test]
    fn the_oracle_takes_one_memory_of_each_chunk() {
        let (_folder, dataset) = road(&[21], None);
        let clips = clips(&dataset);
        let (copier, plan) = (Copier::new(), plan());
        let ask = Ask::recorded(&clips[0], clips[0].query(43, 50));
        let meter = UtilityMeter::new(&copier, &plan);
        let judged = RecallJudgment::new(&meter, &plan, &ask, &[]).unwrap();
        let chunks: Vec<usize> = judged.oracle.ids().map(|id| id.index() / 10).collect();
        assert_eq!(chunks.len(), 3);
        assert!(chunks.iter().enumerate().all(|(place, chunk)| !chunks[..place].contains(chunk)));
        assert!(judged.oracle_gain > 0.0);
    }
}
