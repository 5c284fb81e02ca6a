//! The assignment problem: one column for each row so that the total weight is greatest.
//!
//! Shortest augmenting paths with potentials (the Hungarian method as Jonker and Volgenant run it),
//! in O(rows² · columns) with whole-number weights, so that the result is exact.

use crate::scratch::refill;

/// Storage kept between calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct Assignment {
    row_potential: Vec<i64>,
    column_potential: Vec<i64>,
    /// Row + 1 that holds a column, 0 when free; index 0 is the imaginary column of the search.
    holder: Vec<usize>,
    previous: Vec<usize>,
    distance: Vec<i64>,
    visited: Vec<bool>,
}

impl Assignment {
    /// Assigns every row its own column with the greatest total of `weights`
    /// (row-major, `rows` × `columns`, `rows ≤ columns`) and writes the column of each row.
    ///
    /// Of several best assignments the one found by scanning columns in order is taken.
    pub(crate) fn solve(
        &mut self,
        weights: &[i64],
        rows: usize,
        columns: usize,
        chosen: &mut Vec<usize>,
    ) {
        assert!(rows <= columns && weights.len() == rows * columns, "rows must fit into columns");
        refill(&mut self.row_potential, rows + 1, 0);
        refill(&mut self.column_potential, columns + 1, 0);
        refill(&mut self.holder, columns + 1, 0);
        refill(&mut self.previous, columns + 1, 0);
        for row in 1..=rows {
            self.augment(weights, row, columns);
        }
        refill(chosen, rows, 0);
        for column in 1..=columns {
            if self.holder[column] != 0 {
                chosen[self.holder[column] - 1] = column - 1;
            }
        }
    }

    /// Gives `row` a column by the cheapest alternating path.
    fn augment(&mut self, weights: &[i64], row: usize, columns: usize) {
        refill(&mut self.distance, columns + 1, i64::MAX);
        refill(&mut self.visited, columns + 1, false);
        self.holder[0] = row;
        let mut column = 0;
        loop {
            self.visited[column] = true;
            let holder = self.holder[column];
            let (mut step, mut next) = (i64::MAX, 0);
            for other in 1..=columns {
                if self.visited[other] {
                    continue;
                }
                // Costs are negated weights: the method finds the least total.
                let cost = -weights[(holder - 1) * columns + other - 1]
                    - self.row_potential[holder]
                    - self.column_potential[other];
                if cost < self.distance[other] {
                    self.distance[other] = cost;
                    self.previous[other] = column;
                }
                if self.distance[other] < step {
                    step = self.distance[other];
                    next = other;
                }
            }
            for other in 0..=columns {
                if self.visited[other] {
                    self.row_potential[self.holder[other]] += step;
                    self.column_potential[other] -= step;
                } else if self.distance[other] != i64::MAX {
                    self.distance[other] -= step;
                }
            }
            column = next;
            if self.holder[column] == 0 {
                break;
            }
        }
        while column != 0 {
            let previous = self.previous[column];
            self.holder[column] = self.holder[previous];
            column = previous;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The best total over all ways to choose distinct columns.
    fn brute_force(weights: &[i64], rows: usize, columns: usize, row: usize, used: u32) -> i64 {
        if row == rows {
            return 0;
        }
        (0..columns)
            .filter(|column| used >> column & 1 == 0)
            .map(|column| {
                weights[row * columns + column]
                    + brute_force(weights, rows, columns, row + 1, used | 1 << column)
            })
            .max()
            .expect("a free column")
    }

    #[test]
    fn a_shared_favorite_goes_where_it_counts_most() {
        let mut chosen = Vec::new();
        Assignment::default().solve(&[9, 8, 0, 9, 1, 0], 2, 3, &mut chosen);
        assert_eq!(chosen, [1, 0]);
    }

    #[test]
    fn nothing_to_assign_is_fine() {
        let mut chosen = vec![3];
        Assignment::default().solve(&[], 0, 0, &mut chosen);
        assert!(chosen.is_empty());
    }

    proptest! {
        #[test]
        fn total_equals_brute_force(
            (rows, columns, weights) in (1usize..5, 0usize..4).prop_flat_map(|(rows, extra)| {
                let columns = rows + extra;
                (Just(rows), Just(columns), prop::collection::vec(-5i64..20, rows * columns))
            }),
        ) {
            let mut solver = Assignment::default();
            let mut chosen = Vec::new();
            for _ in 0..2 {
                solver.solve(&weights, rows, columns, &mut chosen);
                let total: i64 =
                    chosen.iter().enumerate().map(|(row, column)| weights[row * columns + column]).sum();
                prop_assert_eq!(total, brute_force(&weights, rows, columns, 0, 0));
                let mut distinct = chosen.clone();
                distinct.sort_unstable();
                distinct.dedup();
                prop_assert_eq!(distinct.len(), rows);
            }
        }
    }
}
