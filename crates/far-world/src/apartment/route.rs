//! Routes through an apartment: A to B (and C) and back, with scans.
//!
//! The sparse variant scans at both ends of the exploration. The dense one is the same walk, pose
//! for pose, with more scans: at the turning point, in every region entered for the first time, and
//! after a long time without one (or halfway). The return follows, without scans, from the same
//! place in both.

use super::house::House;
use super::plan::Plan;
use crate::sound::{Corners, Floor};
use crate::walk::{WalkConfig, Walker};
use far_memory::Pose;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::f32::consts::TAU;

/// Lengths of the return in meters; a return belongs to the nearest tier.
pub const TIERS: [u32; 3] = [5, 10, 15];
/// Largest difference between a return's length and its tier, in meters.
const TOLERANCE: f32 = 2.5;

/// Frames of one full turn.
const SCAN: usize = 32;
/// The dense variant scans after this many frames without a scan: 9 seconds.
const LONG: usize = 90;
/// Frames in a region before it counts as entered, and least number of frames between two scans.
const SETTLED: usize = 8;

/// A person's walk: 1 m/s and 2 rad/s at 10 frames per second.
const WALK: WalkConfig = WalkConfig { stride: 0.1, turn: 0.2, eye: 1.5, pitch: -0.1 };

/// A planned route in its sparse form.
#[derive(Clone, Debug)]
pub struct Route {
    /// "ABA" or "ABCA".
    pub name: &'static str,
    /// The exploration, scans at both ends included.
    pub explore: Vec<Pose>,
    /// Index into `explore` of the first pose at each point between A and the last.
    pub turns: Vec<usize>,
    /// The return.
    pub back: Vec<Pose>,
}

impl Route {
    /// Draws a route over two or three points whose return has a tier's length; `None` if this draw
    /// found none.
    pub fn draw(house: &House, three: bool, tier: u32, random: &mut ChaCha8Rng) -> Option<Self> {
        let [columns, rows] = house.plan.size;
        let walkable = house.walkable();
        let floor = Floor::new(columns as usize, rows as usize, super::plan::CELL, |x, y| {
            !walkable[y * columns as usize + x]
        });
        let cells: Vec<usize> = (0..walkable.len()).filter(|&i| walkable[i]).collect();
        let corners = Corners::new(&floor);
        let pick = |random: &mut ChaCha8Rng| {
            let index = cells[random.random_range(0..cells.len())] as i32;
            Plan::middle([index % columns, index / columns])
        };
        let room = |point| house.plan.room_at(point);
        let way = |from, to| corners.way(&floor, from, to);
        for _ in 0..200 {
            let (a, last) = (pick(random), pick(random));
            let Some(back) = way(last, a) else { continue };
            if room(a) == room(last) || (length(&back) - tier as f32).abs() > TOLERANCE {
                continue;
            }
            // One more place on the way out: B of ABCA, or a room visited on the way to B.
            let between = (0..20).map(|_| pick(random)).find(|&place| {
                room(place).is_some_and(|found| {
                    Some(found) != room(a) && Some(found) != room(last) && found != 0
                })
            });
            let detour = three || random.random_bool(0.5);
            let mut stops = vec![a];
            stops.extend(between.filter(|_| detour));
            stops.push(last);
            if three && stops.len() < 3 {
                continue;
            }
            let legs: Option<Vec<_>> = stops.windows(2).map(|pair| way(pair[0], pair[1])).collect();
            return Some(Self::walk(three, &legs?, &back, random));
        }
        None
    }

    fn walk(
        three: bool,
        legs: &[Vec<[f32; 2]>],
        back: &[[f32; 2]],
        random: &mut ChaCha8Rng,
    ) -> Self {
        let mut walker = Walker::new(WALK, legs[0][0], random.random_range(0.0..TAU));
        let mut explore = scan(&walker_pose(&walker));
        let mut turns = Vec::new();
        for leg in legs {
            walker.follow(leg);
            turns.push(SCAN + walker.frames() - 1);
        }
        let end = walker.frames();
        walker.follow(back);
        let mut walked = walker.finish();
        let back = walked.split_off(end);
        explore.extend(walked);
        turns.pop();
        if let Some(&pose) = explore.last() {
            explore.extend(scan(&pose));
        }
        let name = if three { "ABCA" } else { "ABA" };
        Self { name, explore, turns, back }
    }

    /// The exploration with the dense variant's additional scans.
    pub fn dense(&self, plan: &Plan) -> Vec<Pose> {
        let places = self.scan_places(plan);
        let mut dense = Vec::with_capacity(self.explore.len() + places.len() * SCAN);
        for (index, pose) in self.explore.iter().enumerate() {
            dense.push(*pose);
            if places.contains(&index) {
                dense.extend(scan(pose));
            }
        }
        dense
    }

    /// After which poses of the exploration the dense variant scans: at the turning point, in every
    /// region entered for the first time, after a long time without a scan; halfway if there would
    /// be none.
    fn scan_places(&self, plan: &Plan) -> Vec<usize> {
        let region = |index: usize| {
            let [x, y, _] = self.explore[index].position;
            plan.room_at([x, y])
        };
        let end = self.explore.len() - SCAN;
        let mut scanned = vec![region(0), region(end)];
        let mut places = Vec::new();
        let (mut since, mut inside) = (0, 0);
        for index in SCAN..end {
            let here = region(index);
            since += 1;
            inside = if here.is_some() && !scanned.contains(&here) { inside + 1 } else { 0 };
            // The final scan is near; none is added right before it.
            let apart = since >= SETTLED && end - index >= SETTLED;
            let due = inside >= SETTLED || since >= LONG;
            if self.turns.contains(&index) || (apart && due) {
                places.push(index);
                scanned.push(here);
                (since, inside) = (0, 0);
            }
        }
        if places.is_empty() {
            places.push(usize::midpoint(SCAN, end));
        }
        places
    }
}

/// A full turn to the left from a pose, ending as it began; the pose itself is not repeated.
fn scan(pose: &Pose) -> Vec<Pose> {
    let (yaw, pitch) = (pose.yaw(), pose.pitch());
    let turned = |step: usize| yaw + step as f32 / SCAN as f32 * TAU;
    let mut poses: Vec<Pose> =
        (1..SCAN).map(|step| Pose::from_yaw_pitch(pose.position, turned(step), pitch)).collect();
    poses.push(*pose);
    poses
}

fn walker_pose(walker: &Walker) -> Pose {
    walker.clone().finish().last().copied().unwrap_or_default()
}

fn length(way: &[[f32; 2]]) -> f32 {
    way.windows(2).map(|pair| (pair[1][0] - pair[0][0]).hypot(pair[1][1] - pair[0][1])).sum()
}
