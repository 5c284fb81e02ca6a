//! The observer's path: both ends, the post, the doorway, both ends again.

use far_memory::{Pose, wrap_angle};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::hall::{End, Hall, WALL};
use super::patrol::Patrol;
use crate::{WalkConfig, Walker};

/// Height of the camera above the floor, in meters.
pub(crate) const EYE: f32 = 1.5;
/// Largest turn per frame in radians.
const TURN: f32 = 0.2;
/// Motion of the observer.
const WALK: WalkConfig = WalkConfig { stride: 0.14, turn: TURN, eye: EYE, pitch: -0.06 };
/// Frames of a view of an end.
const LOOK: usize = 5;
/// Distance from the doorway at which the passage begins, in meters.
const APPROACH: f32 = 0.7;
/// Waits at an end longer than this many frames leave time to look around the room.
const GLANCE: usize = 22;

/// A planned episode.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub poses: Vec<Pose>,
    pub patrol: Patrol,
    /// First frame at the post, and first frame of the return.
    pub watch: std::ops::Range<usize>,
    /// Frames of the passage through the doorway, during which the ends are still not visible.
    pub transit: std::ops::Range<usize>,
    /// The observation post.
    pub post: Pose,
}

impl Plan {
    /// Draws a plan; nothing is checked yet.
    pub fn draw(hall: &Hall, random: &mut ChaCha8Rng) -> Self {
        let middle = hall.middle();
        let aside = random.random_range(-0.5..0.5f32);
        let back = random.random_range(2.2..(hall.room[1] - 0.8).min(3.4));
        let post = [hall.door + aside, -WALL - back];
        let watch_yaw = (WALL - post[1] - WALL).atan2(hall.door - post[0]);
        let order = if random.random_bool(0.5) { End::BOTH } else { [End::East, End::West] };

        let mut walker = Walker::new(WALK, middle, order[0].yaw());
        walker.wait(LOOK - 1);
        walker.look(order[1].yaw());
        walker.wait(LOOK);
        walker.follow(&[[hall.door, -WALL - 0.6], post]);
        walker.look(watch_yaw);
        let start = walker.frames();
        let patrol = Patrol::draw(hall, start, random);
        let rest = patrol.end() + random.random_range(6..20) - start;
        walker.wait(rest);
        let boundary = walker.frames();
        walker.look((-WALL - 0.2 - post[1]).atan2(hall.door - post[0]));
        walker.follow(&[[hall.door, -WALL - 0.2]]);
        walker.follow(&[middle]);
        let passed = walker.frames();
        let looks = if random.random_bool(0.5) { End::BOTH } else { [End::East, End::West] };
        for end in looks {
            walker.look(end.yaw());
            walker.wait(LOOK);
        }
        let mut poses = walker.finish();
        for (index, angle) in glances(&patrol, start, random) {
            let Pose { position, .. } = poses[index];
            poses[index] = Pose::from_yaw_pitch(position, watch_yaw + angle, WALK.pitch);
        }
        settle(hall, &mut poses);
        let near = |pose: &Pose| pose.position[1] > -WALL - APPROACH;
        let first = (boundary..passed).find(|&frame| near(&poses[frame])).unwrap_or(boundary);
        let post = Pose::from_yaw_pitch([post[0], post[1], EYE], watch_yaw, WALK.pitch);
        for pose in &mut poses[start - 1..boundary] {
            if pose.distance(&post) < 1e-3 && wrap_angle(pose.yaw() - watch_yaw).abs() < 1e-3 {
                *pose = post;
            }
        }
        Self { poses, patrol, watch: start - 1..boundary, transit: first..passed, post }
    }

    /// The pose from which an end is viewed.
    pub fn end_view(hall: &Hall, end: End) -> Pose {
        let [x, y] = hall.middle();
        Pose::from_yaw_pitch([x, y, EYE], end.yaw(), WALK.pitch)
    }
}

/// Turns of the camera while the agent waits at an end: frame and angle off the watch direction.
fn glances(patrol: &Patrol, start: usize, random: &mut ChaCha8Rng) -> Vec<(usize, f32)> {
    let mut turned = Vec::new();
    let mut free = start;
    for crossing in &patrol.crossings {
        if crossing.start - free >= GLANCE && random.random_bool(0.7) {
            let side = if random.random_bool(0.5) { 1.0 } else { -1.0 };
            let way = [1.0, 2.0, 3.0, 4.0, 4.0, 4.0, 3.0, 2.0, 1.0];
            for (step, share) in way.into_iter().enumerate() {
                turned.push((free + 5 + step, side * share * TURN));
            }
        }
        free = crossing.start + patrol.walk;
    }
    turned
}

/// Views of the ends use exactly the same numbers every time, so that the same world gives the same
/// bytes.
fn settle(hall: &Hall, poses: &mut [Pose]) {
    for end in End::BOTH {
        let view = Plan::end_view(hall, end);
        for pose in poses.iter_mut() {
            let turned = wrap_angle(pose.yaw() - view.yaw()).abs();
            if pose.distance(&view) < 2e-3 && turned < 2e-3 {
                *pose = view;
            }
        }
    }
}
