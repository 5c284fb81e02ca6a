//! Matrix products with the `gemm` crate, split so that every core is busy.
//!
//! The crate leaves the second core idle for products as small as those of a laptop's world model,
//! so the rows of the result are split here, by shape alone. It is slower if the right-hand matrix
//! is transposed, because each piece then gathers it again: callers transpose once instead
//! ([`transpose`]), which costs a fraction of what it saves.

use crate::parallel::{for_parts, with_scratch};
use crate::vectorize::vectorized;
use gemm::Parallelism;
use std::ops::Range;

/// Rows of the result that one piece computes: large enough to amortize packing the right side.
const PIECE_ROWS: usize = 320;
/// Below this many multiplications a product is not worth splitting.
const SPLIT_FLOOR: usize = 1 << 20;

/// A read-only matrix view: `values[row · row_stride + column · column_stride]`.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a> {
    values: &'a [f32],
    row_stride: usize,
    column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// A row-major matrix of `columns` columns.
    pub(crate) fn plain(values: &'a [f32], columns: usize) -> Self {
        Self { values, row_stride: columns, column_stride: 1 }
    }

    /// The transpose of a row-major matrix of `columns` columns.
    pub(crate) fn transposed(values: &'a [f32], columns: usize) -> Self {
        Self { values, row_stride: 1, column_stride: columns }
    }

    fn skip_rows(self, rows: usize) -> Self {
        Self { values: &self.values[(rows * self.row_stride).min(self.values.len())..], ..self }
    }

    fn reaches(&self, rows: usize, columns: usize) -> bool {
        let last = rows.saturating_sub(1) * self.row_stride
            + columns.saturating_sub(1) * self.column_stride;
        rows * columns == 0 || last < self.values.len()
    }
}

/// target [rows, columns] ← left [rows, inner] · right [inner, columns], added to the existing
/// values if `accumulate`; on the calling thread.
pub(crate) fn multiply_here(
    target: &mut [f32],
    [rows, inner, columns]: [usize; 3],
    left: Matrix<'_>,
    right: Matrix<'_>,
    accumulate: bool,
) {
    assert!(target.len() >= rows * columns, "the result fits");
    assert!(
        left.reaches(rows, inner) && right.reaches(inner, columns),
        "the operands are large enough"
    );
    if inner == 0 && !accumulate {
        target[..rows * columns].fill(0.0);
    }
    // SAFETY: the three matrices lie inside their slices, as just asserted, and `target` is
    // borrowed mutably, so it overlaps neither operand.
    unsafe {
        gemm::gemm(
            rows,
            columns,
            inner,
            target.as_mut_ptr(),
            1,
            columns as isize,
            accumulate,
            left.values.as_ptr(),
            left.column_stride as isize,
            left.row_stride as isize,
            right.values.as_ptr(),
            right.column_stride as isize,
            right.row_stride as isize,
            1.0,
            1.0,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

/// Rows per piece of a product of this size.
pub(crate) fn piece_rows([rows, inner, columns]: [usize; 3]) -> usize {
    if rows * inner * columns < SPLIT_FLOOR {
        return rows.max(1);
    }
    // At least two pieces, so that two cores share even a small product.
    rows.div_ceil((rows.div_ceil(PIECE_ROWS)).max(2)).max(1)
}

/// The product of [`multiply_here`] on all threads; `before` and `after` are called for each piece
/// of rows before and after it is computed, while it is in cache.
pub(crate) fn multiply_with(
    target: &mut [f32],
    sizes: [usize; 3],
    left: Matrix<'_>,
    right: Matrix<'_>,
    accumulate: bool,
    before: impl Fn(Range<usize>, &mut [f32]) + Sync,
    after: impl Fn(Range<usize>, &mut [f32]) + Sync,
) {
    let [_, inner, columns] = sizes;
    for_parts(target, columns, piece_rows(sizes), |range, part| {
        before(range.clone(), part);
        let piece = [range.len(), inner, columns];
        multiply_here(part, piece, left.skip_rows(range.start), right, accumulate);
        after(range, part);
    });
}

/// target [rows, columns] ← left · right on all threads, added to the existing values if
/// `accumulate`.
pub(crate) fn multiply(
    target: &mut [f32],
    sizes: [usize; 3],
    left: Matrix<'_>,
    right: Matrix<'_>,
    accumulate: bool,
) {
    multiply_with(target, sizes, left, right, accumulate, |_, _| {}, |_, _| {});
}

/// Lends the transpose [columns, rows] of a row-major [rows, columns] matrix.
pub(crate) fn with_transpose<T>(
    source: &[f32],
    columns: usize,
    work: impl FnOnce(&[f32]) -> T,
) -> T {
    with_scratch(source.len(), |transposed| {
        transpose(transposed, source, columns);
        work(transposed)
    })
}

/// Writes the transpose of a row-major matrix of `columns` columns.
pub(crate) fn transpose(target: &mut [f32], source: &[f32], columns: usize) {
    let rows = source.len() / columns.max(1);
    const TILE: usize = 16;
    // A piece is a band of target rows, that is, of source columns.
    let grain = (crate::parallel::GRAIN / rows.max(1)).next_multiple_of(TILE);
    for_parts(target, rows, grain, |band, part| {
        transpose_band(part, source, columns, band.start, rows);
    });
}

vectorized! {
    fn transpose_band(
        target: &mut [f32],
        source: &[f32],
        columns: usize,
        first_column: usize,
        rows: usize,
    ) {
        const TILE: usize = 16;
        let width = target.len() / rows.max(1);
        for row in (0..rows).step_by(TILE) {
            let tall = TILE.min(rows - row);
            for column in 0..width {
                let out = &mut target[column * rows + row..][..tall];
                let from = &source[row * columns + first_column + column..];
                for (step, value) in out.iter_mut().enumerate() {
                    *value = from[step * columns];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reference(left: &[f32], right: &[f32], [rows, inner, columns]: [usize; 3]) -> Vec<f32> {
        let mut result = vec![0.0; rows * columns];
        for row in 0..rows {
            for column in 0..columns {
                for middle in 0..inner {
                    result[row * columns + column] +=
                        left[row * inner + middle] * right[middle * columns + column];
                }
            }
        }
        result
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn products_match_the_reference(
            rows in 1usize..90, inner in 1usize..40, columns in 1usize..50, seed in 0u32..1000,
        ) {
            let fill = |count: usize, salt: u32| -> Vec<f32> {
                (0..count as u32).map(|i| ((i * 7919 + seed + salt) % 97) as f32 / 97.0 - 0.5).collect()
            };
            let (left, right) = (fill(rows * inner, 1), fill(inner * columns, 2));
            let expected = reference(&left, &right, [rows, inner, columns]);
            let mut plain = vec![1.0; rows * columns];
            let sizes = [rows, inner, columns];
            multiply(&mut plain, sizes, Matrix::plain(&left, inner), Matrix::plain(&right, columns), false);
            let mut turned = vec![0.0; right.len()];
            transpose(&mut turned, &right, columns);
            let mut other = vec![1.0; rows * columns];
            multiply(&mut other, sizes, Matrix::plain(&left, inner), Matrix::transposed(&turned, inner), true);
            for index in 0..expected.len() {
                prop_assert!((plain[index] - expected[index]).abs() < 1e-4);
                prop_assert!((other[index] - 1.0 - expected[index]).abs() < 1e-4);
            }
        }
    }

    #[test]
    fn large_products_are_split_by_shape_alone() {
        assert_eq!(piece_rows([640, 128, 384]), 320);
        assert_eq!(piece_rows([1280, 256, 768]), 320);
        assert_eq!(piece_rows([20, 10, 10]), 20);
    }
}
