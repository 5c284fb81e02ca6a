//! Quality control: the agent is visible when it crosses the doorway, and at no other time before
//! the reveal.

use far_memory::{Camera, Pose};

use super::hall::{DOORWAY, End, Hall, WALL};
use super::patrol::Stance;
use super::plan::Plan;
use crate::vector::{Vector, subtract};

/// Frames of every crossing in which the agent must be visible.
const SEEN: usize = 5;
/// Points of a person that are tested: heights above the floor and offsets along the corridor.
const HEIGHTS: [f32; 4] = [0.1, 0.7, 1.2, 1.65];
const OFFSETS: [f32; 3] = [-0.35, 0.0, 0.35];

/// Why a plan was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leak {
    /// An end of the corridor is visible from the post.
    EndFromPost(End),
    /// The agent is in view at a frame outside of its crossing windows.
    OutsideWindow(usize),
    /// A crossing is visible in too few frames.
    MissedCrossing(usize),
}

/// Checks a plan by geometry alone.
pub(crate) fn check(hall: &Hall, plan: &Plan, camera: &Camera) -> Result<(), Leak> {
    for end in End::BOTH {
        if sees(hall, &plan.post, camera, hall.end(end)) {
            return Err(Leak::EndFromPost(end));
        }
    }
    let mut seen = vec![0usize; plan.patrol.crossings.len()];
    for (frame, pose) in plan.poses[..plan.transit.end].iter().enumerate() {
        let Some(stance) = plan.patrol.stance(hall, frame) else { continue };
        if !sees(hall, pose, camera, stance.foot) {
            continue;
        }
        match stance.crossing {
            Some(crossing) if plan.watch.contains(&frame) && in_window(hall, plan, &stance) => {
                seen[crossing] += 1;
            }
            _ => return Err(Leak::OutsideWindow(frame)),
        }
    }
    match seen.iter().position(|&frames| frames < SEEN) {
        Some(crossing) => Err(Leak::MissedCrossing(crossing)),
        None => Ok(()),
    }
}

/// Whether the agent is where it is visible from the post through the doorway, with one step of
/// margin.
pub(crate) fn in_window(hall: &Hall, plan: &Plan, stance: &Stance) -> bool {
    let [x, y, _] = plan.post.position;
    let depth = (stance.foot[1] - y) / (-WALL - y);
    let edge = |side: f32| x + (hall.door + side * DOORWAY - x) * depth;
    let margin = 0.6;
    (edge(-1.0) - margin..edge(1.0) + margin).contains(&stance.foot[0])
}

/// Whether any of a person's points is in view and not occluded by a wall.
fn sees(hall: &Hall, pose: &Pose, camera: &Camera, foot: [f32; 2]) -> bool {
    HEIGHTS.iter().any(|&height| {
        OFFSETS.iter().any(|&offset| {
            let point: Vector = [foot[0] + offset, foot[1], height];
            let toward = subtract(point, pose.position);
            camera.sees(pose, point)
                && hall.stage.field().cast(pose.position, toward, 1.0).is_none()
        })
    })
}
