//! Work that several rows would repeat is done once: distinct rows, and where each of them belongs.

use far_tensor::{Result, Tape, Tensor};
use std::sync::Arc;

/// Which row of a table of distinct rows stands in each of several places.
#[derive(Clone, Debug)]
pub(crate) struct RowIndex {
    rows: Arc<[usize]>,
    /// Whether the places are the rows of the table in their order.
    apart: bool,
}

impl RowIndex {
    /// `count` places with a row each.
    pub(crate) fn apart(count: usize) -> Self {
        Self { rows: (0..count).collect(), apart: true }
    }

    /// The rows in each of `rows.len()` places, of a table of `distinct` rows.
    pub(crate) fn new(rows: Vec<usize>, distinct: usize) -> Self {
        let apart = rows.len() == distinct && rows.iter().enumerate().all(|(at, row)| at == *row);
        Self { rows: rows.into(), apart }
    }

    /// Finds which of `count` places hold the same as the place `stride` before: the first place of
    /// every distinct row, and where the rows belong.
    pub(crate) fn distinct(
        count: usize,
        stride: usize,
        same: impl Fn(usize, usize) -> bool,
    ) -> (Vec<usize>, Self) {
        let (mut first, mut rows) = (Vec::new(), Vec::<usize>::with_capacity(count));
        for place in 0..count {
            let known = place.checked_sub(stride).filter(|before| same(*before, place));
            rows.push(known.map_or(first.len(), |before| rows[before]));
            if known.is_none() {
                first.push(place);
            }
        }
        let places = Self::new(rows, first.len());
        (first, places)
    }

    /// How many places there are.
    pub(crate) fn count(&self) -> usize {
        self.rows.len()
    }

    /// The row in each place.
    pub(crate) fn rows(&self) -> &[usize] {
        &self.rows
    }

    /// The table's rows [distinct, …] in their places [count, …].
    pub(crate) fn spread(&self, tape: &mut Tape, table: &Tensor) -> Result<Tensor> {
        if self.apart { Ok(table.clone()) } else { tape.gather_rows(table, self.rows.clone()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use far_tensor::Device;

    #[test]
    fn what_repeats_is_listed_once_and_spread_again() {
        // Pairs: the first halves repeat, the second ones do so once.
        let values = [5.0, 1.0, 5.0, 2.0, 5.0, 2.0, 6.0, 2.5];
        let (first, places) = RowIndex::distinct(8, 2, |a, b| values[a] == values[b]);
        assert_eq!(first, [0, 1, 3, 6, 7]);
        let rows: Vec<f32> = first.iter().map(|place| values[*place]).collect();
        let table = Tensor::from_slice(&rows, [5, 1]).unwrap();
        let spread = places.spread(&mut Tape::inference(&Device::cpu()), &table).unwrap();
        assert_eq!((spread.values(), places.count()), (&values[..], 8));
    }

    #[test]
    fn what_does_not_repeat_is_not_copied() {
        let (first, places) = RowIndex::distinct(3, 1, |_, _| false);
        assert_eq!(first, RowIndex::apart(3).rows());
        let mut tape = Tape::recording(&Device::cpu());
        let table = tape.variable(&Tensor::from_slice(&[1.0, 2.0, 3.0], [3, 1]).unwrap());
        let spread = places.spread(&mut tape, &table).unwrap();
        assert_eq!((spread.values(), tape.recorded()), (table.values(), 1));
    }
}
