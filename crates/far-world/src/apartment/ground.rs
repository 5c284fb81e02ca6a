//! Which cells of a furnished plan people can stand on.

use super::plan::{Plan, Space};
use crate::grid::index_in;

/// The walkable floor of a plan, updated as furniture is placed.
#[derive(Clone, Debug)]
pub struct Ground {
    size: [i32; 2],
    /// Cells that cannot be walked on: walls and furniture.
    blocked: Vec<bool>,
}

impl Ground {
    /// The floor of an empty plan.
    pub fn new(plan: &Plan) -> Self {
        let blocked = plan.cells.iter().map(|&space| space == Space::Wall).collect();
        Self { size: plan.size, blocked }
    }

    fn index(&self, cell: [i32; 2]) -> Option<usize> {
        index_in(self.size, cell)
    }

    /// Whether a wall or a piece of furniture stands in the cell.
    pub fn is_blocked(&self, cell: [i32; 2]) -> bool {
        self.index(cell).is_none_or(|index| self.blocked[index])
    }

    /// Whether a person can stand in the center of the cell: it and its eight neighbors are free.
    pub fn is_walkable(&self, [x, y]: [i32; 2]) -> bool {
        (-1..=1).all(|dy| (-1..=1).all(|dx| !self.is_blocked([x + dx, y + dy])))
    }

    /// Blocks or frees cells.
    pub fn block(&mut self, cells: impl Iterator<Item = [i32; 2]>, blocked: bool) {
        for cell in cells {
            if let Some(index) = self.index(cell) {
                self.blocked[index] = blocked;
            }
        }
    }

    /// Marks the walkable cells that are reachable from a cell (by index, row by row).
    pub fn reachable(&self, from: [i32; 2]) -> Vec<bool> {
        let mut seen = vec![false; self.blocked.len()];
        let mut queue = Vec::new();
        let mut visit = |cell: [i32; 2], queue: &mut Vec<[i32; 2]>| {
            if let Some(index) = self.index(cell).filter(|_| self.is_walkable(cell))
                && !seen[index]
            {
                seen[index] = true;
                queue.push(cell);
            }
        };
        visit(from, &mut queue);
        while let Some([x, y]) = queue.pop() {
            for next in [[x + 1, y], [x - 1, y], [x, y + 1], [x, y - 1]] {
                visit(next, &mut queue);
            }
        }
        seen
    }

    /// Whether every doorway of the plan is reachable from every other.
    pub fn joins_doors(&self, plan: &Plan) -> bool {
        let Some(first) = plan.doors.first() else { return true };
        let seen = self.reachable(first.middle());
        plan.doors.iter().all(|door| self.index(door.middle()).is_some_and(|index| seen[index]))
    }
}
