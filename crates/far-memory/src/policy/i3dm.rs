//! I3DM: greedy facility location over confidence maps.

use super::requirement::Requirements;
use super::rule::{Rule, Scene, Work};
use super::sight::{FrustumSight, Sight};
use super::view::{FrustumConfig, check_count};
use crate::scratch::refill;
use crate::selection::Ranked;
use crate::{Error, Pose};
use pulp::{Simd, WithSimd};

crate::settings! {
    /// Every target view is cut into cells, and every memory has a confidence for each cell. Each round
    /// takes the memory that raises mean(max(B, C)) most, where B is the best confidence so far;
    /// the most recent memory is in from the start. The score is that mean after the pick. Source: I3DM
    /// (2026), whose confidence comes from a view-synthesis network; 3 picks and the last frame.
    ///
    /// Confidence here is geometric: for the cell at offset a from the target's eye and b from the
    /// memory's, a·b / max(|a|², |b|²), which is the cosine of the angle between the two lines of sight
    /// times the ratio of the two distances; 0 outside of the memory's frustum. It is kept in 255 steps,
    /// so that sums are exact and the lazy search equals the plain one. The source's 32 × 32 image
    /// cells have no depth; the default has as many cells, 16 × 16 in four layers. Too few memories are
    /// not padded with repeats.
    pub struct I3dmConfig {
        /// Field of view, depths and cells of a target view; set them for the dataset.
        pub frustum: FrustumConfig = FrustumConfig { cells: [16, 16, 4], ..Default::default() },
        /// Most target views, evenly spaced over the horizon (I3DM: 20).
        pub target_views: usize = 20,
        /// Whether the most recent memory always has a slot, the last (I3DM: yes).
        pub keep_last: bool = true,
    }
}

/// 2²³: between it and its double numbers are one apart.
const ROUNDING: f32 = 8_388_608.0;

/// Cells tested together by one instruction.
const LANES: usize = 16;

/// The cells of the target views, the best confidence in each, and what each memory could add.
#[derive(Clone, Debug, Default)]
pub(crate) struct Confidence {
    /// Cell centers by axis, relative to the origin; NaN after the last.
    centers: [Vec<f32>; 3],
    /// Cell centers by axis, relative to the eye of their target view.
    offsets: [Vec<f32>; 3],
    best: Vec<u32>,
    cells: usize,
    /// Upper bound of Σ max(B, C) − ΣB for each memory.
    bounds: Vec<u32>,
    /// The round in which the bound was exact.
    rounds: Vec<usize>,
}

impl Confidence {
    fn survey<'a>(
        &mut self,
        views: impl Iterator<Item = &'a Pose>,
        frustum: &FrustumConfig,
        points: &mut super::point_set::PointSet,
        origin: [f32; 3],
    ) {
        self.centers.iter_mut().chain(&mut self.offsets).for_each(Vec::clear);
        for pose in views {
            points.clear();
            points.push_frustum(pose, &frustum.camera(), frustum.depths(), frustum.cells, origin);
            for index in 0..points.len() {
                let center = points.point(index);
                for axis in 0..3 {
                    self.centers[axis].push(center[axis]);
                    self.offsets[axis].push(center[axis] + origin[axis] - pose.position[axis]);
                }
            }
        }
        self.cells = self.centers[0].len();
        let padded = self.cells.next_multiple_of(LANES);
        self.centers.iter_mut().for_each(|axis| axis.resize(padded, f32::NAN));
        self.offsets.iter_mut().for_each(|axis| axis.resize(padded, 0.0));
        refill(&mut self.best, padded, 0);
    }

    /// Σ max(B, C) − ΣB for the memory with this sight; with `take`, B becomes max(B, C).
    fn gain(&mut self, sight: &FrustumSight, take: bool) -> u32 {
        let [x, y, z] = self.centers.each_ref().map(|axis| axis.as_chunks::<LANES>().0);
        let [a, b, c] = self.offsets.each_ref().map(|axis| axis.as_chunks::<LANES>().0);
        let best = self.best.as_chunks_mut::<LANES>().0;
        pulp::Arch::new().dispatch(Gain { x, y, z, a, b, c, best, sight: *sight, take })
    }

    /// The sum of the best confidences.
    fn total(&self) -> u32 {
        self.best.iter().sum()
    }

    /// The free memory with the greatest gain, and that gain. A stale bound that cannot win is not
    /// recomputed, which is exact because gains only shrink as B grows.
    fn next(&mut self, sights: &[FrustumSight], taken: &[bool], round: usize) -> Option<usize> {
        loop {
            let free = (0..sights.len()).filter(|&index| !taken[index]);
            let index = free.max_by_key(|&index| (self.bounds[index], index))?;
            if self.rounds[index] == round {
                return Some(index);
            }
            self.bounds[index] = self.gain(&sights[index], false);
            self.rounds[index] = round;
        }
    }
}

type Lanes<'a> = &'a [[f32; LANES]];

struct Gain<'a> {
    x: Lanes<'a>,
    y: Lanes<'a>,
    z: Lanes<'a>,
    a: Lanes<'a>,
    b: Lanes<'a>,
    c: Lanes<'a>,
    best: &'a mut [[u32; LANES]],
    sight: FrustumSight,
    take: bool,
}

impl WithSimd for Gain<'_> {
    type Output = u32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> u32 {
        let mut sums = [0u32; LANES];
        for (group, best) in self.best.iter_mut().enumerate() {
            let (x, y, z) = (&self.x[group], &self.y[group], &self.z[group]);
            let (a, b, c) = (&self.a[group], &self.b[group], &self.c[group]);
            for lane in 0..LANES {
                let (point, offset) = ([x[lane], y[lane], z[lane]], [a[lane], b[lane], c[lane]]);
                let raised = best[lane].max(confidence(&self.sight, point, offset));
                sums[lane] += raised - best[lane];
                best[lane] = if self.take { raised } else { best[lane] };
            }
        }
        sums.iter().sum()
    }
}

/// Confidence in 255 steps of a memory about the cell at `point`, which lies at `offset` from the
/// eye of its target view.
#[inline(always)]
fn confidence(sight: &FrustumSight, [x, y, z]: [f32; 3], [a, b, c]: [f32; 3]) -> u32 {
    let [u, v, w] = sight.offset(x, y, z);
    let product = a * u + b * v + c * w;
    let square = (a * a + b * b + c * c).max(u * u + v * v + w * w).max(f32::MIN_POSITIVE);
    let seen = if sight.sees(x, y, z) { 255.0 } else { 0.0 };
    // NaN, beyond the last cell, becomes 0. Added to 2²³, a number up to 255 is rounded and stands in the
    // lowest bits: a loop of such additions becomes SIMD code, one of conversions does not.
    let steps = seen * (product / square).clamp(0.0, 1.0);
    (steps.max(0.0) + ROUNDING).to_bits() & 0xff
}

impl Rule for I3dmConfig {
    fn check(&self) -> Result<(), Error> {
        self.frustum.check()?;
        check_count("target_views", self.target_views)
    }

    fn requirements(&self) -> Requirements {
        Requirements::views()
    }

    fn select(&self, scene: &Scene, work: &mut Work) -> Result<(), Error> {
        let frustum = &self.frustum;
        let (targets, origin) = (scene.targets(), scene.goal().position);
        let views = self.target_views.min(targets.len());
        let spaced = (0..views).map(|view| &targets[(view + 1) * targets.len() / views - 1]);
        let map = &mut work.confidence;
        map.survey(spaced, frustum, &mut work.points, origin);
        let camera = frustum.camera();
        work.sights.clear();
        let poses = scene.candidates.iter().map(|candidate| &candidate.pose);
        work.sights
            .extend(poses.map(|pose| FrustumSight::new(pose, &camera, frustum.depths(), origin)));
        let count = work.sights.len();
        refill(&mut work.flags, count, false);
        refill(&mut map.bounds, count, u32::MAX);
        refill(&mut map.rounds, count, usize::MAX);

        let scale = 1.0 / (255.0 * map.cells as f32);
        let mut last = None;
        if self.keep_last {
            map.gain(&work.sights[count - 1], true);
            work.flags[count - 1] = true;
            last = Some(Ranked { score: map.total() as f32 * scale, position: count - 1 });
        }
        for round in 0..scene.slots - usize::from(last.is_some()) {
            let Some(position) = map.next(&work.sights, &work.flags, round) else { break };
            map.gain(&work.sights[position], true);
            work.flags[position] = true;
            work.picks.push(Ranked { score: map.total() as f32 * scale, position });
        }
        work.picks.extend(last);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::point_set::PointSet;
    use super::super::testing::{Episode, episodes};
    use super::*;
    use proptest::prelude::*;

    /// Facility location over stored maps, every gain computed in every round.
    fn reference(rule: &I3dmConfig, episode: &Episode, slots: usize) -> Vec<Ranked> {
        let frustum = &rule.frustum;
        let origin = episode.goal().position;
        let horizon = episode.horizon();
        let views = rule.target_views.min(horizon.len());
        let maps: Vec<Vec<u32>> = episode
            .candidates()
            .iter()
            .map(|candidate| {
                let mut map = Vec::new();
                for view in 0..views {
                    let pose = &horizon[(view + 1) * horizon.len() / views - 1];
                    let mut set = PointSet::default();
                    set.push_frustum(
                        pose,
                        &frustum.camera(),
                        frustum.depths(),
                        frustum.cells,
                        origin,
                    );
                    let sight = FrustumSight::new(
                        &candidate.pose,
                        &frustum.camera(),
                        frustum.depths(),
                        origin,
                    );
                    for index in 0..set.len() {
                        let point = set.point(index);
                        let offset = std::array::from_fn(|axis| {
                            point[axis] + origin[axis] - pose.position[axis]
                        });
                        map.push(confidence(&sight, point, offset));
                    }
                }
                map
            })
            .collect();
        let cells = maps[0].len();
        let mut best = vec![0; cells];
        let mut picks: Vec<Ranked> = Vec::new();
        let raised = |best: &[u32], map: &[u32]| -> Vec<u32> {
            best.iter().zip(map).map(|(&best, &own)| best.max(own)).collect()
        };
        let score = |best: &[u32]| best.iter().sum::<u32>() as f32 * (1.0 / (255.0 * cells as f32));
        let last = maps.len() - 1;
        best = raised(&best, &maps[last]);
        let kept = Ranked { score: score(&best), position: last };
        while picks.len() + 1 < slots.min(maps.len()) {
            let position = (0..last)
                .filter(|position| picks.iter().all(|pick| pick.position != *position))
                .max_by_key(|&position| {
                    (raised(&best, &maps[position]).iter().sum::<u32>(), position)
                })
                .expect("one is free");
            best = raised(&best, &maps[position]);
            picks.push(Ranked { score: score(&best), position });
        }
        picks.push(kept);
        picks
    }

    #[test]
    fn the_identical_view_is_fully_confident_and_a_turned_one_is_not() {
        let pose = Pose::from_yaw_pitch([1.0, 2.0, 1.6], 0.7, 0.2);
        let turned = Pose::from_yaw_pitch([1.0, 2.0, 1.6], 0.7 + 3.0, 0.2);
        let rule = I3dmConfig::default();
        let picks = Episode::new(&[(pose, None)], &[pose]).picks(&rule, 1);
        assert!((picks[0].score - 1.0).abs() < 0.01, "{picks:?}");
        let picks = Episode::new(&[(turned, None)], &[pose]).picks(&rule, 1);
        assert_eq!(picks[0].score, 0.0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn the_lazy_search_equals_the_plain_one(episode in episodes(), slots in 1usize..8) {
            let frustum = FrustumConfig { far: 9.0, cells: [5, 3, 3], ..Default::default() };
            let rule = I3dmConfig { frustum, target_views: 3, keep_last: true };
            prop_assert_eq!(episode.picks(&rule, slots), reference(&rule, &episode, slots));
        }
    }
}
