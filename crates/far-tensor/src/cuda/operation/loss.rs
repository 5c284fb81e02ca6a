//! Losses that are means over elements on a GPU. The loss is f32; targets and weights are read as
//! f32, so that what is compared with is not rounded.

use crate::cuda::{Cuda, CudaBuffer, Element, Kernel, Launch, Program, arguments, programs};
use crate::gradient::GradientStore;
use crate::operation::loss::Loss;
use crate::tape::CudaBackward;
use crate::{Result, Shape, Tape, Tensor};

programs! {
    /// Means of losses.
    LOSS = "loss": "block_total.cu", "loss.cu";
}

fn kernel(name: &'static str) -> Kernel {
    Kernel { program: &LOSS, name }
}

/// The number of a loss in the kernels, and its β.
fn kind(loss: Loss) -> (i32, f32) {
    match loss {
        Loss::Squared => (0, 0.0),
        Loss::SmoothL1(beta) => (1, beta),
        Loss::CrossEntropy => (2, 0.0),
    }
}

/// The address of optional weights; null without.
pub(super) fn weights_of(cuda: &Cuda, weights: Option<&Tensor>) -> Result<u64> {
    weights.map_or(Ok(0), |weights| weights.pointer(cuda, Element::F32))
}

impl Tape {
    /// See [`Tape::squared_error`] and its siblings.
    pub(crate) fn mean_loss_cuda(
        &mut self,
        cuda: &Cuda,
        operation: &'static str,
        x: &Tensor,
        target: &Tensor,
        weights: Option<&Tensor>,
        loss: Loss,
    ) -> Result<Tensor> {
        let (element, length) = (x.element(cuda), x.shape().elements());
        let launch = Cuda::partial_sums(length);
        let partials = cuda.buffer(Element::F32, launch.grid[0])?;
        let (number, beta) = kind(loss);
        let arguments = arguments![
            x.pointer(cuda, element)?,
            target.pointer(cuda, Element::F32)?,
            weights_of(cuda, weights)?,
            partials.pointer(),
            length,
            number,
            beta
        ];
        cuda.launch(kernel("loss_partials"), element, launch, arguments)?;
        let output = cuda.total(&partials, 1.0 / length as f32)?;
        let shape = Shape::new(&[]);
        Ok(self.record_cuda(operation, shape, output, &[x], |_| LossBackward {
            x: x.clone(),
            target: target.detach(),
            weights: weights.map(Tensor::detach),
            loss,
            each: length,
        }))
    }

    /// See [`Tape::squared_errors`].
    pub(crate) fn squared_errors_cuda(
        &mut self,
        cuda: &Cuda,
        [x, target]: [&Tensor; 2],
        weights: Option<&Tensor>,
        samples: usize,
    ) -> Result<Tensor> {
        let (element, each) = (x.element(cuda), x.shape().elements() / samples);
        let output = cuda.buffer(Element::F32, samples)?;
        let (number, beta) = kind(Loss::Squared);
        let arguments = arguments![
            x.pointer(cuda, element)?,
            target.pointer(cuda, Element::F32)?,
            weights_of(cuda, weights)?,
            output.pointer(),
            each,
            number,
            beta
        ];
        cuda.launch(kernel("loss_samples"), element, Launch::blocks(samples, 256), arguments)?;
        let shape = Shape::new(&[samples]);
        Ok(self.record_cuda("squared_errors", shape, output, &[x], |_| LossBackward {
            x: x.clone(),
            target: target.detach(),
            weights: weights.map(Tensor::detach),
            loss: Loss::Squared,
            each,
        }))
    }
}

struct LossBackward {
    x: Tensor,
    target: Tensor,
    weights: Option<Tensor>,
    loss: Loss,
    /// Elements that a mean is taken over.
    each: usize,
}

impl CudaBackward for LossBackward {
    fn backward(
        &self,
        cuda: &Cuda,
        upstream: CudaBuffer,
        gradients: &mut GradientStore<'_>,
    ) -> Result<()> {
        let (element, length) = (self.x.element(cuda), self.x.shape().elements());
        let x = self.x.pointer(cuda, element)?;
        let target = self.target.pointer(cuda, Element::F32)?;
        let weights = weights_of(cuda, self.weights.as_ref())?;
        let (number, beta) = kind(self.loss);
        gradients.with_cuda(&self.x, element, |gradient, accumulate| {
            let arguments = arguments![
                upstream.pointer(),
                x,
                target,
                weights,
                gradient,
                length,
                self.each,
                number,
                beta,
                accumulate
            ];
            cuda.launch(kernel("loss_backward"), element, Launch::elements(length), arguments)
        })
    }
}
