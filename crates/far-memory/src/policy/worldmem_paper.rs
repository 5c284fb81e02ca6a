//! WorldMem, as written: overlap minus age, then a cut by similarity.

use super::requirement::{KeyCues, Requirements};
use super::rule::{Rule, Scene, Work};
use super::view::{ViewConfig, check_weight};
use crate::Error;
use crate::scratch::refill;

crate::settings! {
    /// Score = w_o·o − w_t·|t − tᵢ|/t, where o is the share of all sample points that both a target and
    /// the memory see. Takes the best, discards every memory whose key is more similar to it than
    /// the cut, and repeats. Source: Algorithms 1 and 2 of the WorldMem paper (Xiao et al., 2025),
    /// 8 slots.
    ///
    /// Differences: similarity is the cosine of two stored keys (the paper compares latents); a memory
    /// without a key is similar to none; `t` is the time since the oldest memory of the pool. Fewer
    /// than K are recalled when the cut leaves no more.
    pub struct WorldMemPaperConfig {
        /// Field of view and sample points; set them for the dataset.
        pub view: ViewConfig = ViewConfig::default(),
        /// Weight of overlap (WorldMem: 1).
        pub overlap_weight: f32 = 1.0,
        /// Weight of age (WorldMem: 0.2).
        pub time_weight: f32 = 0.2,
        /// Cosine above which a memory repeats one already taken (WorldMem: 0.9).
        pub similarity_cut: f32 = 0.9,
        /// The cue whose keys are compared; the memory's first key cue if absent.
        pub cue: Option<String> = None,
    }
}

impl Rule for WorldMemPaperConfig {
    fn check(&self) -> Result<(), Error> {
        check_weight("overlap_weight", self.overlap_weight)?;
        check_weight("time_weight", self.time_weight)
    }

    fn requirements(&self) -> Requirements {
        Requirements { keys: KeyCues::setting(self.cue.as_ref()), ..Requirements::views() }
    }

    fn view(&self) -> Option<&ViewConfig> {
        Some(&self.view)
    }

    fn select(&self, scene: &Scene, work: &mut Work) -> Result<(), Error> {
        let cue = scene.key_cue(self.cue.as_deref())?;
        work.coverage.survey(scene.ball, &self.view, scene.targets(), scene.candidates);
        work.scores.clear();
        let counts = work.coverage.counts().iter().zip(scene.candidates);
        work.scores.extend(counts.map(|(&count, candidate)| {
            let overlap = count as f32 / scene.ball.len() as f32;
            self.overlap_weight * overlap - self.time_weight * scene.age(candidate).abs()
        }));
        while work.picks.len() < scene.slots {
            let before = work.picks.len();
            work.top(1);
            let Some(pick) = work.picks.get(before) else { break };
            let position = pick.position;
            work.scores[position] = f32::NEG_INFINITY;
            if let Some(key) = scene.key(cue, &scene.candidates[position]) {
                refill(&mut work.query_key, key.len(), 0.0);
                key.copy_to(&mut work.query_key);
                let Work { query_key, widened, cosines, .. } = &mut *work;
                scene.compare(cue, query_key, widened, cosines);
                for (score, &cosine) in work.scores.iter_mut().zip(&work.cosines) {
                    if cosine > self.similarity_cut {
                        *score = f32::NEG_INFINITY;
                    }
                }
            }
        }
        let counts = work.coverage.counts();
        for pick in &work.picks {
            let overlap = counts[pick.position] as f32 / scene.ball.len() as f32;
            work.terms.extend([overlap, scene.age(&scene.candidates[pick.position]).abs()]);
        }
        Ok(())
    }

    fn terms(&self) -> Vec<(&'static str, f32)> {
        vec![("overlap", self.overlap_weight), ("age", -self.time_weight)]
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Episode, episodes};
    use super::super::view::sees_reference;
    use super::*;
    use proptest::prelude::*;

    fn reference(rule: &WorldMemPaperConfig, episode: &Episode, slots: usize) -> Vec<usize> {
        let view = &rule.view;
        let ball = view.ball().expect("valid");
        let origin = episode.horizon()[0].position;
        let span = (episode.now() - episode.candidates()[0].time) as f32;
        let sees = |pose, point| sees_reference(view, pose, origin, point);
        let mut left: Vec<(f32, usize)> = Vec::new();
        for (position, candidate) in episode.candidates().iter().enumerate() {
            let shared = (0..ball.len())
                .map(|index| ball.point(index))
                .filter(|&point| episode.horizon().iter().any(|pose| sees(pose, point)))
                .filter(|&point| sees(&candidate.pose, point))
                .count();
            let age = (episode.now() - candidate.time) as f32 / span;
            left.push((shared as f32 / ball.len() as f32 - 0.2 * age, position));
        }
        let mut chosen = Vec::new();
        while chosen.len() < slots && !left.is_empty() {
            left.sort_by(|a, b| b.partial_cmp(a).expect("finite"));
            let (_, best) = left.remove(0);
            chosen.push(best);
            if let Some(key) = episode.key(best) {
                left.retain(|&(_, other)| {
                    episode.cosine(other, key).is_none_or(|cosine| cosine <= 0.9)
                });
            }
        }
        chosen
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn agrees_with_plain_loops(episode in episodes(), slots in 1usize..10) {
            let view = ViewConfig { points: 700, radius: 9.0, ..Default::default() };
            let rule = WorldMemPaperConfig { view, ..Default::default() };
            prop_assert_eq!(episode.chosen(&rule, slots), reference(&rule, &episode, slots));
        }
    }
}
