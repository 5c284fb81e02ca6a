//! Doorways and windows of a plan.

use super::plan::{Door, Plan, Space, Window};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Width of a normal doorway in cells: one meter.
const DOOR: i32 = 4;
/// Cells between a doorway and the end of its wall.
const MARGIN: i32 = 2;

/// A straight piece of wall with one room on its south or west side and another on the other.
#[derive(Clone, Copy, Debug)]
struct Run {
    low: [i32; 2],
    length: i32,
    /// The axis along which the wall runs.
    axis: usize,
    rooms: [u8; 2],
}

/// Opens doorways until every room is reachable, rooms at the corridor first, then some more.
pub fn cut_doors(plan: &mut Plan, random: &mut ChaCha8Rng) {
    let mut runs = inner_walls(plan);
    for last in (1..runs.len()).rev() {
        runs.swap(last, random.random_range(0..=last));
    }
    let mut group: Vec<usize> = (0..plan.rooms.len()).collect();
    let joined = |group: &mut Vec<usize>, [a, b]: [u8; 2]| {
        let (from, to) = (group[usize::from(b)], group[usize::from(a)]);
        group.iter_mut().filter(|g| **g == from).for_each(|g| *g = to);
        from != to
    };
    // Walls of the corridor come first: most rooms open to it.
    runs.sort_by_key(|run| run.rooms[0] != 0 && run.rooms[1] != 0);
    let mut extra = Vec::new();
    for run in runs {
        if joined(&mut group, run.rooms) {
            cut(plan, run, random);
        } else {
            extra.push(run);
        }
    }
    for run in extra {
        let known = plan.doors.iter().any(|door| door.rooms == run.rooms);
        if !known && random.random_bool(0.35) {
            cut(plan, run, random);
        }
    }
}

fn cut(plan: &mut Plan, run: Run, random: &mut ChaCha8Rng) {
    let number = plan.doors.len() as u8;
    let room = run.length - 2 * MARGIN;
    // Wide passages between rooms; normal doors at the corridor, so that its legs look alike.
    let arch = run.rooms[0] != 0 && run.rooms[1] != 0 && room >= 8 && random.random_bool(0.4);
    let width = if arch { 7 } else { DOOR };
    let offset = MARGIN + random.random_range(0..=room - width);
    let (mut low, mut size) = (run.low, [1, 1]);
    low[run.axis] += offset;
    size[run.axis] = width;
    for step in 0..width {
        let mut cell = low;
        cell[run.axis] += step;
        plan.set(cell, Space::Door(number));
    }
    plan.doors.push(Door { low, size, rooms: run.rooms });
}

/// The longest stretches of `0..length` over which `at` is the same: the value, start and length.
fn stretches<T: PartialEq>(length: i32, at: impl Fn(i32) -> T) -> Vec<(T, i32, i32)> {
    let mut found: Vec<(T, i32, i32)> = Vec::new();
    for place in 0..length {
        let value = at(place);
        match found.last_mut() {
            Some((same, _, count)) if *same == value => *count += 1,
            _ => found.push((value, place, 1)),
        }
    }
    found
}

/// All straight pieces of wall between two rooms that are long enough for a door.
fn inner_walls(plan: &Plan) -> Vec<Run> {
    let mut runs = Vec::new();
    for axis in [0, 1] {
        let across = 1 - axis;
        for line in 1..plan.size[across] - 1 {
            let cell =
                |along: i32, line: i32| if axis == 0 { [along, line] } else { [line, along] };
            let spaces =
                |along: i32| [line, line - 1, line + 1].map(|line| plan.at(cell(along, line)));
            let sides = |along: i32| match spaces(along) {
                [Space::Wall, Space::Room(a), Space::Room(b)] if a != b => Some([a, b]),
                _ => None,
            };
            for (rooms, start, length) in stretches(plan.size[axis], sides) {
                if let Some(rooms) = rooms
                    && length >= DOOR + 2 * MARGIN
                {
                    runs.push(Run { low: cell(start, line), length, axis, rooms });
                }
            }
        }
    }
    runs
}

/// Opens windows in the outer walls of rooms, and at the corridor's ends.
pub fn cut_windows(plan: &mut Plan, random: &mut ChaCha8Rng) {
    for axis in [0, 1] {
        let across = 1 - axis;
        for (line, inward) in [(0, 1), (plan.size[across] - 1, -1)] {
            let cell =
                |along: i32, line: i32| if axis == 0 { [along, line] } else { [line, along] };
            let behind = |along: i32| plan.at(cell(along, line + inward));
            for (space, start, length) in stretches(plan.size[axis], behind) {
                if !matches!(space, Space::Room(_)) {
                    continue;
                }
                let mut size = [1, 1];
                size[axis] = random.random_range(4..=6).min(length - 2);
                let parts = if length >= 22 { 2 } else { 1 };
                if size[axis] < 3 || !random.random_bool(0.9) {
                    continue;
                }
                for part in 0..parts {
                    let middle = start + length * (2 * part + 1) / (2 * parts);
                    let low = cell(middle - size[axis] / 2, line);
                    plan.windows.push(Window { low, size });
                }
            }
        }
    }
}
