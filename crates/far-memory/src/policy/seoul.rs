//! Seoul World Model: the nearest places along the path that show the target, and one ahead.

use super::rule::{Rule, Scene, Work};
use super::view::{ViewConfig, check_count, check_weight};
use crate::Error;
use crate::selection::Ranked;

crate::settings! {
    /// Memories are ranked by the distance of their position to the nearest target position; of a short
    /// list of the nearest, those that see enough of the targets' view are taken. The last slot is the
    /// lookahead: the memory nearest to the end of the path, whatever it sees. The score is minus the
    /// distance in meters. Source: Seoul World Model (2026), 5 slots (1 in its fast model, without
    /// lookahead).
    ///
    /// The source measures visibility by reprojecting a memory's depth; here it is the fraction of the
    /// sample points in the targets' view, occluded points included. The bound is not published.
    pub struct SeoulConfig {
        /// Field of view and sample points; set them for the dataset.
        pub view: ViewConfig = ViewConfig::default(),
        /// Least share of the targets' view that a memory must see (not published).
        pub coverage: f32 = 0.1,
        /// How many of the nearest memories are considered (not published).
        pub nearest: usize = 64,
        /// Whether the last slot is the lookahead (Seoul World Model: yes).
        pub lookahead: bool = true,
    }
}

impl Rule for SeoulConfig {
    fn check(&self) -> Result<(), Error> {
        check_weight("coverage", self.coverage)?;
        check_count("nearest", self.nearest)
    }

    fn view(&self) -> Option<&ViewConfig> {
        Some(&self.view)
    }

    fn select(&self, scene: &Scene, work: &mut Work) -> Result<(), Error> {
        let ahead = (self.lookahead && scene.slots > 1).then(|| {
            let ranked = scene.candidates.iter().enumerate().map(|(position, candidate)| Ranked {
                score: -candidate.pose.distance(scene.goal()),
                position,
            });
            ranked.reduce(|best, next| if next.beats(&best) { next } else { best })
        });
        let ahead = ahead.flatten();
        work.scores.clear();
        work.scores.extend(scene.candidates.iter().enumerate().map(|(position, candidate)| {
            let distances = scene.targets().iter().map(|target| candidate.pose.distance(target));
            let taken = ahead.is_some_and(|ahead| ahead.position == position);
            if taken { f32::NEG_INFINITY } else { -distances.fold(f32::INFINITY, f32::min) }
        }));
        work.top(self.nearest);

        work.coverage.survey(scene.ball, &self.view, scene.targets(), scene.candidates);
        let least = self.coverage * work.coverage.total() as f32;
        let counts = work.coverage.counts();
        work.picks.retain(|pick| counts[pick.position] as f32 >= least);
        work.picks.truncate(scene.slots - usize::from(ahead.is_some()));
        work.picks.extend(ahead);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::episodes;
    use super::super::view::sees_reference;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn agrees_with_plain_loops(episode in episodes(), slots in 1usize..8, nearest in 1usize..20) {
            let view = ViewConfig { points: 400, radius: 9.0, ..Default::default() };
            let rule = SeoulConfig { view: view.clone(), nearest, ..Default::default() };
            let ball = view.ball().expect("valid");
            let origin = episode.horizon()[0].position;
            let sees = |pose, point| sees_reference(&view, pose, origin, point);
            let union: Vec<[f32; 3]> = (0..ball.len())
                .map(|index| ball.point(index))
                .filter(|&point| episode.horizon().iter().any(|pose| sees(pose, point)))
                .collect();
            let mut ranked: Vec<(f32, usize)> = episode
                .candidates()
                .iter()
                .enumerate()
                .map(|(position, candidate)| {
                    let distances = episode.horizon().iter().map(|t| t.distance(&candidate.pose));
                    (-distances.fold(f32::INFINITY, f32::min), position)
                })
                .collect();
            ranked.sort_by(|a, b| b.partial_cmp(a).expect("finite"));
            let ahead = (0..episode.len())
                .map(|position| {
                    (-episode.candidates()[position].pose.distance(&episode.goal()), position)
                })
                .max_by(|a, b| a.partial_cmp(b).expect("finite"))
                .filter(|_| slots > 1);
            let mut expected: Vec<usize> = Vec::new();
            let others = ranked.iter().filter(|entry| ahead.is_none_or(|ahead| ahead.1 != entry.1));
            for &(_, position) in others.take(nearest) {
                let pose = &episode.candidates()[position].pose;
                let seen = union.iter().filter(|&&point| sees(pose, point)).count();
                let room = slots - usize::from(ahead.is_some());
                if seen as f32 >= 0.1 * union.len() as f32 && expected.len() < room {
                    expected.push(position);
                }
            }
            expected.extend(ahead.map(|ahead| ahead.1));
            prop_assert_eq!(episode.chosen(&rule, slots), expected);
        }
    }
}
