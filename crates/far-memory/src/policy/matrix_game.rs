//! Matrix-Game 3.0: for each of a few coming frames, the memory that sees most of its frustum.

use super::point_set;
use super::requirement::Requirements;
use super::rule::{Rule, Scene, Work};
use super::sight::FrustumSight;
use super::view::{FrustumConfig, check_count};
use crate::Error;
use crate::scratch::refill;
use crate::selection::Ranked;

crate::settings! {
    /// The frustum of a query frame is cut into cells; a memory's score is the share of them inside its
    /// own frustum, and each query frame takes the memory with the greatest score, so **one memory may
    /// be recalled several times**. Query frames are the last of the horizon and every eighth before
    /// it. The last slot holds the oldest memory of the pool (the sink), which is not searched.
    /// Source: the deployed rule of Matrix-Game 3.0 (2026), 5 slots.
    ///
    /// Differences: cells stand for their centers (released: corners on the boundary, of which strict
    /// bounds drop a fifth even for an identical pose); ties go to the more recent (released:
    /// unspecified); on a horizon too short for the spacing the query frames lie evenly on it; with a
    /// single slot there is no sink.
    pub struct MatrixGameConfig {
        /// Field of view, depths and cells; set them for the dataset.
        pub frustum: FrustumConfig = FrustumConfig::default(),
        /// Frames between two query frames (Matrix-Game: 8).
        pub query_spacing: usize = 8,
        /// Whether the last slot holds the oldest memory (Matrix-Game: yes).
        pub sink: bool = true,
        /// Whether a memory may be recalled for several query frames (Matrix-Game: yes).
        pub repeats: bool = true,
    }
}

impl MatrixGameConfig {
    /// Index into a horizon of `length` poses of query frame `number` of `count`, latest first.
    fn query_frame(&self, number: usize, count: usize, length: usize) -> usize {
        let wanted = self.query_spacing * (count - 1);
        let back = if wanted < length {
            self.query_spacing * number
        } else {
            (length - 1) * number / (count - 1).max(1)
        };
        length - 1 - back
    }
}

impl Rule for MatrixGameConfig {
    fn check(&self) -> Result<(), Error> {
        self.frustum.check()?;
        check_count("query_spacing", self.query_spacing)
    }

    fn requirements(&self) -> Requirements {
        Requirements::views()
    }

    fn select(&self, scene: &Scene, work: &mut Work) -> Result<(), Error> {
        let frustum = &self.frustum;
        let (camera, depths, targets) = (frustum.camera(), frustum.depths(), scene.targets());
        let sink = self.sink && scene.slots > 1;
        let first = usize::from(sink);
        let queries = scene.slots - first;
        let origin = scene.goal().position;
        work.sights.clear();
        let poses = scene.candidates[first..].iter().map(|candidate| &candidate.pose);
        work.sights.extend(poses.map(|pose| FrustumSight::new(pose, &camera, depths, origin)));
        refill(&mut work.flags, scene.candidates.len(), false);
        for number in 0..queries {
            let target = &targets[self.query_frame(number, queries, targets.len())];
            work.points.clear();
            work.points.push_frustum(target, &camera, depths, frustum.cells, origin);
            work.points.pad();
            refill(&mut work.rows, work.sights.len() * work.points.words(), 0);
            work.points.mark(&work.sights, &mut work.rows);
            let mut best: Option<Ranked> = None;
            for (index, row) in work.rows.chunks_exact(work.points.words()).enumerate() {
                let position = first + index;
                let score = point_set::count(row) as f32 / work.points.len() as f32;
                let ranked = Ranked { score, position };
                if !work.flags[position] && best.is_none_or(|best| ranked.beats(&best)) {
                    best = Some(ranked);
                }
            }
            let Some(best) = best else { break };
            work.flags[best.position] = !self.repeats;
            work.picks.push(best);
        }
        if sink {
            work.picks.push(Ranked { score: 0.0, position: 0 });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Episode, episodes};
    use super::*;
    use crate::Pose;
    use proptest::prelude::*;

    fn rule(repeats: bool) -> MatrixGameConfig {
        let frustum = FrustumConfig { far: 8.0, cells: [5, 4, 6], ..Default::default() };
        MatrixGameConfig { frustum, query_spacing: 2, repeats, ..Default::default() }
    }

    /// Share of a target's cells that a memory sees, by the camera's own projection.
    fn share(target: &Pose, memory: &Pose) -> f32 {
        let config = rule(true).frustum;
        let camera = config.camera();
        let mut seen = 0;
        for cell in 0..5 * 4 * 6 {
            let place = |index: usize, cells: usize| (index as f32 + 0.5) / cells as f32;
            let depth = config.near + (config.far - config.near) * place(cell / 20, 6);
            let x = (2.0 * place(cell % 5, 5) - 1.0) * depth;
            let y = (2.0 * place(cell / 5 % 4, 4) - 1.0) * depth;
            let point = target.to_world([x, y, depth]);
            let ahead = memory.to_camera(point)[2];
            let inside = (config.near..=config.far).contains(&ahead);
            seen += usize::from(inside && camera.sees(memory, point));
        }
        seen as f32 / 120.0
    }

    #[test]
    fn query_frames_are_spaced_from_the_end_or_spread_over_a_short_horizon() {
        let rule = MatrixGameConfig::default();
        let frames = |length| [0, 1, 2, 3, 4].map(|number| rule.query_frame(number, 5, length));
        assert_eq!(frames(40), [39, 31, 23, 15, 7]);
        assert_eq!(frames(5), [4, 3, 2, 1, 0]);
        assert_eq!(frames(1), [0; 5]);
        assert_eq!(rule.query_frame(0, 1, 7), 6);
    }

    #[test]
    fn the_identical_pose_scores_one_and_may_repeat() {
        let mut records: Vec<_> = (0..4)
            .map(|x| (Pose::from_yaw_pitch([3.0 * x as f32, 0.0, 1.6], 1.5, 0.0), None))
            .collect();
        let goal = Pose::from_yaw_pitch([50.0, 0.0, 1.6], 0.3, 0.1);
        records.insert(2, (goal, None));
        let picks = Episode::new(&records, &[goal]).picks(&rule(true), 4);
        assert_eq!(picks[..3], [Ranked { score: 1.0, position: 2 }; 3]);
        assert_eq!(picks[3], Ranked { score: 0.0, position: 0 });
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn agrees_with_plain_loops(episode in episodes(), slots in 1usize..6, repeats: bool) {
            let rule = rule(repeats);
            let picks = episode.picks(&rule, slots);
            let sink = usize::from(slots > 1);
            let expected = if repeats && episode.len() > sink {
                slots
            } else {
                slots.min(episode.len())
            };
            prop_assert_eq!(picks.len(), expected);
            let mut free: Vec<usize> = (sink..episode.len()).collect();
            for (number, pick) in picks[..picks.len() - sink].iter().enumerate() {
                let horizon = episode.horizon();
                let target = horizon[rule.query_frame(number, slots - sink, horizon.len())];
                let own = share(&target, &episode.candidates()[pick.position].pose);
                // A cell on the edge of the image may fall to either side by rounding.
                prop_assert!((pick.score - own).abs() < 0.05);
                let best = free
                    .iter()
                    .map(|&position| share(&target, &episode.candidates()[position].pose))
                    .fold(0.0, f32::max);
                prop_assert!((pick.score - best).abs() < 0.05);
                if !repeats {
                    prop_assert!(free.contains(&pick.position));
                    free.retain(|&position| position != pick.position);
                }
            }
        }
    }
}
