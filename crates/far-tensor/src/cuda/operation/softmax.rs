//! Softmax, its logarithm and log-sum-exp on a GPU.

use super::team::Team;
use crate::cuda::{Cuda, Element, Program, arguments, programs};
use crate::{Result, Shape, Tape, Tensor};

programs! {
    /// Softmax of rows.
    SOFTMAX = "softmax": "team.cuh", "normalizer.cuh", "softmax.cu";
}

/// The address of an optional mask, or null.
pub(super) fn mask_pointer(cuda: &Cuda, mask: Option<&Tensor>, element: Element) -> Result<u64> {
    mask.map_or(Ok(0), |mask| mask.pointer(cuda, element))
}

impl Tape {
    /// See [`Tape::softmax`]; `shape` is that of the result, `form` the number of the form.
    pub(crate) fn softmax_cuda(
        &mut self,
        cuda: &Cuda,
        operation: &'static str,
        shape: Shape,
        x: &Tensor,
        mask: Option<&Tensor>,
        form: i32,
    ) -> Result<Tensor> {
        let element = x.element(cuda);
        let (rows, width) = (x.shape().rows(), x.shape().last());
        let output = cuda.buffer(element, shape.elements())?;
        let team = Team::of_rows(rows, width);
        let (source, chosen) = (x.pointer(cuda, element)?, mask_pointer(cuda, mask, element)?);
        let arguments = arguments![source, chosen, output.pointer(), rows, width, form, team.size];
        let kernel = SOFTMAX.kernel("softmax");
        cuda.launch(kernel, element, team.launch, arguments)?;
        Ok(self.record_cuda(operation, shape, output, &[x], |y| {
            let (x, y, mask) = (x.clone(), y.clone(), mask.cloned());
            move |cuda, upstream, gradients| {
                let element = upstream.element();
                let (from, to) = (x.pointer(cuda, element)?, y.pointer(cuda, element)?);
                let chosen = mask_pointer(cuda, mask.as_ref(), element)?;
                let d = upstream.pointer();
                let kernel = SOFTMAX.kernel("softmax_backward");
                gradients.with_cuda(&x, element, |target, accumulate| {
                    let arguments = arguments![
                        d, from, to, chosen, target, rows, width, form, team.size, accumulate
                    ];
                    cuda.launch(kernel, element, team.launch, arguments)
                })
            }
        }))
    }
}
