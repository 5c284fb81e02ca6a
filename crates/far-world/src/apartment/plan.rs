//! Floor plans: rooms and a corridor, with walls, doors and windows.
//!
//! Walls stand where the labels of a lattice change; doors make every room reachable, and a few
//! more make loops.

use super::lattice::Lattice;
use super::passage::{cut_doors, cut_windows};
use crate::grid::index_in;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Side of a plan cell in meters; walls are one cell thick.
pub const CELL: f32 = 0.25;

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

impl Space {
    /// The room that the cell is part of.
    pub fn room(self) -> Option<u8> {
        if let Self::Room(room) = self { Some(room) } else { None }
    }
}

/// Use of a room.
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

/// One floor.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Cells along X and Y.
    pub size: [i32; 2],
    /// The cells, row by row from the south.
    pub cells: Vec<Space>,
    /// Use of each room; the corridor is the first.
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
        let labels = lattice.labels(random);
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

    /// What a cell is; everything outside is wall.
    pub fn at(&self, cell: [i32; 2]) -> Space {
        index_in(self.size, cell).map_or(Space::Wall, |index| self.cells[index])
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
        self.at(Self::cell_at(point)).room()
    }

    /// Whether a wall cell is part of a window.
    pub fn is_window(&self, cell: [i32; 2]) -> bool {
        self.windows.iter().any(|Window { low, size }| {
            (0..2).all(|axis| (low[axis]..low[axis] + size[axis]).contains(&cell[axis]))
        })
    }

    /// The cells of a room, from the south-west.
    pub fn room_cells(&self, room: u8) -> impl Iterator<Item = [i32; 2]> + '_ {
        let columns = self.size[0];
        let all = self.cells.iter().enumerate();
        all.filter(move |(_, space)| **space == Space::Room(room))
            .map(move |(i, _)| [i as i32 % columns, i as i32 / columns])
    }

    /// Assigns a use to every room: the largest is the living room, the smallest the bath.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;

    /// All open cells that are reachable from the first one.
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
