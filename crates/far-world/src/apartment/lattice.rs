//! The lattice of a plan: uneven blocks, some of them joined into rooms, and a corridor.
//!
//! The corridor runs along inner lattice lines and turns at least once, so that its legs look alike
//! and a nearby place can be around the corner.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Width of the corridor in cells, walls included.
const CORRIDOR: i32 = 6;

/// The lines that divide the floor into blocks, in cells.
#[derive(Debug)]
pub struct Lattice {
    lines: [Vec<i32>; 2],
}

/// A part of the corridor between two lattice crossings.
type Leg = [[usize; 2]; 2];

impl Lattice {
    /// Draws three or four by three blocks, each 4.25 to 5.5 m wide.
    pub fn draw(random: &mut ChaCha8Rng) -> Self {
        let (wide, deep) = [(4, 3), (3, 3), (3, 4)][random.random_range(0..3usize)];
        let mut line = |blocks: usize| {
            let mut at = 0;
            let mut lines = vec![0];
            for _ in 0..blocks {
                at += random.random_range(17..=22);
                lines.push(at);
            }
            lines
        };
        Self { lines: [line(wide), line(deep)] }
    }

    /// Cells along X and Y.
    pub fn size(&self) -> [i32; 2] {
        [0, 1].map(|axis| self.lines[axis].last().map_or(0, |&end| end + 1))
    }

    fn blocks(&self) -> [usize; 2] {
        [0, 1].map(|axis| self.lines[axis].len() - 1)
    }

    /// A corridor along inner lines: a path with turns, sometimes a ring, sometimes with a spur to
    /// an outer wall.
    fn corridor(&self, random: &mut ChaCha8Rng) -> Vec<Leg> {
        let [wide, deep] = self.blocks();
        let mut legs = if random.random_bool(0.3) {
            let corners = [[1, 1], [wide - 1, 1], [wide - 1, deep - 1], [1, deep - 1]];
            (0..4).map(|i| [corners[i], corners[(i + 1) % 4]]).collect()
        } else {
            self.walk(random)
        };
        if random.random_bool(0.6) {
            let [x, y] = legs[legs.len() - 1][1];
            let spurs = [[0, y], [wide, y], [x, 0], [x, deep]];
            let reach = |to: &[usize; 2]| to[0].abs_diff(x) + to[1].abs_diff(y) == 1;
            let mut spurs: Vec<[usize; 2]> = spurs.into_iter().filter(reach).collect();
            if !spurs.is_empty() {
                legs.push([[x, y], spurs.swap_remove(random.random_range(0..spurs.len()))]);
            }
        }
        legs
    }

    /// A path over inner crossings that never meets itself, with at least three legs and one turn
    /// if the lattice has room for it.
    fn walk(&self, random: &mut ChaCha8Rng) -> Vec<Leg> {
        let [wide, deep] = self.blocks();
        loop {
            let mut at = [random.random_range(1..wide), random.random_range(1..deep)];
            let mut visited = vec![at];
            loop {
                let steps = [[1, 0], [-1, 0], [0, 1], [0, -1]].map(|step: [isize; 2]| {
                    [at[0].wrapping_add_signed(step[0]), at[1].wrapping_add_signed(step[1])]
                });
                let free = |to: &[usize; 2]| {
                    (1..wide).contains(&to[0])
                        && (1..deep).contains(&to[1])
                        && !visited.contains(to)
                };
                let mut open: Vec<[usize; 2]> = steps.into_iter().filter(free).collect();
                if open.is_empty() {
                    break;
                }
                at = open.swap_remove(random.random_range(0..open.len()));
                visited.push(at);
            }
            let legs: Vec<Leg> = visited.windows(2).map(|pair| [pair[0], pair[1]]).collect();
            let turns = visited.windows(3).any(|w| w[0][0] != w[2][0] && w[0][1] != w[2][1]);
            if legs.len() >= 3 && turns {
                return legs;
            }
        }
    }

    /// Draws a corridor and rooms: one label per cell, 0 for the corridor, otherwise the room's
    /// number.
    pub fn labels(&self, random: &mut ChaCha8Rng) -> Vec<u8> {
        let corridor = self.corridor(random);
        let [wide, deep] = self.blocks();
        let [columns, rows] = self.size();
        let mut rooms: Vec<usize> = (0..wide * deep).collect();
        self.join(&corridor, random, &mut rooms);
        let mut numbers: Vec<usize> = rooms.clone();
        numbers.sort_unstable();
        numbers.dedup();
        let number = |block: usize| {
            numbers.iter().position(|&n| n == rooms[block]).expect("every block has a room") as u8
                + 1
        };
        let block_of = |axis: usize, at: i32| {
            let lines = &self.lines[axis];
            lines[1..lines.len() - 1].iter().filter(|&&line| at >= line).count()
        };
        let mut labels: Vec<u8> = (0..columns * rows)
            .map(|i| number(block_of(1, i / columns) * wide + block_of(0, i % columns)))
            .collect();
        let half = CORRIDOR / 2;
        for leg in &corridor {
            let at = |axis: usize, end: usize| self.lines[axis][leg[end][axis]];
            let span = |axis: usize, limit: i32| {
                let (a, b) = (at(axis, 0), at(axis, 1));
                (a.min(b) - half).max(0)..(a.max(b) + half).min(limit)
            };
            for y in span(1, rows) {
                for x in span(0, columns) {
                    labels[(y * columns + x) as usize] = 0;
                }
            }
        }
        labels
    }

    /// Joins a few neighboring blocks that no corridor separates.
    fn join(&self, corridor: &[Leg], random: &mut ChaCha8Rng, rooms: &mut [usize]) {
        let [wide, deep] = self.blocks();
        let runs_along = |a: [usize; 2], b: [usize; 2]| {
            corridor.iter().any(|leg| {
                let within = |axis: usize, point: [usize; 2]| {
                    let (low, high) =
                        (leg[0][axis].min(leg[1][axis]), leg[0][axis].max(leg[1][axis]));
                    (low..=high).contains(&point[axis])
                };
                [a, b].iter().all(|&point| within(0, point) && within(1, point))
            })
        };
        for _ in 0..random.random_range(1..=wide + deep - 4) {
            let (x, y) = (random.random_range(0..wide), random.random_range(0..deep));
            let eastward = random.random_bool(0.5);
            let (other, ends) = if eastward {
                ([x + 1, y], [[x + 1, y], [x + 1, y + 1]])
            } else {
                ([x, y + 1], [[x, y + 1], [x + 1, y + 1]])
            };
            let (a, b) = (y * wide + x, other[1] * wide + other[0]);
            let inside = other[0] < wide && other[1] < deep;
            let alone = |block: usize| rooms.iter().filter(|&&r| r == rooms[block]).count() == 1;
            if inside && !runs_along(ends[0], ends[1]) && alone(a) && alone(b) {
                rooms[b] = rooms[a];
            }
        }
    }
}
