//! Statistics over the valid elements of an axis on a GPU.

use super::softmax::mask_pointer;
use super::team::Team;
use crate::cuda::{Cuda, Program, arguments, programs};
use crate::operation::Statistic;
use crate::{Result, Shape, Tape, Tensor};

programs! {
    /// Statistics and standardization.
    MASKED = "masked": "team.cuh", "masked.cu";
}

/// The number of groups along an axis, their extent, and how far apart their elements lie.
fn groups(x: &Tensor, axis: usize) -> [usize; 3] {
    let (outer, extent, inner) = x.shape().around(axis);
    [outer * inner, extent, inner]
}

impl Tape {
    /// See [`Tape::statistic`]; `shape` is that of the result.
    pub(crate) fn statistic_cuda(
        &mut self,
        cuda: &Cuda,
        shape: Shape,
        x: &Tensor,
        mask: Option<&Tensor>,
        axis: usize,
        statistic: Statistic,
    ) -> Result<Tensor> {
        let element = x.element(cuda);
        let [count, extent, inner] = groups(x, axis);
        let output = cuda.buffer(element, count)?;
        let team = Team::of_groups(count, extent, inner);
        let (source, chosen) = (x.pointer(cuda, element)?, mask_pointer(cuda, mask, element)?);
        let (target, which) = (output.pointer(), statistic as i32);
        let arguments = arguments![source, chosen, target, count, extent, inner, which, team.size];
        cuda.launch(MASKED.kernel("statistic"), element, team.launch, arguments)?;
        Ok(self.record_cuda("statistic", shape, output, &[x], |_| {
            let (x, mask) = (x.clone(), mask.cloned());
            move |cuda, upstream, gradients| {
                let (element, d) = (upstream.element(), upstream.pointer());
                let source = x.pointer(cuda, element)?;
                let chosen = mask_pointer(cuda, mask.as_ref(), element)?;
                let kernel = MASKED.kernel("statistic_backward");
                gradients.with_cuda(&x, element, |target, accumulate| {
                    let arguments = arguments![
                        d, source, chosen, target, count, extent, inner, which, team.size,
                        accumulate
                    ];
                    cuda.launch(kernel, element, team.launch, arguments)
                })
            }
        }))
    }

    /// See [`Tape::standardize`].
    pub(crate) fn standardize_cuda(
        &mut self,
        cuda: &Cuda,
        x: &Tensor,
        mask: Option<&Tensor>,
        axis: usize,
    ) -> Result<Tensor> {
        let element = x.element(cuda);
        let [count, extent, inner] = groups(x, axis);
        let output = cuda.buffer(element, count * extent)?;
        let team = Team::of_groups(count, extent, inner);
        let (source, chosen) = (x.pointer(cuda, element)?, mask_pointer(cuda, mask, element)?);
        let arguments =
            arguments![source, chosen, output.pointer(), count, extent, inner, team.size];
        cuda.launch(MASKED.kernel("standardize"), element, team.launch, arguments)?;
        Ok(self.record_cuda("standardize", *x.shape(), output, &[x], |_| {
            let (x, mask) = (x.clone(), mask.cloned());
            move |cuda, upstream, gradients| {
                let (element, d) = (upstream.element(), upstream.pointer());
                let source = x.pointer(cuda, element)?;
                let chosen = mask_pointer(cuda, mask.as_ref(), element)?;
                let kernel = MASKED.kernel("standardize_backward");
                gradients.with_cuda(&x, element, |target, accumulate| {
                    let arguments = arguments![
                        d, source, chosen, target, count, extent, inner, team.size, accumulate
                    ];
                    cuda.launch(kernel, element, team.launch, arguments)
                })
            }
        }))
    }
}
