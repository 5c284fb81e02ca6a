//! Functions of one element on a GPU.

use super::arithmetic::eights;
use crate::cuda::{Cuda, CudaBuffer, Kernel, Program, arguments, programs};
use crate::gradient::GradientStore;
use crate::operation::Activation;
use crate::tape::CudaBackward;
use crate::{Result, Tape, Tensor};

programs! {
    /// Activations and their slopes.
    ACTIVATION = "activation": "run.cuh", "elementwise.cuh", "activation.cu";
}

impl Tape {
    /// See [`Tape::activate`].
    pub(crate) fn activate_cuda(
        &mut self,
        cuda: &Cuda,
        x: &Tensor,
        activation: Activation,
    ) -> Result<Tensor> {
        let element = x.element(cuda);
        let length = x.shape().elements();
        let output = cuda.buffer(element, length)?;
        let kernel = Kernel { program: &ACTIVATION, name: "activate" };
        let source = x.pointer(cuda, element)?;
        let arguments = arguments![source, output.pointer(), length, activation as i32];
        cuda.launch(kernel, element, eights(length), arguments)?;
        Ok(self.record_cuda("activate", *x.shape(), output, &[x], |y| ActivationBackward {
            x: x.clone(),
            y: y.clone(),
            activation,
        }))
    }
}

struct ActivationBackward {
    x: Tensor,
    y: Tensor,
    activation: Activation,
}

impl CudaBackward for ActivationBackward {
    fn backward(
        &self,
        cuda: &Cuda,
        upstream: CudaBuffer,
        gradients: &mut GradientStore<'_>,
    ) -> Result<()> {
        let (element, length) = (upstream.element(), upstream.length());
        let kernel = Kernel { program: &ACTIVATION, name: "activate_backward" };
        let (x, y) = (self.x.pointer(cuda, element)?, self.y.pointer(cuda, element)?);
        let activation = self.activation as i32;
        gradients.with_cuda(&self.x, element, |target, accumulate| {
            let arguments =
                arguments![upstream.pointer(), x, y, target, length, activation, accumulate];
            cuda.launch(kernel, element, eights(length), arguments)
        })
    }
}
