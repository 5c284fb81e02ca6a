//! The utility of single memories: how much better the world model predicts the true future when it
//! reads this memory and no other.

use crate::prediction::Ask;
use crate::{EvaluationPlan, Result};
use far_memory::policy::{OracleConfig, PolicyConfig, RuleConfig};
use far_memory::{Recall, Scratch};
use far_model::{Perturbations, Present, WorldModel};

/// Which perturbations of the future utilities are measured by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// Those that judge.
    Judge,
    /// Independent ones, by which the oracle chooses: judged by its own noise it would look better
    /// than it is.
    Oracle,
}

impl Draw {
    fn purpose(self) -> &'static str {
        match self {
            Self::Judge => "utility by which recall is judged",
            Self::Oracle => "utility by which the oracle recalls",
        }
    }
}

/// Measures utilities under one world model.
pub struct UtilityMeter<'a> {
    model: &'a dyn WorldModel,
    plan: &'a EvaluationPlan,
}

impl<'a> UtilityMeter<'a> {
    /// A meter with the plan's number of draws.
    pub fn new(model: &'a dyn WorldModel, plan: &'a EvaluationPlan) -> Self {
        Self { model, plan }
    }

    /// U of each candidate frame: −(1/S) Σ_s ‖f − y‖² over the E elements of the true future, with
    /// the candidate as the only memory of the context. In nats; only differences mean something. All candidates of a question meet the same
    /// perturbations, which come from the clip and the question alone. What else the model is taught
    /// counts as in training.
    ///
    /// # Errors
    /// If the world model refuses a context or a loss is not finite.
    pub fn utilities(&self, ask: &Ask<'_>, candidates: &[usize], draw: Draw) -> Result<Vec<f32>> {
        let (episode, query) = (ask.clip.episode(), &ask.query);
        let config = &self.plan.utility;
        let (elements, draws) = (self.model.shape().elements(), config.draws.max(1));
        let last = self.model.schedule().steps();
        let [first, end] = config.timesteps.map(|timestep| timestep.min(last));
        let purpose = format!("{} in episode {}", draw.purpose(), episode.id());
        let step = (query.now() as u64) << 32 | query.goal() as u64;
        let sizes = [1, draws, elements];
        let seed = self.plan.seed;
        let drawn = Perturbations::stratified(first..end, sizes, seed, &purpose, step);
        // The printed formula, whatever temperature training credits memories by.
        let meter = far_model::UtilityMeter { model: self.model, temperature: 1.0, weights: None };
        let present = Present { latent: ask.latent, ..query.recorded() };
        let mut utilities = Vec::with_capacity(candidates.len());
        for part in candidates.chunks(config.batch.max(1)) {
            let single = part.iter().map(|frame| vec![*frame]).collect();
            let mut measured = meter.measure(&[present], &[single], &drawn)?;
            utilities.append(&mut measured.values[0]);
        }
        Ok(utilities)
    }

    /// What the oracle recalls: chunked Top-K of the candidates by utilities of its own draw. Chunks
    /// count over the whole pool; what is no candidate is never chosen.
    ///
    /// # Errors
    /// As [`Self::utilities`].
    pub fn oracle(&self, ask: &Ask<'_>, candidates: &[usize]) -> Result<Recall> {
        let memory = ask.clip.episode().memory();
        let measured = self.utilities(ask, candidates, Draw::Oracle)?;
        let mut utilities = vec![f32::NEG_INFINITY; memory.len()];
        candidates.iter().zip(measured).for_each(|(frame, utility)| utilities[*frame] = utility);
        let rule = OracleConfig { utilities, chunk_size: Some(self.plan.utility.chunk) };
        let policy = PolicyConfig::from(RuleConfig::Oracle(rule)).build()?;
        let query = ask.clip.recall_query(&ask.query, self.plan.seed);
        let mut recall = Recall::new();
        policy.recall(memory, &query, self.plan.slots, &mut Scratch::new(), &mut recall)?;
        Ok(recall)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UtilityConfig;
    use crate::testing::{Copier, clips, plan, road};

    /// By hand, one candidate at a time: minus the squared distance of its color to the future's.
    #[test]
    fn utilities_are_the_printed_formula_whatever_the_batch() {
        let (_folder, dataset) = road(&[9], None);
        let clip = &clips(&dataset)[0];
        let ask = Ask::recorded(clip, clip.query(41, 45));
        let candidates: Vec<usize> = (0..23).collect();
        let squared = |frame: usize| {
            let (seen, future) = (clip.episode().latent(frame), clip.episode().latent(45));
            -seen.iter().zip(future).map(|(a, b)| (a - b) * (a - b)).sum::<f32>()
        };
        for batch in [1, 7, 64] {
            let utility = UtilityConfig { batch, ..UtilityConfig::default() };
            let plan = EvaluationPlan { utility, ..plan() };
            let copier = Copier::new();
            let meter = UtilityMeter::new(&copier, &plan);
            let found = meter.utilities(&ask, &candidates, Draw::Judge).unwrap();
            for (frame, utility) in candidates.iter().zip(found) {
                assert!((utility - squared(*frame)).abs() < 1e-5);
            }
            // Every part of a question meets the same perturbations.
            let seen = copier.timesteps.into_inner().unwrap();
            assert!(seen.iter().all(|timesteps| *timesteps == seen[0]));
        }
    }

    #[test]
    fn the_oracle_draws_noise_of_its_own() {
        let (_folder, dataset) = road(&[9], None);
        let clip = &clips(&dataset)[0];
        let ask = |goal| Ask::recorded(clip, clip.query(41, goal));
        let (copier, plan) = (Copier::new(), plan());
        let meter = UtilityMeter::new(&copier, &plan);
        for (goal, draw) in [(45, Draw::Judge), (45, Draw::Oracle), (46, Draw::Judge)] {
            meter.utilities(&ask(goal), &[0], draw).unwrap();
        }
        let seen = copier.timesteps.into_inner().unwrap();
        assert!(seen[0] != seen[1] && seen[0] != seen[2] && seen[1] != seen[2]);
    }
}
