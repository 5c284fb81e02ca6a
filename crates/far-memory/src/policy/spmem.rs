//! SPMem: sparse keyframes written by novelty, read by coverage, beside the latest frames.

use super::rule::{Rule, Scene, Work};
use super::view::{FrustumConfig, ViewConfig, check_weight};
use crate::Error;
use crate::scratch::refill;
use crate::selection::Ranked;

crate::settings! {
    /// Writing: in order of time, a memory becomes a keyframe if the share of its view that no earlier
    /// keyframe shows exceeds a threshold. Reading: residual greedy coverage of the targets' view over
    /// the keyframes. The latest memories (the working memory) take the last slots, at most half of
    /// them. Source: SPMem (Wu et al., 2025), working memory of 5.
    ///
    /// The source writes by the area newly revealed against a fused point cloud and lets the generator
    /// attend to all keyframes. Without a cloud, area is counted in cells of the view's frustum; to
    /// fill a fixed number of slots the keyframes are ranked by what they cover. The score of a keyframe
    /// is the share of the view not yet covered that it adds; that of a working memory is 0.
    pub struct SpMemConfig {
        /// Least share of unseen view for a keyframe (not published).
        pub novelty: f32 = 0.3,
        /// Slots for the latest memories, at most half of all (SPMem: 5).
        pub working: usize = 5,
        /// Field of view, depths and cells by which novelty is counted; set them for the dataset.
        pub frustum: FrustumConfig = FrustumConfig { cells: [8, 8, 8], ..Default::default() },
        /// Field of view and sample points by which coverage is read; set them for the dataset.
        pub view: ViewConfig = ViewConfig::default(),
    }
}

impl Rule for SpMemConfig {
    fn check(&self) -> Result<(), Error> {
        check_weight("novelty", self.novelty)?;
        self.frustum.check()
    }

    fn view(&self) -> Option<&ViewConfig> {
        Some(&self.view)
    }

    fn select(&self, scene: &Scene, work: &mut Work) -> Result<(), Error> {
        let count = scene.candidates.len();
        let working = self.working.min(scene.slots / 2).min(count);
        work.novelty.reset(&self.frustum, self.novelty);
        work.flags.clear();
        let poses = scene.candidates.iter().map(|candidate| &candidate.pose);
        work.flags.extend(poses.map(|pose| work.novelty.admit(pose)));
        work.coverage.survey(scene.ball, &self.view, scene.targets(), scene.candidates);
        refill(&mut work.scores, count, 0.0);
        let flags = &work.flags;
        let keyframe = |position: usize| flags[position] && position < count - working;
        work.coverage.greedy(&work.scores, keyframe, scene.slots - working, &mut work.picks);
        let latest = (0..working).map(|back| Ranked { score: 0.0, position: count - 1 - back });
        work.picks.extend(latest);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::NoveltyGate;
    use super::super::testing::episodes;
    use super::super::view::sees_reference;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn agrees_with_gate_and_greedy_by_plain_loops(episode in episodes(), slots in 1usize..9) {
            let rule = SpMemConfig {
                working: 2,
                frustum: FrustumConfig { far: 9.0, cells: [4, 4, 4], ..Default::default() },
                view: ViewConfig { points: 500, radius: 9.0, ..Default::default() },
                ..Default::default()
            };
            let ball = rule.view.ball().expect("valid");
            let working = 2.min(slots / 2).min(episode.len());
            let mut gate = NoveltyGate::new(rule.frustum.clone(), rule.novelty).expect("valid");
            let mut bank: Vec<usize> = Vec::new();
            for (position, candidate) in episode.candidates().iter().enumerate() {
                let admitted = gate.admit(&candidate.pose);
                if admitted && position < episode.len() - working {
                    bank.push(position);
                }
            }
            let origin = episode.horizon()[0].position;
            let sees = |pose, point| sees_reference(&rule.view, pose, origin, point);
            let mut open: Vec<[f32; 3]> = (0..ball.len())
                .map(|index| ball.point(index))
                .filter(|&point| episode.horizon().iter().any(|pose| sees(pose, point)))
                .collect();
            let mut expected: Vec<usize> = Vec::new();
            while expected.len() < slots - working && !bank.is_empty() {
                let adds = |&position: &usize| {
                    let pose = &episode.candidates()[position].pose;
                    open.iter().filter(|&&point| sees(pose, point)).count()
                };
                let best = *bank.iter().max_by_key(|position| (adds(position), **position)).expect("some");
                open.retain(|&point| !sees(&episode.candidates()[best].pose, point));
                bank.retain(|&position| position != best);
                expected.push(best);
            }
            expected.extend((0..working).map(|back| episode.len() - 1 - back));
            prop_assert_eq!(episode.chosen(&rule, slots), expected);
        }
    }
}
