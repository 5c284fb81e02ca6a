//! Softmax, its logarithm and log-sum-exp on a GPU.

use super::team::Team;
use crate::cuda::{Cuda, CudaBuffer, Element, Kernel, Program, arguments, programs};
use crate::gradient::GradientStore;
use crate::tape::CudaBackward;
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
        let kernel = Kernel { program: &SOFTMAX, name: "softmax" };
        cuda.launch(kernel, element, team.launch, arguments)?;
        Ok(self.record_cuda(operation, shape, output, &[x], |y| SoftmaxBackward {
            x: x.clone(),
            y: y.clone(),
            mask: mask.cloned(),
            form,
        }))
    }
}

struct SoftmaxBackward {
    x: Tensor,
    y: Tensor,
    mask: Option<Tensor>,
    form: i32,
}

impl CudaBackward for SoftmaxBackward {
    fn backward(
        &self,
        cuda: &Cuda,
        upstream: CudaBuffer,
        gradients: &mut GradientStore<'_>,
    ) -> Result<()> {
        let element = upstream.element();
        let (rows, width) = (self.x.shape().rows(), self.x.shape().last());
        let (x, y) = (self.x.pointer(cuda, element)?, self.y.pointer(cuda, element)?);
        let mask = mask_pointer(cuda, self.mask.as_ref(), element)?;
        let (d, form, team) = (upstream.pointer(), self.form, Team::of_rows(rows, width));
        let kernel = Kernel { program: &SOFTMAX, name: "softmax_backward" };
        gradients.with_cuda(&self.x, element, |target, accumulate| {
            let arguments =
                arguments![d, x, y, mask, target, rows, width, form, team.size, accumulate];
            cuda.launch(kernel, element, team.launch, arguments)
        })
    }
}
