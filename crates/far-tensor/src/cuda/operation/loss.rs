//! Losses that are means over elements on a GPU. The loss is f32; targets and weights are read as
//! f32, so that what is compared with is not rounded.

use crate::cuda::{Cuda, CudaBuffer, Element, Launch, Program, arguments, programs};
use crate::gradient::GradientStore;
use crate::operation::loss::Loss;
use crate::{Result, Shape, Tape, Tensor};

programs! {
    /// Means of losses.
    LOSS = "loss": "block_total.cu", "loss.cu";
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
        let (source, sums) = (x.pointer(cuda, element)?, partials.pointer());
        let (right, by) = (target.pointer(cuda, Element::F32)?, weights_of(cuda, weights)?);
        let arguments = arguments![source, right, by, sums, length, number, beta];
        cuda.launch(LOSS.kernel("loss_partials"), element, launch, arguments)?;
        let output = cuda.total(&partials, 1.0 / length as f32)?;
        let shape = Shape::new(&[]);
        Ok(self.record_cuda(operation, shape, output, &[x], |_| {
            backward([x, target], weights, loss, length)
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
        let (source, means) = (x.pointer(cuda, element)?, output.pointer());
        let (right, by) = (target.pointer(cuda, Element::F32)?, weights_of(cuda, weights)?);
        let arguments = arguments![source, right, by, means, each, number, beta];
        cuda.launch(LOSS.kernel("loss_samples"), element, Launch::blocks(samples, 256), arguments)?;
        let shape = Shape::new(&[samples]);
        Ok(self.record_cuda("squared_errors", shape, output, &[x], |_| {
            backward([x, target], weights, Loss::Squared, each)
        }))
    }
}

/// The backward of means over `each` elements.
fn backward(
    [x, target]: [&Tensor; 2],
    weights: Option<&Tensor>,
    loss: Loss,
    each: usize,
) -> impl Fn(&Cuda, CudaBuffer, &mut GradientStore<'_>) -> Result<()> + Send + use<> {
    let (x, target, weights) = (x.clone(), target.detach(), weights.map(Tensor::detach));
    move |cuda, upstream, gradients| {
        let (element, length) = (x.element(cuda), x.shape().elements());
        let (d, source) = (upstream.pointer(), x.pointer(cuda, element)?);
        let target = target.pointer(cuda, Element::F32)?;
        let weights = weights_of(cuda, weights.as_ref())?;
        let (number, beta) = kind(loss);
        gradients.with_cuda(&x, element, |gradient, accumulate| {
            let arguments = arguments![
                d, source, target, weights, gradient, length, each, number, beta, accumulate
            ];
            cuda.launch(LOSS.kernel("loss_backward"), element, Launch::elements(length), arguments)
        })
    }
}
