//! Products of matrices too small for packing to pay off, as for every head of attention.
//!
//! The result is computed in tiles of four rows by one lane of columns that stay in registers. The
//! left matrix is read one element at a time, so its strides are arbitrary; the right one and the
//! result are row-major, their rows padded to a multiple of [`LANE`].

use crate::buffer::LANE;
use crate::vectorize::{fused, vectorized};

/// Rows of the result held in registers at once: with one lane of columns this fills the
/// registers of AVX2 and hides the latency of multiply-add on AVX-512.
const TILE_ROWS: usize = 4;

/// The left matrix of a small product: `values[row · row_stride + column · column_stride]`.
#[derive(Clone, Copy)]
pub(crate) struct Left<'a> {
    pub values: &'a [f32],
    pub row_stride: usize,
    pub column_stride: usize,
}

impl<'a> Left<'a> {
    /// A row-major matrix whose rows are `stride` apart.
    pub(crate) fn plain(values: &'a [f32], stride: usize) -> Self {
        Self { values, row_stride: stride, column_stride: 1 }
    }

    /// The transpose of a row-major matrix whose rows are `stride` apart.
    pub(crate) fn transposed(values: &'a [f32], stride: usize) -> Self {
        Self { values, row_stride: 1, column_stride: stride }
    }
}

/// `length` rounded up to whole lanes.
pub(crate) fn padded(length: usize) -> usize {
    length.next_multiple_of(LANE)
}

vectorized! {
    /// target [rows, columns] ← left [rows, inner] · right [inner, columns], added to what is
    /// there if `accumulate`. `columns` is a multiple of [`LANE`] and the row stride of both
    /// `target` and `right`.
    pub(crate) fn multiply_small(
        target: &mut [f32],
        sizes: [usize; 3],
        left: Left<'_>,
        right: &[f32],
        accumulate: bool,
    ) {
        let [rows, inner, columns] = sizes;
        assert!(columns.is_multiple_of(LANE), "rows are padded to whole lanes");
        assert!(target.len() >= rows * columns && right.len() >= inner * columns, "both fit");
        if rows == 0 || inner == 0 {
            if !accumulate {
                target[..rows * columns].fill(0.0);
            }
            return;
        }
        let last = (rows - 1) * left.row_stride + (inner - 1) * left.column_stride;
        assert!(last < left.values.len(), "the left matrix is large enough");
        let mut row = 0;
        while row + TILE_ROWS <= rows {
            for column in (0..columns).step_by(LANE) {
                // SAFETY: all indices are inside their slices by the assertions above.
                unsafe {
                    tile::<FUSED, TILE_ROWS>(target, row, column, columns, inner, left, right, accumulate);
                }
            }
            row += TILE_ROWS;
        }
        while row < rows {
            for column in (0..columns).step_by(LANE) {
                // SAFETY: as above.
                unsafe { tile::<FUSED, 1>(target, row, column, columns, inner, left, right, accumulate) };
            }
            row += 1;
        }
    }
}

/// One tile of `ROWS` rows by one lane of columns.
///
/// # Safety
/// Rows `row..row + ROWS` and columns `column..column + LANE` lie inside `target`, `inner` rows of
/// those columns inside `right`, and `left` reaches (row + ROWS − 1, inner − 1).
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn tile<const FUSED: bool, const ROWS: usize>(
    target: &mut [f32],
    row: usize,
    column: usize,
    columns: usize,
    inner: usize,
    left: Left<'_>,
    right: &[f32],
    accumulate: bool,
) {
    let mut sums = [[0.0f32; LANE]; ROWS];
    // SAFETY: the caller guarantees that every offset below stays inside its slice.
    unsafe {
        let left_start = left.values.as_ptr().add(row * left.row_stride);
        let right_start = right.as_ptr().add(column);
        for step in 0..inner {
            let lane = &*right_start.add(step * columns).cast::<[f32; LANE]>();
            for (index, sums) in sums.iter_mut().enumerate() {
                let factor = *left_start.add(index * left.row_stride + step * left.column_stride);
                for (sum, value) in sums.iter_mut().zip(lane) {
                    *sum = fused::<FUSED>(factor, *value, *sum);
                }
            }
        }
        for (index, sums) in sums.iter().enumerate() {
            let start = target.as_mut_ptr().add((row + index) * columns + column);
            let out = &mut *start.cast::<[f32; LANE]>();
            for (out, sum) in out.iter_mut().zip(sums) {
                *out = if accumulate { *out + sum } else { *sum };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, normal};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn small_products_match_the_reference(
            rows in 1usize..14, inner in 1usize..20, lanes in 1usize..4, seed in 0u64..99,
        ) {
            let columns = lanes * LANE;
            let left = normal([rows, inner], seed);
            let right = normal([inner, columns], seed + 1);
            let mut turned = vec![0.0; rows * inner];
            crate::product::transpose(&mut turned, left.values(), inner);
            let mut expected = vec![0.0; rows * columns];
            for row in 0..rows {
                for column in 0..columns {
                    for middle in 0..inner {
                        expected[row * columns + column] +=
                            left.values()[row * inner + middle] * right.values()[middle * columns + column];
                    }
                }
            }
            let sizes = [rows, inner, columns];
            let mut found = vec![f32::NAN; rows * columns];
            multiply_small(&mut found, sizes, Left::plain(left.values(), inner), right.values(), false);
            assert_close(&found, &expected, 1e-5);
            multiply_small(&mut found, sizes, Left::transposed(&turned, rows), right.values(), true);
            let doubled: Vec<f32> = expected.iter().map(|x| 2.0 * x).collect();
            assert_close(&found, &doubled, 1e-5);
        }
    }
}
