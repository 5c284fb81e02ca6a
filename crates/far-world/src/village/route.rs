//! Routes through a village: A to B and back, or A to B to C and back, at four distances.

use std::f32::consts::PI;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use far_memory::Pose;

use crate::noise::hash;
use crate::walk::{WalkConfig, Walker, corners};
use crate::walk_map::{Cell, WalkMap};

use super::plan::Cover;
use super::town::Town;

/// Distances between the points of a route, in meters.
pub(super) const TIERS: [u32; 4] = [5, 15, 30, 50];
/// Walking speed, eye height and turning rate: 6 m/s and 3 rad/s at 20 frames per second.
pub(super) const STRIDE: f32 = 0.3;
pub(super) const TURN: f32 = 0.15;
pub(super) const EYE: f32 = 1.6;
/// Frames of waiting before the walk starts in a revisiting episode, per visit of a place.
const LINGER: usize = 3;
/// Largest deviation of a patrolling walker from the center of the path, in meters, and of its yaw,
/// in radians. Paths keep more distance from walls than that.
const SWAY: f32 = 0.3;
const HEAD_TURN: f32 = 0.2;
/// Frames per radian of the deviations in x, y and yaw; all different.
const SWAY_FRAMES: [f32; 3] = [23.0, 31.0, 17.0];

/// A planned route: one pose per frame.
#[derive(Debug)]
pub(super) struct Route {
    pub name: &'static str,
    pub tier: u32,
    pub poses: Vec<Pose>,
    /// First frame of the last leg, back to A.
    pub boundary: usize,
    /// First frame of the last time before the return that the paths of the return were walked; 0
    /// if they were not walked before.
    pub last_visit: usize,
}

/// Two (ABA) or three points (ABCA) a tier apart, and the walk over them.
pub(super) fn loop_route(
    town: &Town,
    random: &mut ChaCha8Rng,
    three: bool,
    tier: u32,
) -> Option<Route> {
    let cells = standing_cells(town);
    for _ in 0..200 {
        let a = pick(random, &cells, |_| true)?;
        let Some(b) = pick_at(random, &cells, &town.map, a, tier) else { continue };
        let mut stops = vec![a, b];
        if three {
            let Some(c) = pick_third(random, &cells, &town.map, a, b, tier) else { continue };
            stops.push(c);
        }
        stops.push(a);
        let Some(legs) = legs(town, random, &stops) else { continue };
        let longest = 2.2 * tier as f32 + 8.0;
        if legs.iter().any(|leg| leg.len() as f32 > longest) {
            continue;
        }
        let mut walker = start(town, random, a);
        walker.scan();
        let (last, outbound) = legs.split_last()?;
        for leg in outbound {
            walker.follow(&points(town, leg));
        }
        let boundary = walker.frames();
        walker.follow(&points(town, last));
        let name = if three { "ABCA" } else { "ABA" };
        return Some(Route { name, tier, poses: walker.finish(), boundary, last_visit: 0 });
    }
    None
}

/// Rounds over three places, A, B and C; the last two legs of the last round, over C back to A, are
/// the return. So every path of the return has been walked in `rounds - 1` earlier rounds.
pub(super) fn patrol_route(
    town: &Town,
    random: &mut ChaCha8Rng,
    tier: u32,
    rounds: usize,
) -> Option<Route> {
    let cells = standing_cells(town);
    for _ in 0..200 {
        let a = pick(random, &cells, |_| true)?;
        let spread = tier.clamp(8, 20);
        let Some(b) = pick_at(random, &cells, &town.map, a, spread) else { continue };
        let Some(c) = pick_at(random, &cells, &town.map, b, spread) else { continue };
        let mut stops = [a, b, c].repeat(rounds);
        stops.push(a);
        let Some(legs) = legs(town, random, &stops) else { continue };
        if legs.iter().any(|leg| leg.len() as f32 > 2.2 * spread as f32 + 8.0) {
            continue;
        }
        let mut walker = start(town, random, a);
        walker.scan();
        let (outbound, back) = legs.split_at(legs.len() - 2);
        // The paths of the return, and the one from A to B in between.
        let last_visit_from = outbound.len() - 3;
        let mut last_visit = 0;
        for (number, leg) in outbound.iter().enumerate() {
            if number == last_visit_from {
                last_visit = walker.frames();
            }
            walker.follow(&points(town, leg));
            walker.wait(LINGER);
        }
        let boundary = walker.frames();
        for leg in back {
            walker.follow(&points(town, leg));
        }
        let mut poses = walker.finish();
        sway(&mut poses, random);
        return Some(Route { name: "patrol", tier: spread, poses, boundary, last_visit });
    }
    None
}

/// Shifts the walker a little to all sides and varies its yaw, slowly and never twice alike: a
/// round is not repeated step by step, so that a memory is not the very frame to predict.
fn sway(poses: &mut [Pose], random: &mut ChaCha8Rng) {
    let phases: [f32; 3] = std::array::from_fn(|_| random.random_range(0.0..2.0 * PI));
    for (frame, pose) in poses.iter_mut().enumerate() {
        let wave = |which: usize| (frame as f32 / SWAY_FRAMES[which] + phases[which]).sin();
        let [x, y, z] = pose.position;
        let position = [x + SWAY * wave(0), y + SWAY * wave(1), z];
        *pose = Pose::from_yaw_pitch(position, pose.yaw() + HEAD_TURN * wave(2), pose.pitch());
    }
}

fn start(town: &Town, random: &mut ChaCha8Rng, a: Cell) -> Walker {
    let config = WalkConfig {
        stride: STRIDE,
        turn: TURN,
        eye: EYE,
        pitch: random.random_range(-0.08..0.02),
    };
    Walker::new(config, town.map.center(a), random.random_range(-PI..PI))
}

/// Cells on lanes and squares, where routes start and end.
fn standing_cells(town: &Town) -> Vec<Cell> {
    let paved =
        |cell: &Cell| matches!(town.plan.cover(cell[0], cell[1]), Cover::Lane | Cover::Plaza);
    town.map.free_cells().into_iter().filter(paved).collect()
}

/// One of the cells that fit.
fn pick(random: &mut ChaCha8Rng, cells: &[Cell], fits: impl Fn(Cell) -> bool) -> Option<Cell> {
    let fitting: Vec<Cell> = cells.iter().copied().filter(|&cell| fits(cell)).collect();
    (!fitting.is_empty()).then(|| fitting[random.random_range(0..fitting.len())])
}

fn separation(map: &WalkMap, a: Cell, b: Cell) -> f32 {
    let (p, q) = (map.center(a), map.center(b));
    (p[0] - q[0]).hypot(p[1] - q[1])
}

/// A cell a tier away from `from`, within a sixth.
fn pick_at(
    random: &mut ChaCha8Rng,
    cells: &[Cell],
    map: &WalkMap,
    from: Cell,
    tier: u32,
) -> Option<Cell> {
    let tier = tier as f32;
    pick(random, cells, |cell| (separation(map, from, cell) - tier).abs() < tier / 6.0)
}

/// A cell about a tier away from both others.
fn pick_third(
    random: &mut ChaCha8Rng,
    cells: &[Cell],
    map: &WalkMap,
    a: Cell,
    b: Cell,
    tier: u32,
) -> Option<Cell> {
    let tier = tier as f32;
    pick(random, cells, |cell| {
        let (to_a, to_b) = (separation(map, a, cell), separation(map, b, cell));
        (0.5 * tier..1.1 * tier).contains(&to_a) && (0.6 * tier..1.1 * tier).contains(&to_b)
    })
}

/// Paths between consecutive stops; every leg has its own small random costs, so that a return is
/// not the way out in reverse.
fn legs(town: &Town, random: &mut ChaCha8Rng, stops: &[Cell]) -> Option<Vec<Vec<Cell>>> {
    stops
        .windows(2)
        .map(|pair| {
            let whim: u32 = random.random();
            let toll = |cell: Cell| {
                let coarse = hash(cell[0].div_euclid(4), cell[1].div_euclid(4), 0, whim) % 6;
                town.toll(cell) + coarse
            };
            town.map.way(pair[0], pair[1], toll)
        })
        .collect()
}

fn points(town: &Town, leg: &[Cell]) -> Vec<[f32; 2]> {
    let centers: Vec<[f32; 2]> = leg.iter().map(|&cell| town.map.center(cell)).collect();
    corners(&centers)
}
