//! Shared by operations over rows: rows in parallel, optional masks, writing or adding.

use crate::buffer::Buffer;
use crate::parallel::{GRAIN, for_parts, row_grain};
use crate::{Device, Result, Tensor};

/// Elements summed in single precision before a sum continues in double.
pub(super) const PIECE: usize = GRAIN / 8;

/// Calls `work(row, part)` for every row of `width` elements of `target`, in parallel.
///
/// `cost` is the number of elements that the work on one row touches; it decides how rows are
/// grouped.
pub(super) fn for_rows(
    target: &mut [f32],
    width: usize,
    cost: usize,
    work: impl Fn(usize, &mut [f32]) + Sync,
) {
    for_parts(target, width, row_grain(cost), |range, part| {
        range.zip(part.chunks_exact_mut(width)).for_each(|(row, part)| work(row, part));
    });
}

/// One row of `width` elements.
pub(super) fn row_of(values: &[f32], width: usize, row: usize) -> &[f32] {
    &values[row * width..(row + 1) * width]
}

/// Writes `value`, or adds it to the existing one.
#[inline(always)]
pub(super) fn put(target: &mut f32, value: f32, accumulate: bool) {
    *target = if accumulate { *target + value } else { value };
}

/// Fails unless the mask, if given, has the shape of `x`.
pub(super) fn expect_mask(
    operation: &'static str,
    x: &Tensor,
    mask: Option<&Tensor>,
) -> Result<()> {
    mask.map_or(Ok(()), |mask| x.expect_same(operation, mask))
}

/// The rows of an optional mask; without one, every row is the same row of ones.
pub(super) struct RowMask<'a> {
    values: Option<&'a [f32]>,
    ones: Buffer,
    width: usize,
}

impl<'a> RowMask<'a> {
    pub(super) fn new(device: &Device, mask: Option<&'a Tensor>, width: usize) -> Self {
        let mut ones = device.buffer(if mask.is_none() { width } else { 0 });
        ones.fill(1.0);
        Self { values: mask.map(Tensor::values), ones, width }
    }

    pub(super) fn row(&self, row: usize) -> &[f32] {
        self.values.map_or(&self.ones, |values| row_of(values, self.width, row))
    }
}
