//! The utility of memories: how much better the world model predicts the true future when it reads them.

use crate::oracle::GreedyOracle;
use crate::prediction::Ask;
use crate::{EvaluationPlan, Result};
use far_memory::{MemoryId, Recall};
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

    /// The utility of each candidate frame as the only memory of the context.
    ///
    /// # Errors
    /// As [`Self::sets`].
    pub fn singles(&self, ask: &Ask<'_>, candidates: &[usize], draw: Draw) -> Result<Vec<f32>> {
        let sets: Vec<Vec<usize>> = candidates.iter().map(|frame| vec![*frame]).collect();
        self.sets(ask, &sets, draw)
    }

    /// The utility of each set of frames as it is read, whole: −(1/S) Σ_s ‖f − y‖² over the E elements
    /// of the true future, with these memories in the context and no others. In nats; only
    /// differences mean something: U(S) = utility(S) − utility(∅) is what the set lowers the loss by.
    /// All sets of a question meet the same perturbations, which come from the clip and the question
    /// alone. What else the model is taught counts as in training.
    ///
    /// # Errors
    /// If the world model refuses a context or a loss is not finite.
    pub fn sets(&self, ask: &Ask<'_>, sets: &[Vec<usize>], draw: Draw) -> Result<Vec<f32>> {
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
        let mut utilities = Vec::with_capacity(sets.len());
        for part in sets.chunks(config.batch.max(1)) {
            let mut measured = meter.measure(&[present], &[part.to_vec()], &drawn)?;
            utilities.append(&mut measured.values[0]);
        }
        Ok(utilities)
    }

    /// What the oracle recalls of the candidates and the sets that arms recalled, by utilities of its
    /// own draw. Scores are what each memory added.
    ///
    /// # Errors
    /// As [`Self::sets`].
    pub fn oracle(
        &self,
        ask: &Ask<'_>,
        candidates: &[usize],
        rivals: &[Vec<usize>],
    ) -> Result<Recall> {
        let (slots, shortlist) = (self.plan.slots, self.plan.utility.shortlist());
        let oracle = GreedyOracle { slots, shortlist };
        let chosen =
            oracle.choose(candidates, rivals, |sets| self.sets(ask, sets, Draw::Oracle))?;
        let mut recall = Recall::new();
        for (frame, added) in chosen.frames.iter().zip(chosen.added) {
            recall.push(MemoryId::from(*frame), added, None, &[], &[]);
        }
        Ok(recall)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Copier, arms, clips, plan, road};
    use crate::{Predictor, UtilityConfig};
    use far_model::{ContextBuilder, Future, Futures};

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
            let found = meter.singles(&ask, &candidates, Draw::Judge).unwrap();
            for (frame, utility) in candidates.iter().zip(found) {
                assert!((utility - squared(*frame)).abs() < 1e-5);
            }
            // Every part of a question meets the same perturbations.
            let seen = copier.timesteps.into_inner().unwrap();
            assert!(seen.iter().all(|timesteps| *timesteps == seen[0]));
        }
    }

    /// The copier reads the memory nearest the goal, so a set is worth what that one is, and the
    /// members alone are worth less.
    #[test]
    fn a_set_is_measured_as_it_is_read_and_not_by_its_members() {
        let (_folder, dataset) = road(&[9], None);
        let clip = &clips(&dataset)[0];
        let ask = Ask::recorded(clip, clip.query(41, 45));
        let (copier, plan) = (Copier::new(), plan());
        let meter = UtilityMeter::new(&copier, &plan);
        let sets = [vec![], vec![2], vec![34], vec![2, 34], vec![34, 2, 9]];
        let found = meter.sets(&ask, &sets, Draw::Judge).unwrap();
        // Directly, one context at a time.
        for (set, found) in sets.iter().zip(&found) {
            let mut context = ContextBuilder::new(&copier, 3);
            context.add(ask.query.recorded(), set.iter().copied()).unwrap();
            let futures: Futures = std::iter::once(Future::of(&ask.query)).collect();
            let drawn = Perturbations { draws: 1, timesteps: vec![0], noise: vec![0.0; 3] };
            let loss = copier.losses(&context.build(), &futures, &drawn, None).unwrap()[0];
            assert!((found + 3.0 * loss).abs() < 1e-5, "{set:?}: {found} {loss}");
        }
        // Frame 45 shows the place of frame 34.
        assert!(found[2] == 0.0 && found[3] == found[2] && found[4] == found[2]);
        assert!(found[1] < 0.0 && found[0] < 0.0);
    }

    #[test]
    fn the_oracle_is_worth_as_much_as_any_set_on_its_own_draw() {
        let (_folder, dataset) = road(&[21, 25], None);
        let (copier, plan) = (Copier::new(), plan());
        let rules = arms(&["nearest-pose", "temporal", "random", "worldmem", "car-closest"]);
        for clip in &clips(&dataset) {
            for query in clip.queries(&plan) {
                let ask = Ask::recorded(clip, query);
                let sets: Vec<Vec<usize>> = rules
                    .iter()
                    .map(|arm| {
                        let encoders = dataset.encoders();
                        let predictor = Predictor::new(arm, &rules, &copier, encoders, &plan);
                        let recalled = predictor.unwrap().recall(std::slice::from_ref(&ask));
                        recalled.unwrap()[0].indices().collect()
                    })
                    .collect();
                let meter = UtilityMeter::new(&copier, &plan);
                let oracle = meter.oracle(&ask, &clip.candidates(8), &sets).unwrap();
                let oracle: Vec<usize> = oracle.indices().collect();
                let worth = meter.sets(&ask, &sets, Draw::Oracle).unwrap();
                let own = meter.sets(&ask, &[oracle, vec![]], Draw::Oracle).unwrap();
                assert!(worth.iter().all(|worth| own[0] >= *worth), "{own:?} {worth:?}");
                assert!(own[0] >= own[1]);
            }
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
            meter.singles(&ask(goal), &[0], draw).unwrap();
        }
        let seen = copier.timesteps.into_inner().unwrap();
        assert!(seen[0] != seen[1] && seen[0] != seen[2] && seen[1] != seen[2]);
    }
}
