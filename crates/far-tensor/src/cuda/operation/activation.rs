//! Functions of one element on a GPU.

use super::arithmetic::eights;
use crate::cuda::{Cuda, Program, arguments, programs};
use crate::operation::Activation;
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
        let kernel = ACTIVATION.kernel("activate");
        let source = x.pointer(cuda, element)?;
        let arguments = arguments![source, output.pointer(), length, activation as i32];
        cuda.launch(kernel, element, eights(length), arguments)?;
        Ok(self.record_cuda("activate", *x.shape(), output, &[x], |y| {
            let (x, y) = (x.clone(), y.clone());
            move |cuda, upstream, gradients| {
                let (element, d) = (upstream.element(), upstream.pointer());
                let kernel = ACTIVATION.kernel("activate_backward");
                let (from, to) = (x.pointer(cuda, element)?, y.pointer(cuda, element)?);
                gradients.with_cuda(&x, element, |target, accumulate| {
                    let which = activation as i32;
                    let arguments = arguments![d, from, to, target, length, which, accumulate];
                    cuda.launch(kernel, element, eights(length), arguments)
                })
            }
        }))
    }
}
