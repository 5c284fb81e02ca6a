//! Context-as-Memory: frames whose field of view intersects that of the target, never two
//! neighbors.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::requirement::Requirements;
use super::rule::{Rule, Scene, Work};
use super::view::{check_angle, check_positive, check_weight};
use crate::selection::Ranked;
use crate::{Camera, Error, Pose, wrap_angle};

crate::settings! {
    /// In the ground plane, a memory shares the view of a target if the left edges of both fields of
    /// view cross, and the right edges cross, at a distance from the target's camera within
    /// [near, far]. Of each run of consecutive such memories one is drawn at random; free slots are
    /// filled with further such memories, then (optionally) with the memories farthest from the goal.
    /// The most recent memory always has a slot. Source: Context-as-Memory (Yu et al., 2025),
    /// 20 slots.
    ///
    /// Scores are tiers: 3 for the most recent, 2 + u for the one of a run, 1 + u for other memories
    /// that share the view, 0 for distant ones, with u the random number in [0, 1).
    ///
    /// The paper leaves open the limits, the field of view and two degenerate cases, which are common
    /// in grid worlds. Here, cameras at the same place share the view if their headings differ by less
    /// than the field of view; cameras with the same heading share it if their distance is at most
    /// `far`.
    pub struct ContextAsMemoryConfig {
        /// Full horizontal field of view in degrees (not published; WorldMem's 105).
        pub horizontal_degrees: f32 = 105.0,
        /// Least distance in meters at which the edges may cross (not published).
        pub near: f32 = 0.1,
        /// Greatest distance in meters at which the edges may cross (not published).
        pub far: f32 = 30.0,
        /// Whether the most recent memory always has a slot (Context-as-Memory: yes).
        pub keep_last: bool = true,
        /// Whether slots that would stay empty take the memories farthest from the goal
        /// (Context-as-Memory: yes in its best row).
        pub distant: bool = true,
    }
}

/// Angle in radians and distance in meters below which headings and places count as the same.
const SAME: f32 = 1e-3;

/// A camera in the ground plane: its eye, its yaw and the directions of its two edges.
struct Planar {
    eye: [f32; 2],
    yaw: f32,
    edges: [[f32; 2]; 2],
}

impl Planar {
    fn new(pose: &Pose, half_angle: f32) -> Self {
        let yaw = pose.yaw();
        let edge = |angle: f32| [angle.cos(), angle.sin()];
        let edges = [edge(yaw + half_angle), edge(yaw - half_angle)];
        Self { eye: [pose.position[0], pose.position[1]], yaw, edges }
    }
}

impl ContextAsMemoryConfig {
    /// Sets field of view and far limit from the dataset's camera.
    pub(crate) fn set_camera(&mut self, camera: &Camera, reach: f32) {
        self.horizontal_degrees = camera.horizontal_field_of_view.to_degrees();
        self.far = reach;
        self.near = self.near.min(0.1 * reach);
    }

    fn shares_view(&self, target: &Planar, memory: &Planar) -> bool {
        let offset = [memory.eye[0] - target.eye[0], memory.eye[1] - target.eye[1]];
        let distance = offset[0].hypot(offset[1]);
        let turn = wrap_angle(memory.yaw - target.yaw).abs();
        if distance < SAME {
            return turn < self.horizontal_degrees.to_radians();
        }
        if turn < SAME {
            return distance <= self.far;
        }
        (target.edges.iter().zip(&memory.edges)).all(|(&own, &other)| {
            crossing(own, offset, other).is_some_and(|at| (self.near..=self.far).contains(&at))
        })
    }
}

fn cross([ax, ay]: [f32; 2], [bx, by]: [f32; 2]) -> f32 {
    ax * by - ay * bx
}

/// How far along the ray from the origin in direction `own` it meets the ray from `offset` in
/// direction `other`; both directions have unit length.
fn crossing(own: [f32; 2], offset: [f32; 2], other: [f32; 2]) -> Option<f32> {
    let sine = cross(own, other);
    let (along, beyond) = (cross(offset, other) / sine, cross(offset, own) / sine);
    (sine != 0.0 && along >= 0.0 && beyond >= 0.0).then_some(along)
}

impl Rule for ContextAsMemoryConfig {
    fn check(&self) -> Result<(), Error> {
        check_angle("horizontal_degrees", self.horizontal_degrees)?;
        check_weight("near", self.near)?;
        check_positive("far", self.far - self.near)
    }

    fn requirements(&self) -> Requirements {
        Requirements::views()
    }

    fn select(&self, scene: &Scene, work: &mut Work) -> Result<(), Error> {
        let half_angle = 0.5 * self.horizontal_degrees.to_radians();
        let mut generator = Xoshiro256PlusPlus::seed_from_u64(scene.query.seed);
        work.scores.clear();
        // The best of the current run; it is raised to the upper tier when the run ends.
        let mut best: Option<Ranked> = None;
        for (position, candidate) in scene.candidates.iter().enumerate() {
            let number = generator.random::<f32>();
            let memory = Planar::new(&candidate.pose, half_angle);
            let mut targets = scene.targets().iter().map(|pose| Planar::new(pose, half_angle));
            if targets.any(|target| self.shares_view(&target, &memory)) {
                let ranked = Ranked { score: 1.0 + number, position };
                best = Some(best.filter(|best| best.beats(&ranked)).unwrap_or(ranked));
                work.scores.push(ranked.score);
            } else {
                work.scores.push(f32::NEG_INFINITY);
                if let Some(best) = best.take() {
                    work.scores[best.position] += 1.0;
                }
            }
        }
        if let Some(best) = best {
            work.scores[best.position] += 1.0;
        }
        if self.keep_last {
            *work.scores.last_mut().expect("at least one candidate") = 3.0;
        }
        work.top(scene.slots);
        if self.distant {
            for (score, candidate) in work.scores.iter_mut().zip(scene.candidates) {
                let free = *score == f32::NEG_INFINITY;
                let distance = candidate.pose.distance(scene.goal());
                *score = if free { distance } else { f32::NEG_INFINITY };
            }
            let filled = work.picks.len();
            work.top(scene.slots - filled);
            work.picks[filled..].iter_mut().for_each(|pick| pick.score = 0.0);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Episode, episodes};
    use super::*;
    use proptest::prelude::*;

    fn rule(distant: bool) -> ContextAsMemoryConfig {
        ContextAsMemoryConfig { distant, ..Default::default() }
    }

    fn shares(target: Pose, memory: Pose) -> bool {
        let rule = rule(false);
        let half_angle = 0.5 * rule.horizontal_degrees.to_radians();
        rule.shares_view(&Planar::new(&target, half_angle), &Planar::new(&memory, half_angle))
    }

    #[test]
    fn a_camera_that_looks_at_the_point_ahead_shares_the_view_at_every_heading() {
        for heading in 0..24 {
            for pitch in [-30f32, 0.0, 30.0] {
                let yaw = (heading as f32 * 15.0).to_radians();
                let pose = |x: f32, y: f32, z: f32, turn: f32| {
                    let position =
                        [x * yaw.cos() - y * yaw.sin(), x * yaw.sin() + y * yaw.cos(), z];
                    Pose::from_yaw_pitch(position, yaw + turn, pitch.to_radians())
                };
                let target = pose(0.0, 0.0, 1.6, 0.0);
                assert!(shares(target, target));
                assert!(shares(target, pose(0.0, 0.0, 0.4, 0.5)));
                assert!(shares(target, pose(-1.0, 0.0, 3.0, 0.0)));
                // One meter to the left, turned right: both pairs of edges cross ahead.
                assert!(
                    shares(target, pose(0.0, 1.0, 0.4, -0.3))
                        || shares(target, pose(0.0, 1.0, 0.4, 0.3))
                );
                assert!(!shares(target, pose(0.0, 0.0, 1.6, 3.0)));
                assert!(!shares(target, pose(-40.0, 0.0, 1.6, 0.0)));
            }
        }
    }

    /// Whether two segments of length `far` meet at least `near` from the first's start, found by
    /// walking along the first and watching for a change of side.
    fn edges_meet(
        rule: &ContextAsMemoryConfig,
        target: &Pose,
        memory: &Pose,
        side: f32,
    ) -> Option<bool> {
        let half = side * 0.5 * rule.horizontal_degrees.to_radians();
        let (a, b) = (f64::from(target.yaw() + half), f64::from(memory.yaw() + half));
        let start = |pose: &Pose| [f64::from(pose.position[0]), f64::from(pose.position[1])];
        let (p, q) = (start(target), start(memory));
        let side_of = |distance: f64| {
            let (x, y) = (p[0] + distance * a.cos() - q[0], p[1] + distance * a.sin() - q[1]);
            (b.cos() * y - b.sin() * x, b.cos() * x + b.sin() * y)
        };
        let (near, far) = (f64::from(rule.near), f64::from(rule.far));
        let ((before, _), (after, _)) = (side_of(near), side_of(far));
        if before.abs() < 1e-3 || after.abs() < 1e-3 {
            return None; // On the edge: rounding decides.
        }
        if before.signum() == after.signum() {
            return Some(false);
        }
        let (mut low, mut high) = (near, far);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if side_of(middle).0.signum() == before.signum() { low = middle } else { high = middle }
        }
        let ahead = side_of(low).1;
        (ahead.abs() > 1e-3).then_some(ahead > 0.0)
    }

    proptest! {
        #[test]
        fn edges_cross_where_walking_along_them_says(
            target in super::super::testing::poses(),
            memory in super::super::testing::poses(),
        ) {
            let rule = rule(false);
            let moved = target.position[..2] != memory.position[..2];
            prop_assume!(moved && wrap_angle(target.yaw() - memory.yaw()).abs() > 0.1);
            let sides = [1.0, -1.0].map(|side| edges_meet(&rule, &target, &memory, side));
            if let [Some(left), Some(right)] = sides {
                prop_assert_eq!(shares(target, memory), left && right);
            }
        }

        #[test]
        fn one_of_each_run_comes_first(episode in episodes(), slots in 1usize..12) {
            let rule = rule(false);
            let half = 0.5 * rule.horizontal_degrees.to_radians();
            let shared: Vec<bool> = episode
                .candidates()
                .iter()
                .map(|memory| {
                    let memory = Planar::new(&memory.pose, half);
                    episode.horizon().iter().any(|t| rule.shares_view(&Planar::new(t, half), &memory))
                })
                .collect();
            let runs = |position: usize| (0..=position).filter(|&at| !shared[at]).count();
            let picks = episode.picks(&rule, slots);
            let last = episode.len() - 1;
            prop_assert_eq!(picks[0], Ranked { score: 3.0, position: last });
            let others = &picks[1..];
            prop_assert!(others.iter().all(|pick| shared[pick.position]));
            let mut firsts: Vec<usize> =
                others.iter().filter(|pick| pick.score >= 2.0).map(|pick| runs(pick.position)).collect();
            firsts.sort_unstable();
            prop_assert!(firsts.windows(2).all(|pair| pair[0] != pair[1]), "one of each run");
            let available = (0..last).filter(|&position| shared[position]).count();
            prop_assert_eq!(others.len(), available.min(slots - 1));
        }

        #[test]
        fn distant_memories_only_fill_what_would_stay_empty(episode in episodes(), slots in 1usize..12) {
            let (short, full) = (episode.picks(&rule(false), slots), episode.picks(&rule(true), slots));
            prop_assert_eq!(&full[..short.len()], &short[..]);
            prop_assert_eq!(full.len(), slots.min(episode.len()));
            let distance = |pick: &Ranked| {
                episode.candidates()[pick.position].pose.distance(&episode.goal())
            };
            let tail = &full[short.len()..];
            prop_assert!(tail.windows(2).all(|pair| distance(&pair[0]) >= distance(&pair[1])));
        }
    }

    #[test]
    fn different_seeds_draw_different_members() {
        let episode = Episode::walk(30);
        let draws: Vec<_> =
            (0..8).map(|seed| episode.clone().with_seed(seed).chosen(&rule(false), 2)).collect();
        assert!(draws.iter().any(|draw| draw != &draws[0]));
    }
}
