//! Curves in a terminal: two by four dots per character, from the Braille block of Unicode.

use std::ops::RangeInclusive;

/// The dots of a character by column and row, as bits above U+2800.
const DOTS: [[u32; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];

/// A drawing area: its size in characters, and the values at its edges.
#[derive(Clone, Debug, PartialEq)]
pub struct Canvas {
    /// Characters across.
    pub columns: usize,
    /// Characters down.
    pub rows: usize,
    /// Values at the left and at the right edge.
    pub across: RangeInclusive<f64>,
    /// Values at the lower and at the upper edge.
    pub upward: RangeInclusive<f64>,
}

impl Canvas {
    /// The curve through points that ascend in x, as one text per row. If several points fall on
    /// one column of dots, their mean is drawn; values beyond an edge are drawn on it.
    pub fn draw(&self, points: &[(f64, f64)]) -> Vec<String> {
        let (width, height) = (2 * self.columns, 4 * self.rows);
        let mut letters = vec![0x2800; self.columns * self.rows];
        let mut mark = |x: usize, y: usize| {
            letters[y / 4 * self.columns + x / 2] |= DOTS[x % 2][y % 4];
        };
        let mut last: Option<(usize, usize)> = None;
        for (x, y) in self.columns_of_dots(points, width, height) {
            // Neighbors are joined by a line, so that steep curves have no gaps.
            let from = last.map_or(y, |(_, before)| before);
            let middle = (from + y) / 2;
            let lines = [(last.map_or(x, |(x, _)| x), from, middle), (x, middle, y)];
            for (column, one, other) in lines {
                (one.min(other)..=one.max(other)).for_each(|row| mark(column, row));
            }
            last = Some((x, y));
        }
        let row = |letters: &[u32]| letters.iter().copied().filter_map(char::from_u32).collect();
        letters.chunks(self.columns.max(1)).map(row).collect()
    }

    /// For each column of dots that has points, the row of their mean.
    fn columns_of_dots(
        &self,
        points: &[(f64, f64)],
        width: usize,
        height: usize,
    ) -> Vec<(usize, usize)> {
        let mut columns: Vec<(usize, f64, f64)> = Vec::new();
        let finite = |point: &&(f64, f64)| point.0.is_finite() && point.1.is_finite();
        for (x, y) in points.iter().filter(finite) {
            let x = place(*x, &self.across, width);
            match columns.last_mut() {
                Some((column, sum, count)) if *column == x => {
                    *sum += y;
                    *count += 1.0;
                }
                _ => columns.push((x, *y, 1.0)),
            }
        }
        let down = |y: f64| height - 1 - place(y, &self.upward, height);
        columns.into_iter().map(|(x, sum, count)| (x, down(sum / count))).collect()
    }
}

/// Which of `count` equal steps along a range a value falls on.
fn place(value: f64, range: &RangeInclusive<f64>, count: usize) -> usize {
    let length = range.end() - range.start();
    let share = if length > 0.0 { (value - range.start()) / length } else { 0.0 };
    (share.clamp(0.0, 1.0) * (count - 1) as f64).round() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canvas(columns: usize, rows: usize) -> Canvas {
        Canvas { columns, rows, across: 0.0..=1.0, upward: 0.0..=1.0 }
    }

    #[test]
    fn corners_are_corner_dots() {
        assert_eq!(canvas(2, 1).draw(&[(0.0, 0.0)]), ["⡀⠀"]);
        assert_eq!(canvas(2, 1).draw(&[(1.0, 1.0)]), ["⠀⠈"]);
        assert_eq!(canvas(1, 2).draw(&[(0.0, 7.0)]), ["⠁", "⠀"]);
        assert_eq!(canvas(2, 2).draw(&[]), ["⠀⠀", "⠀⠀"]);
    }

    #[test]
    fn a_step_is_a_line_and_a_diagonal_holds_together() {
        assert_eq!(canvas(1, 1).draw(&[(0.0, 0.0), (1.0, 1.0)]), ["⡞"]);
        let diagonal: Vec<(f64, f64)> = (0..100).map(|n| n as f64 / 99.0).map(|x| (x, x)).collect();
        assert_eq!(canvas(4, 2).draw(&diagonal), ["⠀⢀⡴⠋", "⡴⠋⠀⠀"].map(String::from));
    }

    #[test]
    fn what_is_not_a_number_leaves_no_dot() {
        assert_eq!(canvas(1, 1).draw(&[(0.0, f64::NAN), (f64::INFINITY, 0.0)]), ["⠀"]);
    }
}
