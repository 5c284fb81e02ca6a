//! Spatia: each target view is assigned a memory of its own, with the greatest total overlap.

use super::rule::{Rule, Scene, Work};
use super::view::{ViewConfig, check_weight};
use crate::Error;
use crate::selection::Ranked;

crate::settings! {
    /// The weight of a pair is the number of sample points that target and memory both see; the
    /// assignment, one memory to each target, has the greatest total weight (Hungarian method). The
    /// memories are returned in the order of their targets; the score is the fraction of the target's
    /// view. Source: the released code of Spatia (2025), 7 slots.
    ///
    /// Differences: sample points in a ball replace its point cloud, so occluded points count; as many
    /// targets as slots are assigned, evenly spaced over the horizon (released: all, of which the first
    /// 7 are kept); if the horizon has fewer poses, each is assigned several times; a pair without
    /// overlap is dropped; ties go to the more recent.
    pub struct SpatiaConfig {
        /// Field of view and sample points; set them for the dataset.
        pub view: ViewConfig = ViewConfig::default(),
        /// Memories per second that are searched (Spatia: 6); 0 searches all.
        pub history_rate: f32 = 6.0,
        /// Least share of the target's view for a pair to be recalled, exclusive (the paper has such a
        /// bound without a value).
        pub minimum_overlap: f32 = 0.0,
    }
}

impl SpatiaConfig {
    /// The target of row `row` of `rows`, as an index into a horizon of `length` poses.
    fn target(row: usize, rows: usize, length: usize) -> usize {
        // The last pose is always among them, and neighbors in the result are neighbors in time.
        ((row + 1) * length).div_ceil(rows) - 1
    }
}

impl Rule for SpatiaConfig {
    fn check(&self) -> Result<(), Error> {
        check_weight("history_rate", self.history_rate)?;
        check_weight("minimum_overlap", self.minimum_overlap)
    }

    fn view(&self) -> Option<&ViewConfig> {
        Some(&self.view)
    }

    fn select(&self, scene: &Scene, work: &mut Work) -> Result<(), Error> {
        let targets = scene.targets();
        // Newest first, because the assignment takes the first of equal columns.
        work.order.clear();
        let mut earliest = f64::INFINITY;
        let rate = f64::from(self.history_rate);
        for (position, candidate) in scene.candidates.iter().enumerate().rev() {
            // A hundredth of a frame of tolerance for rounded times.
            if rate == 0.0 || candidate.time <= earliest - 0.99 / rate {
                work.order.push(position);
                earliest = candidate.time;
            }
        }
        let columns = work.order.len();
        let rows = scene.slots.min(columns);
        work.poses.clear();
        let chosen = (0..rows).map(|row| targets[Self::target(row, rows, targets.len())]);
        work.poses.extend(chosen);
        work.coverage.survey(scene.ball, &self.view, &work.poses, scene.candidates);
        work.weights.clear();
        for row in 0..rows {
            let shared =
                |&position: &usize| i64::from(work.coverage.shared_with_target(row, position));
            work.weights.extend(work.order.iter().map(shared));
        }
        work.assignment.solve(&work.weights, rows, columns, &mut work.columns);
        for (row, &column) in work.columns.iter().enumerate() {
            let own = work.coverage.target_total(row).max(1);
            let score = work.weights[row * columns + column] as f32 / own as f32;
            if score > self.minimum_overlap {
                work.picks.push(Ranked { score, position: work.order[column] });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Episode, episodes};
    use super::super::view::sees_reference;
    use super::*;
    use proptest::prelude::*;

    /// The greatest total of shared points over all pairings.
    fn best_total(weights: &[Vec<u64>], used: &mut Vec<usize>) -> u64 {
        let Some(row) = weights.get(used.len()) else { return 0 };
        (0..row.len())
            .filter_map(|column| {
                if used.contains(&column) {
                    return None;
                }
                used.push(column);
                let total = row[column] + best_total(weights, used);
                used.pop();
                Some(total)
            })
            .max()
            .unwrap_or(0)
    }

    /// The greatest total that the picks can have. Each pick belongs to a later row than the one
    /// before, and to one whose score it has; rows without overlap are dropped, so that several
    /// rows may fit a pick.
    fn picked_total(weights: &[Vec<u64>], own: &[usize], picks: &[Ranked]) -> Option<u64> {
        let Some((pick, later)) = picks.split_first() else { return Some(0) };
        let rows = weights.iter().zip(own).enumerate();
        rows.filter_map(|(row, (shared, seen))| {
            let shared = shared[pick.position];
            let fits = shared as f32 / *seen as f32 == pick.score;
            let rest = || picked_total(&weights[row + 1..], &own[row + 1..], later);
            fits.then(rest).flatten().map(|rest| shared + rest)
        })
        .max()
    }

    #[test]
    fn rows_spread_over_the_horizon() {
        let spread = |rows, length| -> Vec<usize> {
            (0..rows).map(|row| SpatiaConfig::target(row, rows, length)).collect()
        };
        assert_eq!(spread(4, 4), [0, 1, 2, 3]);
        assert_eq!(spread(2, 8), [3, 7]);
        assert_eq!(spread(4, 2), [0, 0, 1, 1]);
        assert_eq!(spread(3, 1), [0, 0, 0]);
    }

    #[test]
    fn history_is_thinned_by_time() {
        // Memories every quarter of a second, two per second searched: every other one.
        let config = SpatiaConfig { history_rate: 2.0, ..Default::default() };
        let chosen = Episode::walk(9).chosen(&config, 9);
        assert_eq!(chosen.len(), 5);
        assert!(chosen.iter().all(|position| position % 2 == 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn the_total_is_the_greatest_of_all_pairings(episode in episodes(), slots in 1usize..4) {
            let view = ViewConfig { points: 300, radius: 9.0, ..Default::default() };
            let rule = SpatiaConfig { view: view.clone(), history_rate: 0.0, minimum_overlap: 0.0 };
            let ball = view.ball().expect("valid");
            let rows = slots.min(episode.len());
            let horizon = episode.horizon();
            let targets: Vec<_> =
                (0..rows).map(|row| horizon[SpatiaConfig::target(row, rows, horizon.len())]).collect();
            let origin = targets[0].position;
            let seen = |pose| -> Vec<bool> {
                (0..ball.len())
                    .map(|index| sees_reference(&view, pose, origin, ball.point(index)))
                    .collect()
            };
            let memories: Vec<Vec<bool>> =
                episode.candidates().iter().map(|candidate| seen(&candidate.pose)).collect();
            let rows: Vec<Vec<bool>> = targets.iter().map(seen).collect();
            let count = |bits: &[bool]| bits.iter().filter(|&&bit| bit).count();
            let weights: Vec<Vec<u64>> = rows
                .iter()
                .map(|row| {
                    let shared = |memory: &Vec<bool>| {
                        row.iter().zip(memory).filter(|(a, b)| **a && **b).count() as u64
                    };
                    memories.iter().map(shared).collect()
                })
                .collect();
            let picks = episode.picks(&rule, slots);
            let own: Vec<usize> = rows.iter().map(|row| count(row).max(1)).collect();
            let total = picked_total(&weights, &own, &picks);
            prop_assert_eq!(total, Some(best_total(&weights, &mut Vec::new())));
            let mut distinct: Vec<_> = picks.iter().map(|pick| pick.position).collect();
            distinct.sort_unstable();
            distinct.dedup();
            prop_assert_eq!(distinct.len(), picks.len());
        }
    }
}
