//! WorldMem, as released: residual greedy coverage with a penalty for age.

use super::rule::{Rule, Scene, Work};
use super::view::{ViewConfig, check_weight};
use crate::Error;

crate::settings! {
    /// U = the sample points that any target pose sees, V = those a memory sees. Each of K rounds takes
    /// the memory with the greatest |U ∩ V| / |U| − w·(t − tᵢ)/t and then removes V from U.
    /// Source: the released code of WorldMem (Xiao et al., 2025), 8 slots.
    ///
    /// Differences: sample points are drawn once from a seed, not at every call; when U is empty the
    /// overlap is 0 (released: 0/0), so that the rest is filled by recency; `t` is the time since the
    /// oldest memory of the pool (released: the frame index); one convention of pitch throughout
    /// (released: mirrored in the visibility test); too few memories are not padded with the first.
    pub struct WorldMemConfig {
        /// Field of view and sample points; set them for the dataset.
        pub view: ViewConfig = ViewConfig::default(),
        /// Weight of age (WorldMem: 0.2). It is relative to the pool's time span, so the same age counts
        /// less in longer episodes.
        pub time_weight: f32 = 0.2,
    }
}

impl Rule for WorldMemConfig {
    fn check(&self) -> Result<(), Error> {
        check_weight("time_weight", self.time_weight)
    }

    fn view(&self) -> Option<&ViewConfig> {
        Some(&self.view)
    }

    fn select(&self, scene: &Scene, work: &mut Work) -> Result<(), Error> {
        work.coverage.survey(scene.ball, &self.view, scene.targets(), scene.candidates);
        work.scores.clear();
        let ages = scene.candidates.iter().map(|candidate| scene.age(candidate));
        work.scores.extend(ages.map(|age| self.time_weight * age));
        work.coverage.greedy(&work.scores, |_| true, scene.slots, &mut work.picks);
        for pick in &work.picks {
            let overlap = pick.score + work.scores[pick.position];
            work.terms.extend([overlap, scene.age(&scene.candidates[pick.position])]);
        }
        Ok(())
    }

    fn terms(&self) -> Vec<(&'static str, f32)> {
        vec![("overlap", 1.0), ("age", -self.time_weight)]
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Episode, episodes};
    use super::super::view::sees_reference;
    use super::*;
    use crate::selection::Ranked;
    use proptest::prelude::*;

    /// The rule in plain loops, with nothing shared between candidates.
    fn reference(rule: &WorldMemConfig, episode: &Episode, slots: usize) -> Vec<Ranked> {
        let view = &rule.view;
        let ball = view.ball().expect("valid");
        let origin = episode.horizon()[0].position;
        let mut remaining: Vec<[f32; 3]> = (0..ball.len())
            .map(|index| ball.point(index))
            .filter(|&point| {
                episode.horizon().iter().any(|pose| sees_reference(view, pose, origin, point))
            })
            .collect();
        let span = (episode.now() - episode.candidates()[0].time) as f32;
        let mut picks: Vec<Ranked> = Vec::new();
        while picks.len() < slots.min(episode.len()) {
            let mut best = Ranked { score: f32::NEG_INFINITY, position: 0 };
            for (position, candidate) in episode.candidates().iter().enumerate() {
                if picks.iter().any(|pick| pick.position == position) {
                    continue;
                }
                let seen =
                    |point: &&[f32; 3]| sees_reference(view, &candidate.pose, origin, **point);
                let shared = remaining.iter().filter(seen).count();
                let overlap =
                    if remaining.is_empty() { 0.0 } else { shared as f32 / remaining.len() as f32 };
                let age = (episode.now() - candidate.time) as f32 / span;
                let score = overlap - rule.time_weight * age;
                if (score, position) > (best.score, best.position) {
                    best = Ranked { score, position };
                }
            }
            let pose = episode.candidates()[best.position].pose;
            remaining.retain(|&point| !sees_reference(view, &pose, origin, point));
            picks.push(best);
        }
        picks
    }

    #[test]
    fn a_second_pick_covers_what_the_first_left_open() {
        use crate::Pose;
        let look = |degrees: f32| Pose::from_yaw_pitch([0.0; 3], degrees.to_radians(), 0.0);
        // The goal sees −52° to 52°. The record at −40° covers most of it; of the others, the one
        // at 60° covers less than the copy at −40° but more of what is left.
        let records = [-40.0, -41.0, 60.0].map(|degrees| (look(degrees), None));
        let episode = Episode::new(&records, &[look(0.0)]);
        let rule = WorldMemConfig { time_weight: 0.0, ..Default::default() };
        assert_eq!(episode.chosen(&rule, 2), [0, 2]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn agrees_with_plain_loops(episode in episodes(), slots in 1usize..10) {
            let view = ViewConfig { points: 700, radius: 9.0, ..Default::default() };
            let rule = WorldMemConfig { view, ..Default::default() };
            prop_assert_eq!(episode.picks(&rule, slots), reference(&rule, &episode, slots));
        }
    }
}
