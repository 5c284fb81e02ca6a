//! Rows by number on a GPU.

use super::element::{kernel_from, run_length};
use crate::cuda::{Cuda, CudaBuffer, Element, Launch, Program, arguments, programs};
use crate::{Error, Result, Shape, Tape, Tensor};
use std::sync::Arc;

programs! {
    /// Gather, and scatter for its backward.
    EMBEDDING = "embedding": "run.cuh", "embedding.cu";
}

impl Tape {
    /// See [`Tape::gather_rows`]; `shape` is that of the result.
    pub(crate) fn gather_rows_cuda(
        &mut self,
        cuda: &Cuda,
        shape: Shape,
        table: &Tensor,
        indices: Arc<[usize]>,
    ) -> Result<Tensor> {
        let element = table.element(cuda);
        let (_, _, width) = shape.around(0);
        let output = cuda.buffer(element, shape.elements())?;
        let source = table.pointer(cuda, element)?;
        let places = cuda.upload_indices(&indices)?;
        let run = run_length(&[width]);
        let (count, step, accumulate) = (indices.len(), run as i32, false);
        let (chosen, target) = (places.pointer(), output.pointer());
        let arguments = arguments![source, chosen, target, count, width, step, accumulate];
        let kernel = kernel_from!(EMBEDDING, "gather_rows", element);
        cuda.launch(kernel, element, Launch::elements(count * width / run), arguments)?;
        Ok(self.record_cuda("gather_rows", shape, output, &[table], |_| {
            let table = table.clone();
            move |cuda, upstream, gradients| {
                let source = (upstream.pointer(), upstream.element());
                let element = cuda.gradient_element(&table, source.1);
                let size = [table.shape().extents()[0], width];
                gradients.with_cuda(&table, element, |target, accumulate| {
                    cuda.scatter(source, &indices, (target, element), size, accumulate)
                })
            }
        }))
    }
}

impl Cuda {
    /// Indices as `int`s on the GPU.
    fn upload_indices(&self, indices: &[usize]) -> Result<CudaBuffer> {
        let (operation, rows) = ("gather_rows", i32::MAX as usize);
        let narrow = |&index: &usize| {
            i32::try_from(index).map_err(|_| Error::Index { operation, index, rows })
        };
        let indices = indices.iter().map(narrow).collect::<Result<Vec<i32>>>()?;
        // An `int` has the size of an f32.
        let buffer = self.buffer(Element::F32, indices.len())?;
        self.write(buffer.pointer(), &indices)?;
        Ok(buffer)
    }

    /// target[indices[n]] += source[n] for a target of [rows, width], from zeros unless `accumulate`.
    fn scatter(
        &self,
        source: (u64, Element),
        indices: &[usize],
        target: (u64, Element),
        [rows, width]: [usize; 2],
        accumulate: bool,
    ) -> Result<()> {
        let (order, offsets) = by_target(indices, rows);
        let order = self.upload_indices(&order)?;
        let offsets = self.upload_indices(&offsets)?;
        let run = run_length(&[width]);
        let (from, to, step) = (order.pointer(), offsets.pointer(), run as i32);
        let arguments = arguments![source.0, from, to, target.0, rows, width, step, accumulate];
        let kernel = kernel_from!(EMBEDDING, "scatter_rows", source.1);
        self.launch(kernel, target.1, Launch::elements(rows * width / run), arguments)
    }
}

/// The positions of `indices` grouped by what they are, in the order given within each group, and
/// where each of the `rows` groups begins (and the last ends).
fn by_target(indices: &[usize], rows: usize) -> (Vec<usize>, Vec<usize>) {
    let mut offsets = vec![0; rows + 1];
    indices.iter().for_each(|index| offsets[index + 1] += 1);
    for row in 0..rows {
        offsets[row + 1] += offsets[row];
    }
    let mut next = offsets.clone();
    let mut order = vec![0; indices.len()];
    for (position, index) in indices.iter().enumerate() {
        order[next[*index]] = position;
        next[*index] += 1;
    }
    (order, offsets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_grouped_by_target_in_order() {
        let (order, offsets) = by_target(&[2, 0, 2, 3, 0, 2], 5);
        assert_eq!(order, [1, 4, 0, 2, 5, 3]);
        assert_eq!(offsets, [0, 2, 2, 5, 6, 6]);
    }
}
