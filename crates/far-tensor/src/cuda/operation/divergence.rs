//! Kullback–Leibler divergence on a GPU.

use super::softmax::mask_pointer;
use super::team::Team;
use crate::cuda::{Cuda, Element, Program, arguments, programs};
use crate::{Result, Shape, Tape, Tensor};

programs! {
    /// Divergence of rows.
    DIVERGENCE = "divergence": "team.cuh", "normalizer.cuh", "divergence.cu";
}

impl Tape {
    /// See [`Tape::row_divergence`]; `shape` is that of the result, which is f32.
    pub(crate) fn divergence_cuda(
        &mut self,
        cuda: &Cuda,
        shape: Shape,
        [target, scores]: [&Tensor; 2],
        mask: Option<&Tensor>,
    ) -> Result<Tensor> {
        let element = scores.element(cuda);
        let (rows, width) = (scores.shape().rows(), scores.shape().last());
        let output = cuda.buffer(Element::F32, shape.elements())?;
        let team = Team::of_rows(rows, width);
        let (q, s) = (target.pointer(cuda, element)?, scores.pointer(cuda, element)?);
        let chosen = mask_pointer(cuda, mask, element)?;
        let arguments = arguments![q, s, chosen, output.pointer(), rows, width, team.size];
        let kernel = DIVERGENCE.kernel("divergence");
        cuda.launch(kernel, element, team.launch, arguments)?;
        Ok(self.record_cuda("divergence", shape, output, &[scores], |_| {
            let (target, scores, mask) = (target.detach(), scores.clone(), mask.cloned());
            move |cuda, upstream, gradients| {
                let (q, s) = (target.pointer(cuda, element)?, scores.pointer(cuda, element)?);
                let mask = mask_pointer(cuda, mask.as_ref(), element)?;
                let d = upstream.pointer();
                let kernel = DIVERGENCE.kernel("divergence_backward");
                gradients.with_cuda(&scores, element, |gradient, accumulate| {
                    let arguments =
                        arguments![d, q, s, mask, gradient, rows, width, team.size, accumulate];
                    cuda.launch(kernel, element, team.launch, arguments)
                })
            }
        }))
    }
}
