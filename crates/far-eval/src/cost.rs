//! What an evaluation costs, in forward passes of a world model over one context.
//!
//! | what | passes |
//! |---|---|
//! | a generated frame | the sampler's steps; with the oracle also its choice |
//! | a choice of the oracle | draws × (candidates + half of them for each slot but the first) |
//! | a question | a choice, draws × (arms + random sets), and a generated frame for each arm |
//! | a step of a replay | candidates × draws |
//! | a counterfactual pair | two generated frames for each arm |
//!
//! `copy` and `tokenizer` generate nothing. A pass reads at most 2 + slots frames, with earlier views
//! 2 + 2 × slots. What is not known before is counted as if it took all of these: an oracle that stops
//! early takes less, memories and sets that arms recall beyond the candidates take at most
//! (slots + 1) × arms more for each choice.

use crate::arm::{Arm, Control};
use crate::plan::EvaluationPlan;
use crate::recall_quality::RANDOM_SETS;

/// Counts passes of a plan.
#[derive(Clone, Copy)]
pub struct Cost<'a> {
    /// What is measured.
    pub plan: &'a EvaluationPlan,
}

impl Cost<'_> {
    /// Passes to measure the candidates of a pool of this many memories once.
    pub fn utilities(&self, memories: usize) -> u64 {
        let utility = &self.plan.utility;
        (memories.min(utility.candidates) * utility.draws) as u64
    }

    /// Passes to generate one frame of an arm, its recall not counted.
    pub fn sampled(&self, arm: &Arm) -> u64 {
        let generates = !arm.is(Control::Copy) && !arm.is(Control::Tokenizer);
        if generates { self.plan.sampler.steps as u64 } else { 0 }
    }

    /// Passes for one frame of a rollout of an arm over a pool of this many memories.
    pub fn rollout_frame(&self, arm: &Arm, memories: usize) -> u64 {
        let recall = if arm.is(Control::Oracle) { self.choice(memories) } else { 0 };
        self.sampled(arm) + recall
    }

    /// Passes of the oracle to choose from a pool of this many memories.
    fn choice(&self, memories: usize) -> u64 {
        let utility = &self.plan.utility;
        let shortlist = memories.min(utility.shortlist()) * (self.plan.slots - 1);
        self.utilities(memories) + ((1 + shortlist) * utility.draws) as u64
    }

    /// Passes to judge the recall of all arms for one question over a pool of this many memories.
    pub fn judgment(&self, arms: &[Arm], memories: usize) -> u64 {
        let recalls = arms.iter().filter(|arm| arm.as_policy().is_some()).count();
        let sets = recalls + 1 + RANDOM_SETS.min((memories / self.plan.slots).max(1));
        self.choice(memories) + (sets * self.plan.utility.draws) as u64
    }

    /// Passes for both predictions of a counterfactual pair by all arms.
    pub fn pair(&self, arms: &[Arm], memories: usize) -> u64 {
        2 * self.rollouts(arms, memories, 1)
    }

    fn steps(&self, clip: &far_data::EvaluationClip) -> usize {
        (clip.frames.len() - 1).min(self.plan.steps.unwrap_or(usize::MAX))
    }

    /// Passes to measure what was recalled in the replay of a clip.
    pub fn replay(&self, clip: &far_data::EvaluationClip) -> u64 {
        self.steps(clip) as u64 * self.utilities(clip.memory.len())
    }

    /// Passes for rollouts of this many steps by all arms.
    pub fn rollouts(&self, arms: &[Arm], memories: usize, steps: usize) -> u64 {
        let frame: u64 = arms.iter().map(|arm| self.rollout_frame(arm, memories)).sum();
        steps as u64 * frame
    }

    /// Passes for everything that is asked of a clip, the replay not counted.
    pub fn clip(&self, arms: &[Arm], clip: &far_data::EvaluationClip, questions: usize) -> u64 {
        let memories = clip.memory.len();
        let steps = self.steps(clip);
        let sampled: u64 = arms.iter().map(|arm| self.sampled(arm)).sum();
        let question = self.judgment(arms, memories) + sampled;
        self.rollouts(arms, memories, steps) + questions as u64 * question
    }
}
