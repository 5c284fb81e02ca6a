//! Rows of a table by index (an embedding lookup): yᵢ = table[indexᵢ].
//!
//! Shapes: table [R, D…], n indices → [n, D…]. The backward scatters: d table[indexᵢ] += dyᵢ. Rows
//! scattered to the same index add up in the given order; each range of the table is filled by one
//! thread that scans all indices, so the order never changes.

use super::row::{for_rows, row_of};
use crate::parallel::{for_parts, row_grain};
use crate::vectorize::add_assign;
use crate::{Error, Result, Shape, Tape, Tensor};
use std::sync::Arc;

/// Largest number of row ranges of a table: each costs a scan over all indices.
const MOST_RANGES: usize = 8;

impl Tape {
    /// Rows of a table by index: table [R, D…], n indices → [n, D…].
    ///
    /// ```
    /// use far_tensor::{Device, Tape, Tensor};
    /// let table = Tensor::from_slice(&[1.0, 2.0, 3.0, 4.0], [2, 2])?;
    /// let rows = Tape::inference(&Device::cpu()).gather_rows(&table, vec![1, 0, 1])?;
    /// assert_eq!(rows.values(), [3.0, 4.0, 1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), far_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the table has no axis or an index is outside it.
    pub fn gather_rows(
        &mut self,
        table: &Tensor,
        indices: impl Into<Arc<[usize]>>,
    ) -> Result<Tensor> {
        let indices = indices.into();
        table.expect("gather_rows", table.shape().rank() > 0, || "a table has rows".into())?;
        let (_, rows, width) = table.shape().around(0);
        if let Some(&index) = indices.iter().find(|index| **index >= rows) {
            return Err(Error::Index { operation: "gather_rows", index, rows });
        }
        let mut extents = table.shape().extents().to_vec();
        extents[0] = indices.len();
        let shape = Shape::new(&extents);
        if let Some(cuda) = self.cuda() {
            return self.gather_rows_cuda(&cuda, shape, table, indices);
        }
        let mut output = self.device().buffer(indices.len() * width);
        for_rows(&mut output, width, width, |row, part| {
            part.copy_from_slice(row_of(table.values(), width, indices[row]));
        });
        Ok(self.record("gather_rows", shape, output, &[table], |_| {
            let table = table.clone();
            move |upstream, gradients| {
                gradients.with(&table, |gradient, accumulate| {
                    scatter(gradient, &upstream, &indices, width, accumulate);
                });
            }
        }))
    }
}

/// target[indices[i]] += rows[i], from zeros unless `accumulate`.
fn scatter(target: &mut [f32], rows: &[f32], indices: &[usize], width: usize, accumulate: bool) {
    let count = target.len() / width.max(1);
    let grain = row_grain(width).max(count.div_ceil(MOST_RANGES));
    for_parts(target, width, grain, |range, part| {
        if !accumulate {
            part.fill(0.0);
        }
        for (row, index) in indices.iter().enumerate() {
            if range.contains(index) {
                let place = (index - range.start) * width;
                add_assign(&mut part[place..place + width], row_of(rows, width, row));
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, check_gradients, evaluate, normal};
    use proptest::prelude::*;

    fn reference_scatter(x: &Tensor, indices: &[usize], rows: usize, width: usize) -> Vec<f32> {
        let mut result = vec![0.0; rows * width];
        for (position, index) in indices.iter().enumerate() {
            for column in 0..width {
                result[index * width + column] += x.values()[position * width + column];
            }
        }
        result
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn rows_match_the_reference(
            rows in 1usize..60, width in 1usize..40, unit in prop::sample::select(vec![1, 4, 8]), seed in 0u64..99,
            picks in proptest::collection::vec(0usize..1000, 0..70),
        ) {
            let width = width * unit;
            let indices: Vec<usize> = picks.iter().map(|pick| pick % rows).collect();
            let table = normal([rows, width], seed);
            let found = evaluate(|tape| tape.gather_rows(&table, indices.clone()));
            let expected: Vec<f32> = indices
                .iter()
                .flat_map(|index| table.values()[index * width..][..width].to_vec())
                .collect();
            prop_assert_eq!(found.values(), &expected[..]);

            let x = normal([indices.len(), width], seed + 1);
            let mut found = vec![f32::NAN; rows * width];
            scatter(&mut found, x.values(), &indices, width, false);
            assert_close(&found, &reference_scatter(&x, &indices, rows, width), 1e-6);
        }
    }

    #[test]
    fn gradients_match_differences() {
        for width in [3, 4, 8] {
            let x = [normal([4, width], 1)];
            check_gradients(&x, |tape, x| tape.gather_rows(&x[0], vec![3, 0, 3, 3, 1]));
        }
    }

    #[test]
    fn an_index_outside_is_named() {
        let mut tape = Tape::inference(&crate::Device::cpu());
        let error = tape.gather_rows(&normal([4, 3], 1), vec![0, 4]).unwrap_err();
        assert_eq!(error.to_string(), "gather_rows: index 4 is outside a table of 4 rows");
    }
}
