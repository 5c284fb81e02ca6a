//! Utilities of single memories for one question relative to the mean of the pool, as replays show them.

use crate::prediction::Ask;
use crate::utility::{Draw, UtilityMeter};
use crate::{EvaluationPlan, Result};

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
        let utilities = meter.singles(ask, &frames, Draw::Judge)?;
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

    /// The mean over frames, all of which were measured.
    fn mean(&self, frames: impl ExactSizeIterator<Item = usize>) -> f64 {
        let count = frames.len() as f64;
        frames.filter_map(|frame| self.gain(frame)).sum::<f64>() / count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UtilityConfig;
    use crate::testing::{Copier, clips, plan, road};

    /// By hand: utilities of the copier are minus squared distances of colors.
    #[test]
    fn gains_are_differences_to_the_mean_of_evenly_spaced_memories() {
        let (_folder, dataset) = road(&[21], None);
        let clips = clips(&dataset);
        let (clip, copier) = (&clips[0], Copier::new());
        let utility = UtilityConfig { candidates: 8, ..UtilityConfig::default() };
        let plan = EvaluationPlan { utility, ..plan() };
        let ask = Ask::recorded(clip, clip.query(43, 50));
        let meter = UtilityMeter::new(&copier, &plan);
        let measured = PoolUtility::measure(&meter, &plan, &ask, [29, 7].into_iter()).unwrap();
        let utility = |frame: usize| {
            let pair = clip.episode().latent(frame).iter().zip(clip.episode().latent(50));
            -f64::from(pair.map(|(a, b)| (a - b) * (a - b)).sum::<f32>())
        };
        let random = (0..8).map(|place| utility(5 * place)).sum::<f64>() / 8.0;
        for frame in [0, 7, 29, 35] {
            let gain = measured.gain(frame).unwrap();
            assert!((gain - (utility(frame) - random)).abs() < 1e-4, "{frame}: {gain}");
        }
        assert_eq!(measured.gain(1), None);
    }
}
