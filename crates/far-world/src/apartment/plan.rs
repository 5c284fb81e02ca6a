//! Floor plans: rooms on an uneven lattice, a corridor with elbows along its lines, doors, windows.
//!
//! A lattice of three or four by three blocks covers the floor. The corridor runs along inner
//! lattice lines and turns at least once, so that its legs look alike and a near place may lie
//! around the corner. Blocks become rooms, some of them joined. Walls stand where labels change;
//! doors are cut so that every room can be reached, and a few more to make loops.

use super::passage::{cut_doors, cut_windows};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Side of a plan cell in meters; walls are one cell thick.
pub const CELL: f32 = 0.25;

/// Width of the corridor in cells, walls included.
const CORRIDOR: i32 = 6;

/// Height of the ceiling in meters.
pub const CEILING: f32 = 2.5;

/// What a cell of the plan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Wall from floor to ceiling (or to the sill of a window).
    Wall,
    /// Part of the room with this number; 0 is the corridor.
    Room(u8),
    /// Part of the doorway with this number.
    Door(u8),
}

/// What a room is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]

pub enum RoomKind {
    Corridor,
    Living,
    Kitchen,
    Bedroom,
    Bath,
    Study,
    Dining,
    Laundry,
}

/// A doorway in a wall.
#[derive(Clone, Copy, Debug)]
pub struct Door {
    /// First cell, in the south-west.
    pub low: [i32; 2],
    /// Cells along X and along Y; one of them is the wall's thickness, 1.
    pub size: [i32; 2],
    /// The rooms on both sides: south or west first.
    pub rooms: [u8; 2],
}

impl Door {
    /// The cell in its middle.
    pub fn middle(&self) -> [i32; 2] {
        [self.low[0] + self.size[0] / 2, self.low[1] + self.size[1] / 2]
    }
}

/// A window in an outer wall.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// First cell, in the south-west.
    pub low: [i32; 2],
    /// Cells along X and along Y.
    pub size: [i32; 2],
}

/// A whole floor.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Cells along X and Y.
    pub size: [i32; 2],
    /// The cells, row by row from the south.
    pub cells: Vec<Space>,
    /// What each room is; the corridor is the first.
    pub rooms: Vec<RoomKind>,
    /// Doorways.
    pub doors: Vec<Door>,
    /// Windows.
    pub windows: Vec<Window>,
}

impl Plan {
    /// Draws a plan.
    pub fn draw(random: &mut ChaCha8Rng) -> Self {
        let lattice = Lattice::draw(random);
        let corridor = lattice.corridor(random);
        let labels = lattice.label(&corridor, random);
        let mut plan = Self::from_labels(lattice.size(), &labels);
        plan.name_rooms(random);
        cut_doors(&mut plan, random);
        cut_windows(&mut plan, random);
        plan
    }

    /// Puts walls where labels change and around the whole.
    fn from_labels(size: [i32; 2], labels: &[u8]) -> Self {
        let [columns, rows] = size;
        let label = |x: i32, y: i32| labels[(y * columns + x) as usize];
        let cells = (0..columns * rows)
            .map(|i| {
                let (x, y) = (i % columns, i / columns);
                let inner = x > 0 && y > 0 && x + 1 < columns && y + 1 < rows;
                let same = |dx, dy| label(x + dx, y + dy) == label(x, y);
                if inner && same(1, 0) && same(0, 1) && same(1, 1) {
                    Space::Room(label(x, y))
                } else {
                    Space::Wall
                }
            })
            .collect();
        let rooms = labels.iter().max().map_or(0, |&last| usize::from(last) + 1);
        let rooms = vec![RoomKind::Corridor; rooms];
        Self { size, cells, rooms, doors: Vec::new(), windows: Vec::new() }
    }

    /// What a cell is; outside all is wall.
    pub fn at(&self, [x, y]: [i32; 2]) -> Space {
        let [columns, rows] = self.size;
        let inside = x >= 0 && y >= 0 && x < columns && y < rows;
        if inside { self.cells[(y * columns + x) as usize] } else { Space::Wall }
    }

    /// Changes a cell of the plan.
    pub fn set(&mut self, [x, y]: [i32; 2], space: Space) {
        self.cells[(y * self.size[0] + x) as usize] = space;
    }

    /// The cell that holds a point.
    pub fn cell_at(point: [f32; 2]) -> [i32; 2] {
        point.map(|meters| (meters / CELL).floor() as i32)
    }

    /// Middle of a cell in meters.
    pub fn middle(cell: [i32; 2]) -> [f32; 2] {
        cell.map(|index| (index as f32 + 0.5) * CELL)
    }

    /// The room at a point; `None` in walls and doorways.
    pub fn room_at(&self, point: [f32; 2]) -> Option<u8> {
        match self.at(Self::cell_at(point)) {
            Space::Room(room) => Some(room),
            _ => None,
        }
    }

    /// Whether a cell of wall holds a part of a window.
    pub fn is_window(&self, cell: [i32; 2]) -> bool {
        self.windows.iter().any(|Window { low, size }| {
            (0..2).all(|axis| (low[axis]..low[axis] + size[axis]).contains(&cell[axis]))
        })
    }

    /// The cells of a room, from the south-west on.
    pub fn room_cells(&self, room: u8) -> impl Iterator<Item = [i32; 2]> + '_ {
        let columns = self.size[0];
        let all = self.cells.iter().enumerate();
        all.filter(move |(_, space)| **space == Space::Room(room))
            .map(move |(i, _)| [i as i32 % columns, i as i32 / columns])
    }

    /// Gives every room a use: the largest is the living room, the smallest the bath.
    fn name_rooms(&mut self, random: &mut ChaCha8Rng) {
        let mut by_area: Vec<(usize, usize)> =
            (1..self.rooms.len()).map(|room| (self.room_cells(room as u8).count(), room)).collect();
        by_area.sort_unstable_by(|a, b| b.cmp(a));
        let mut uses = vec![RoomKind::Kitchen, RoomKind::Bedroom];
        let mut more =
            vec![RoomKind::Study, RoomKind::Dining, RoomKind::Laundry, RoomKind::Bedroom];
        while !more.is_empty() {
            uses.push(more.swap_remove(random.random_range(0..more.len())));
        }
        let last = by_area.len().saturating_sub(1);
        let mut uses = uses.into_iter().cycle();
        for (rank, &(_, room)) in by_area.iter().enumerate() {
            self.rooms[room] = match rank {
                0 => RoomKind::Living,
                rank if rank == last => RoomKind::Bath,
                _ => uses.next().unwrap_or(RoomKind::Bedroom),
            };
        }
    }
}

/// The lines that divide the floor into blocks, in cells.
struct Lattice {
    lines: [Vec<i32>; 2],
}

/// A part of the corridor between two crossings of lattice lines.
type Leg = [[usize; 2]; 2];

impl Lattice {
    fn draw(random: &mut ChaCha8Rng) -> Self {
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

    fn size(&self) -> [i32; 2] {
        [0, 1].map(|axis| self.lines[axis].last().map_or(0, |&end| end + 1))
    }

    fn blocks(&self) -> [usize; 2] {
        [0, 1].map(|axis| self.lines[axis].len() - 1)
    }

    /// A corridor along inner lines: a walk that turns, at times a ring, at times with a spur that
    /// ends at an outer wall.
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

    /// A walk over inner crossings that never meets itself, with at least three legs and one turn
    /// where the lattice has room for it.
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

    /// A label per cell: 0 along the corridor, one number per room elsewhere.
    fn label(&self, corridor: &[Leg], random: &mut ChaCha8Rng) -> Vec<u8> {
        let [wide, deep] = self.blocks();
        let [columns, rows] = self.size();
        let mut rooms: Vec<usize> = (0..wide * deep).collect();
        self.join(corridor, random, &mut rooms);
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
        for leg in corridor {
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

    /// Joins a few neighboring blocks that no corridor parts.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;

    /// All open cells that can be reached from the first one.
    fn reached(plan: &Plan) -> usize {
        let [columns, _] = plan.size;
        let open = |cell: [i32; 2]| plan.at(cell) != Space::Wall;
        let first = plan.cells.iter().position(|&c| c != Space::Wall).unwrap() as i32;
        let mut seen = vec![false; plan.cells.len()];
        let mut queue = vec![[first % columns, first / columns]];
        seen[first as usize] = true;
        let mut count = 0;
        while let Some([x, y]) = queue.pop() {
            count += 1;
            for next in [[x + 1, y], [x - 1, y], [x, y + 1], [x, y - 1]] {
                let index = (next[1] * columns + next[0]) as usize;
                if open(next) && !seen[index] {
                    seen[index] = true;
                    queue.push(next);
                }
            }
        }
        count
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn every_plan_is_whole(seed in any::<u64>()) {
            let plan = Plan::draw(&mut ChaCha8Rng::seed_from_u64(seed));
            let open = plan.cells.iter().filter(|&&cell| cell != Space::Wall).count();
            prop_assert_eq!(reached(&plan), open, "every open cell can be reached");
            prop_assert!(plan.rooms.len() >= 6 && plan.rooms.len() <= 13, "{}", plan.rooms.len());
            for room in 0..plan.rooms.len() as u8 {
                let area = plan.room_cells(room).count() as f32 * CELL * CELL;
                prop_assert!(area > 4.0, "room {} has {} square meters", room, area);
            }
            prop_assert!(plan.rooms.contains(&RoomKind::Living) && plan.rooms.contains(&RoomKind::Bath));
            prop_assert!(plan.windows.len() >= 4);
            for door in &plan.doors {
                prop_assert!(door.rooms[0] != door.rooms[1]);
                prop_assert!(door.size.contains(&1) && door.size[0].max(door.size[1]) >= 4);
            }
        }

        #[test]
        fn neighbors_of_different_rooms_are_parted_by_a_wall(seed in any::<u64>()) {
            let plan = Plan::draw(&mut ChaCha8Rng::seed_from_u64(seed));
            for y in 0..plan.size[1] {
                for x in 0..plan.size[0] {
                    for next in [[x + 1, y], [x, y + 1]] {
                        if let (Space::Room(a), Space::Room(b)) = (plan.at([x, y]), plan.at(next)) {
                            prop_assert_eq!(a, b);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn corridors_turn() {
        // A straight corridor would span only one narrow strip of cells.
        for seed in 0..40 {
            let plan = Plan::draw(&mut ChaCha8Rng::seed_from_u64(seed));
            let (mut wide, mut deep) = (Vec::new(), Vec::new());
            for [x, y] in plan.room_cells(0) {
                wide.push(x);
                deep.push(y);
            }
            for axis in [wide, deep] {
                let span = axis.iter().max().unwrap() - axis.iter().min().unwrap();
                assert!(span > 12, "seed {seed}");
            }
        }
    }
}
