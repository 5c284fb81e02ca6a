//! Kullback–Leibler divergence on a GPU.

use super::softmax::mask_pointer;
use super::team::Team;
use crate::cuda::{Cuda, CudaBuffer, Element, Kernel, Program, arguments, programs};
use crate::gradient::GradientStore;
use crate::tape::CudaBackward;
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
        let kernel = Kernel { program: &DIVERGENCE, name: "divergence" };
        cuda.launch(kernel, element, team.launch, arguments)?;
        Ok(self.record_cuda("divergence", shape, output, &[scores], |_| DivergenceBackward {
            target: target.detach(),
            scores: scores.clone(),
            mask: mask.cloned(),
        }))
    }
}

struct DivergenceBackward {
    target: Tensor,
    scores: Tensor,
    mask: Option<Tensor>,
}

impl CudaBackward for DivergenceBackward {
    fn backward(
        &self,
        cuda: &Cuda,
        upstream: CudaBuffer,
        gradients: &mut GradientStore<'_>,
    ) -> Result<()> {
        let (rows, width) = (self.scores.shape().rows(), self.scores.shape().last());
        let element = self.scores.element(cuda);
        let (q, s) = (self.target.pointer(cuda, element)?, self.scores.pointer(cuda, element)?);
        let mask = mask_pointer(cuda, self.mask.as_ref(), element)?;
        let (d, team) = (upstream.pointer(), Team::of_rows(rows, width));
        let kernel = Kernel { program: &DIVERGENCE, name: "divergence_backward" };
        gradients.with_cuda(&self.scores, element, |gradient, accumulate| {
            let arguments = arguments![d, q, s, mask, gradient, rows, width, team.size, accumulate];
            cuda.launch(kernel, element, team.launch, arguments)
        })
    }
}
