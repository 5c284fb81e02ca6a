//! Sums over the rows of a gradient, left by the operation that made it, so that the one that reads it need
//! not add up all of it again.

use super::GradientStore;
use crate::Tensor;
use crate::cuda::CudaBuffer;
use crate::tensor::Origin;

/// Sums over the rows of a gradient, which are the gradient of a bias, in parts [parts, width] that are
/// still to be added up; in f32.
pub(crate) struct RowSums {
    /// The parts.
    pub partials: CudaBuffer,
    /// How many there are.
    pub parts: usize,
    /// Sums of each.
    pub width: usize,
}

impl GradientStore<'_> {
    /// Leaves the sums over the rows of the gradient that `input` has now to whoever reads it; whatever is
    /// added to that gradient discards them.
    pub(crate) fn leave_row_sums(&mut self, input: &Tensor, sums: RowSums) {
        if let Origin::Node { index, .. } = input.origin {
            self.row_sums.insert(index, sums);
        }
    }

    /// What [`GradientStore::leave_row_sums`] left for the current operation's upstream, in rows of `width`.
    pub(crate) fn row_sums(&mut self, width: usize) -> Option<RowSums> {
        self.row_sums.remove(&self.current.1).filter(|sums| sums.width == width)
    }
}
