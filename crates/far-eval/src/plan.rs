//! How an evaluation is made.

use crate::{Error, Result};
use far_model::DdimConfig;

far_memory::settings! {
    /// What every arm gets alike.
    pub struct EvaluationPlan {
        /// How an episode is walked: frames between two generated ones, and the most memories.
        pub walk: far_data::EvaluationConfig = far_data::EvaluationConfig::default(),
        /// Memories per recall (paper: 11 at evaluation, 3 in training).
        pub slots: usize = 3,
        /// How futures are sampled.
        pub sampler: DdimConfig = DdimConfig::default(),
        /// The most clips, evenly spread over the episodes; all if absent.
        pub clips: Option<usize> = None,
        /// The most generated frames per clip: the whole return if absent, no rollouts at all if 0. A
        /// rollout that is cut short never arrives, so it has no value at loop closure.
        pub steps: Option<usize> = None,
        /// Questions per clip for one-step prediction and recall quality, evenly spaced over the return.
        pub questions: usize = 4,
        /// The most frames from the present to the goal of a question, as in training.
        pub horizon: usize = 32,
        /// How the utility of memories is measured.
        pub utility: UtilityConfig = UtilityConfig::default(),
        /// How many clips are kept for the report.
        pub replays: usize = 3,
        /// Clips that advance together: decides memory and speed, not what is asked.
        pub batch: usize = 16,
        /// Seed of noise, questions and intervals.
        pub seed: u64 = 0,
    }
}

impl EvaluationPlan {
    /// Checks what does not depend on a dataset or a world model.
    ///
    /// # Errors
    /// If a setting that must be positive is 0, or the timesteps of utilities do not ascend.
    pub fn check(&self) -> Result<()> {
        let counts = [
            ("slots", self.slots),
            ("horizon", self.horizon),
            ("batch", self.batch),
            ("clips", self.clips.unwrap_or(1)),
            ("sampler.steps", self.sampler.steps),
            ("utility.draws", self.utility.draws),
            ("utility.candidates", self.utility.candidates),
            ("utility.batch", self.utility.batch),
        ];
        let wrong = |setting: &str, reason: String| {
            Err(Error::Setting { setting: setting.to_owned(), reason })
        };
        if let Some((setting, _)) = counts.iter().find(|(_, count)| *count == 0) {
            return wrong(setting, "must be at least 1".to_owned());
        }
        let [first, end] = self.utility.timesteps;
        if end < first + self.utility.draws {
            let reason = format!("{first}..{end} has fewer steps than there are draws");
            return wrong("utility.timesteps", reason);
        }
        Ok(())
    }
}

far_memory::settings! {
    /// How the utility of memories is measured at evaluation.
    #[derive(Copy)]
    pub struct UtilityConfig {
        /// Perturbations S of the future, from as many equal parts of `timesteps` (paper: 4).
        pub draws: usize = 4,
        /// The first step of the noise schedule that is drawn and the one after the last.
        pub timesteps: [usize; 2] = [0, 1000],
        /// The most memories of the pool that the oracle chooses among, evenly spaced; what any arm
        /// recalls competes besides.
        pub candidates: usize = 60,
        /// Memories measured together: decides memory and speed, not what is asked.
        pub batch: usize = 64,
    }
}

impl UtilityConfig {
    /// How many candidates the oracle tries from its second slot on.
    pub(crate) fn shortlist(&self) -> usize {
        self.candidates.div_ceil(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_that_asks_for_nothing_is_refused_by_name() {
        assert!(EvaluationPlan::default().check().is_ok());
        let refused = |plan: EvaluationPlan| plan.check().unwrap_err().to_string();
        let plan = EvaluationPlan { slots: 0, ..EvaluationPlan::default() };
        assert_eq!(refused(plan), "slots: must be at least 1");
        let utility = UtilityConfig { timesteps: [700, 100], ..UtilityConfig::default() };
        let plan = EvaluationPlan { utility, ..EvaluationPlan::default() };
        assert!(refused(plan).contains("700..100"));
    }
}
