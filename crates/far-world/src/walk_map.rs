//! A walkable map, and shortest paths on it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::grid::{VoxelGrid, index_in};
use crate::prop::Prop;

/// Cost of one step; corners and tolls are added in the same unit.
const STEP: u32 = 10;
/// Cost of a corner: worth a detour of two cells, so that legs stay straight.
const CORNER: u32 = 20;
/// Steps east, north, west, south.
const STEPS: [[i32; 2]; 4] = [[1, 0], [0, 1], [-1, 0], [0, -1]];

/// A cell of a [`WalkMap`]: column and row.
pub type Cell = [i32; 2];

/// A flat map of square cells, each walkable or not.
#[derive(Clone, Debug)]
pub struct WalkMap {
    origin: [f32; 2],
    cell: f32,
    count: [i32; 2],
    free: Vec<bool>,
}

impl WalkMap {
    /// A map of `count` cells of `cell` meters from the corner `origin`, all free.
    pub fn open(origin: [f32; 2], cell: f32, count: [i32; 2]) -> Self {
        let free = vec![true; (count[0] * count[1]) as usize];
        Self { origin, cell, count, free }
    }

    /// A map over a grid: cells are blocked where a voxel or a visible prop lies between the heights
    /// `low` and `high` within `clearance` meters of the cell's square.
    pub fn over(
        grid: &VoxelGrid,
        props: &[Prop],
        cell: f32,
        [low, high]: [f32; 2],
        clearance: f32,
    ) -> Self {
        let voxel = grid.voxel();
        let [x, y, _] = grid.origin();
        let size = [grid.count()[0] as f32 * voxel, grid.count()[1] as f32 * voxel];
        let count = size.map(|meters| (meters / cell).floor() as i32);
        let mut map = Self::open([x, y], cell, count);
        let bottom = grid.voxel_at([x, y, low + 0.01])[2];
        let top = grid.voxel_at([x, y, high - 0.01])[2];
        for j in 0..grid.count()[1] as i32 {
            for i in 0..grid.count()[0] as i32 {
                if (bottom..=top).any(|k| grid.is_solid([i, j, k])) {
                    let corner = grid.corner([i, j, 0]);
                    let low = [corner[0] - clearance, corner[1] - clearance];
                    let high = [corner[0] + voxel + clearance, corner[1] + voxel + clearance];
                    map.block(low, high);
                }
            }
        }
        for prop in props.iter().filter(|prop| prop.visible) {
            let reach = 0.5 * prop.size[0].hypot(prop.size[1]);
            let [x, y, z] = prop.center;
            if z + 0.5 * prop.size[2] > low && z - 0.5 * prop.size[2] < high {
                // Rotated boxes block the square around them if they are small, and their own
                // outline if they are axis-aligned.
                let (sin, cos) = prop.yaw.sin_cos();
                let [w, d] = [0.5 * prop.size[0], 0.5 * prop.size[1]];
                let half_x = (w * cos.abs() + d * sin.abs()).min(reach) + clearance;
                let half_y = (w * sin.abs() + d * cos.abs()).min(reach) + clearance;
                map.block([x - half_x, y - half_y], [x + half_x, y + half_y]);
            }
        }
        map
    }

    /// Blocks every cell that the open rectangle between two points touches.
    pub fn block(&mut self, low: [f32; 2], high: [f32; 2]) {
        let at = |axis: usize, value: f32| (value - self.origin[axis]) / self.cell;
        let from = |axis: usize| (at(axis, low[axis]) + 1e-4).floor().max(0.0) as i32;
        let to =
            |axis: usize| ((at(axis, high[axis]) - 1e-4).ceil() as i32).clamp(0, self.count[axis]);
        for row in from(1)..to(1) {
            for column in from(0)..to(0) {
                self.free[(row * self.count[0] + column) as usize] = false;
            }
        }
    }

    fn index(&self, cell: Cell) -> Option<usize> {
        index_in(self.count, cell)
    }

    /// Whether a cell is walkable.
    pub fn is_free(&self, cell: Cell) -> bool {
        self.index(cell).is_some_and(|index| self.free[index])
    }

    /// Middle of a cell in the world.
    pub fn center(&self, cell: Cell) -> [f32; 2] {
        std::array::from_fn(|axis| self.origin[axis] + (cell[axis] as f32 + 0.5) * self.cell)
    }

    /// All free cells, row by row.
    pub fn free_cells(&self) -> Vec<Cell> {
        let cells = (0..self.count[1]).flat_map(|row| (0..self.count[0]).map(move |c| [c, row]));
        cells.filter(|&cell| self.is_free(cell)).collect()
    }

    /// The cheapest path between two cells over free cells, both included; `None` if there is none.
    ///
    /// Steps go east, north, west or south. A step costs 10, a corner 20 more, and entering a cell
    /// its `toll`; the same tolls give the same path, ties going to the lower cell index.
    pub fn way(&self, from: Cell, to: Cell, toll: impl Fn(Cell) -> u32) -> Option<Vec<Cell>> {
        let (start, goal) = (self.index(from)?, self.index(to)?);
        if !self.free[start] || !self.free[goal] {
            return None;
        }
        let ahead = |cell: Cell| STEP * ((to[0] - cell[0]).abs() + (to[1] - cell[1]).abs()) as u32;
        // A state is a cell and the heading of arrival.
        let mut cost = vec![u32::MAX; 4 * self.free.len()];
        let mut origin = vec![u32::MAX; 4 * self.free.len()];
        let mut queue = BinaryHeap::new();
        for heading in 0..4 {
            cost[4 * start + heading] = 0;
            queue.push(Reverse((ahead(from), 4 * start + heading)));
        }
        while let Some(Reverse((estimate, state))) = queue.pop() {
            let (at, heading) = (state / 4, state % 4);
            let cell = [at as i32 % self.count[0], at as i32 / self.count[0]];
            if at == goal {
                return Some(self.trace(&origin, state));
            }
            if estimate > cost[state] + ahead(cell) {
                continue;
            }
            for (turned, step) in STEPS.iter().enumerate() {
                let next = [cell[0] + step[0], cell[1] + step[1]];
                let Some(index) = self.index(next).filter(|&index| self.free[index]) else {
                    continue;
                };
                let corner = if turned == heading { 0 } else { CORNER };
                let total = cost[state] + STEP + corner + toll(next);
                let entry = 4 * index + turned;
                if total < cost[entry] {
                    cost[entry] = total;
                    origin[entry] = state as u32;
                    queue.push(Reverse((total + ahead(next), entry)));
                }
            }
        }
        None
    }

    fn trace(&self, origin: &[u32], mut state: usize) -> Vec<Cell> {
        let mut cells = Vec::new();
        loop {
            let at = (state / 4) as i32;
            cells.push([at % self.count[0], at / self.count[0]]);
            match origin[state] {
                u32::MAX => break,
                earlier => state = earlier as usize,
            }
        }
        cells.reverse();
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::unit;

    /// The least cost by relaxing every state until nothing changes.
    fn slow_cost(map: &WalkMap, from: Cell, to: Cell) -> Option<u32> {
        let mut cost = vec![u32::MAX; 4 * map.free.len()];
        for heading in 0..4 {
            cost[4 * map.index(from)? + heading] = 0;
        }
        for _ in 0..map.free.len() {
            for cell in map.free_cells() {
                for heading in 0..4 {
                    let own = cost[4 * map.index(cell)? + heading];
                    if own == u32::MAX {
                        continue;
                    }
                    for (turned, step) in STEPS.iter().enumerate() {
                        let next = [cell[0] + step[0], cell[1] + step[1]];
                        if map.is_free(next) {
                            let entry = 4 * map.index(next)? + turned;
                            let corner = if turned == heading { 0 } else { CORNER };
                            cost[entry] = cost[entry].min(own + STEP + corner);
                        }
                    }
                }
            }
        }
        (0..4).map(|h| cost[4 * map.index(to).unwrap_or(0) + h]).min().filter(|&c| c < u32::MAX)
    }

    fn cost_of(way: &[Cell]) -> u32 {
        let step = |pair: &[Cell]| [pair[1][0] - pair[0][0], pair[1][1] - pair[0][1]];
        let corners = way.windows(3).filter(|w| step(&w[..2]) != step(&w[1..])).count() as u32;
        STEP * (way.len() as u32 - 1) + CORNER * corners
    }

    #[test]
    fn ways_are_as_cheap_as_the_slow_search_says() {
        for seed in 0..20u32 {
            let mut map = WalkMap::open([0.0; 2], 1.0, [9, 8]);
            for row in 0..8 {
                for column in 0..9 {
                    if unit(column, row, 0, seed) < 0.3 && [column, row] != [0, 0] {
                        map.block(
                            [column as f32, row as f32],
                            [column as f32 + 1.0, row as f32 + 1.0],
                        );
                    }
                }
            }
            let way = map.way([0, 0], [8, 7], |_| 0);
            let wanted = if map.is_free([8, 7]) { slow_cost(&map, [0, 0], [8, 7]) } else { None };
            assert_eq!(way.as_deref().map(cost_of), wanted, "seed {seed}");
        }
    }

    #[test]
    fn obstacles_block_with_clearance() {
        let mut grid = VoxelGrid::new([20, 20, 4], 0.5, [0.0; 3]);
        grid.set([10, 10, 1], crate::MaterialId(1));
        let map = WalkMap::over(&grid, &[], 1.0, [0.5, 2.0], 0.3);
        assert!(!map.is_free([5, 5]) && !map.is_free([4, 4]));
        assert!(map.is_free([3, 5]) && map.is_free([6, 5]) && map.is_free([7, 7]));
    }
}
