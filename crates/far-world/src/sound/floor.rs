//! Which parts of a floor block sound, as a grid seen from above.

/// A rectangle of square cells, each open or a wall; everything outside is wall.
///
/// Only what reaches from floor to ceiling is wall: sound passes over furniture.
#[derive(Clone, Debug, PartialEq)]
pub struct Floor {
    columns: usize,
    rows: usize,
    cell: f32,
    walls: Vec<bool>,
}

impl Floor {
    /// A floor of `columns` × `rows` cells of `cell` meters, with walls where `is_wall(column,
    /// row)`. Cell (0, 0) spans X and Y from 0 to `cell`.
    pub fn new(
        columns: usize,
        rows: usize,
        cell: f32,
        mut is_wall: impl FnMut(usize, usize) -> bool,
    ) -> Self {
        let walls = (0..columns * rows).map(|i| is_wall(i % columns, i / columns)).collect();
        Self { columns, rows, cell, walls }
    }

    /// Number of cells along X and along Y.
    pub fn size(&self) -> (usize, usize) {
        (self.columns, self.rows)
    }

    /// Side of a cell in meters.
    pub fn cell(&self) -> f32 {
        self.cell
    }

    /// Whether a cell is wall; cells outside the grid are.
    pub fn is_wall(&self, column: i32, row: i32) -> bool {
        column < 0
            || row < 0
            || column as usize >= self.columns
            || row as usize >= self.rows
            || self.walls[row as usize * self.columns + column as usize]
    }

    /// Whether the point (X, Y) in meters lies in an open cell.
    pub fn is_open(&self, [x, y]: [f32; 2]) -> bool {
        !self.is_wall((x / self.cell).floor() as i32, (y / self.cell).floor() as i32)
    }

    /// Whether the straight line between two points hits no wall.
    ///
    /// Steps from cell to cell; where the line passes exactly through a corner the X step is taken
    /// first.
    pub fn is_clear(&self, from: [f32; 2], to: [f32; 2]) -> bool {
        let [fx, fy] = from.map(|v| v / self.cell);
        let [tx, ty] = to.map(|v| v / self.cell);
        let (mut column, mut row) = (fx.floor() as i32, fy.floor() as i32);
        let (last_column, last_row) = (tx.floor() as i32, ty.floor() as i32);
        if self.is_wall(column, row) || self.is_wall(last_column, last_row) {
            return false;
        }
        let mut steps_x = (last_column - column).unsigned_abs();
        let mut steps_y = (last_row - row).unsigned_abs();
        let (dx, dy) = (tx - fx, ty - fy);
        let (step_x, step_y) = (if dx < 0.0 { -1 } else { 1 }, if dy < 0.0 { -1 } else { 1 });
        // The fraction of the line at which the next column (row) is entered.
        let share = |from: f32, cell: i32, step: i32, length: f32| {
            (cell as f32 + (step > 0) as i32 as f32 - from) / length
        };
        let mut next_x = share(fx, column, step_x, dx);
        let mut next_y = share(fy, row, step_y, dy);
        let (advance_x, advance_y) = ((1.0 / dx).abs(), (1.0 / dy).abs());
        while steps_x > 0 || steps_y > 0 {
            if steps_y == 0 || (steps_x > 0 && next_x <= next_y) {
                column += step_x;
                next_x += advance_x;
                steps_x -= 1;
            } else {
                row += step_y;
                next_y += advance_y;
                steps_y -= 1;
            }
            if self.is_wall(column, row) {
                return false;
            }
        }
        true
    }

    /// Meters from an open point to the first wall to the east, north, west and south.
    pub fn walls_around(&self, [x, y]: [f32; 2]) -> [f32; 4] {
        let (column, row) = ((x / self.cell).floor() as i32, (y / self.cell).floor() as i32);
        let run = |step_x: i32, step_y: i32| {
            let mut cells = 0;
            while !self.is_wall(column + step_x * (cells + 1), row + step_y * (cells + 1)) {
                cells += 1;
            }
            cells
        };
        let edge = |cells: i32| cells as f32 * self.cell;
        [
            edge(column + run(1, 0) + 1) - x,
            edge(row + run(0, 1) + 1) - y,
            x - edge(column - run(-1, 0)),
            y - edge(row - run(0, -1)),
        ]
    }
}

#[cfg(test)]
impl Floor {
    /// A floor drawn as text, north up: `#` is wall, anything else is open.
    pub fn from_text(drawing: &str, cell: f32) -> Self {
        let lines: Vec<&[u8]> =
            drawing.lines().map(|line| line.trim().as_bytes()).filter(|l| !l.is_empty()).collect();
        let columns = lines.iter().map(|line| line.len()).max().unwrap_or(0);
        let rows = lines.len();
        Self::new(columns, rows, cell, |column, row| {
            lines[rows - 1 - row].get(column).is_none_or(|&byte| byte == b'#')
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ROOMS: &str = "
        ##########
        #...#....#
        #...#....#
        #........#
        #...#....#
        ##########";

    #[test]
    fn outside_is_wall() {
        let floor = Floor::from_text("###\n#.#\n###", 1.0);
        assert!(!floor.is_wall(1, 1) && floor.is_wall(0, 0) && floor.is_wall(-1, 7));
    }

    #[test]
    fn walls_block_and_doors_do_not() {
        let floor = Floor::from_text(ROOMS, 0.5);
        assert_eq!(floor.size(), (10, 6));
        assert!(!floor.is_clear([1.0, 2.2], [3.0, 2.2]), "through the wall");
        assert!(floor.is_clear([1.0, 1.25], [3.0, 1.25]), "through the door");
        assert!(!floor.is_clear([1.0, 1.25], [9.0, 1.25]), "out of the building");
    }

    #[test]
    fn distances_to_walls_are_measured_from_the_point() {
        let floor = Floor::from_text(ROOMS, 0.5);
        let around = floor.walls_around([1.1, 2.2]);
        for (seen, true_distance) in around.iter().zip([0.9, 0.3, 0.6, 1.7]) {
            assert!((seen - true_distance).abs() < 1e-5, "{around:?}");
        }
        assert!((floor.walls_around([1.1, 1.2])[0] - 3.4).abs() < 1e-5, "through the door");
    }

    /// Samples many points of the line; misses walls that the line only grazes.
    fn is_clear_by_sampling(floor: &Floor, a: [f32; 2], b: [f32; 2]) -> bool {
        (0..=4000).all(|i| {
            let share = i as f32 / 4000.0;
            floor.is_open([a[0] + share * (b[0] - a[0]), a[1] + share * (b[1] - a[1])])
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn a_clear_line_has_only_open_points(
            walls in proptest::collection::vec(proptest::bool::weighted(0.2), 64),
            ends in proptest::array::uniform4(0.01f32..7.99),
        ) {
            let floor = Floor::new(8, 8, 1.0, |column, row| walls[row * 8 + column]);
            let (a, b) = ([ends[0], ends[1]], [ends[2], ends[3]]);
            let sampled = is_clear_by_sampling(&floor, a, b);
            if floor.is_clear(a, b) {
                prop_assert!(sampled, "a wall was stepped over");
            } else if sampled {
                // The line grazes a wall: shifting it slightly must either free it or make the
                // samples hit the wall.
                let length = ((b[0] - a[0]).powi(2) + (b[1] - a[1]).powi(2)).sqrt();
                let aside = [(a[1] - b[1]) / length * 0.01, (b[0] - a[0]) / length * 0.01];
                let moved = |p: [f32; 2], s: f32| [p[0] + s * aside[0], p[1] + s * aside[1]];
                let seen = [-1.0, 1.0].map(|s| is_clear_by_sampling(&floor, moved(a, s), moved(b, s)));
                prop_assert!(!(seen[0] && seen[1]), "no wall is near the line");
            }
        }
    }
}
