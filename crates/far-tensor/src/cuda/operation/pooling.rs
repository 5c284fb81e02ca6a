//! Windows that slide over images, and enlargement, on a GPU.

use crate::cuda::{Argument, Cuda, Launch, Program, arguments, programs};
use crate::operation::Window;
use crate::{Result, Shape, Tape, Tensor};

programs! {
    /// Pooling and enlargement.
    POOLING = "pooling": "run.cuh", "pooling.cu";
}

/// What slides over what.
#[derive(Clone, Copy)]
pub(crate) struct Pooling {
    pub window: Window,
    /// Rows and columns of an image.
    pub image: [usize; 2],
    /// How often the window fits each way.
    pub fit: [usize; 2],
    /// The largest rather than the mean.
    pub maximum: bool,
}

impl Pooling {
    /// The planes and the window as kernels take them, between `before` and `after`.
    fn arguments<'a>(
        &self,
        before: &[Argument<'a>],
        planes: usize,
        after: &[Argument<'a>],
    ) -> Vec<Argument<'a>> {
        let Window { kernel, stride, padding } = self.window;
        let ([height, width], [rows, columns]) = (self.image, self.fit);
        let sizes = [planes, height, width, rows, columns].map(Argument::from);
        let window = [kernel[0], kernel[1], stride[0], stride[1], padding.top, padding.left];
        let window = window.map(|number| Argument::from(number as i32));
        [before, &sizes, &window, after].concat()
    }
}

impl Tape {
    /// See [`Tape::maximum_pool`]; `shape` is that of the result.
    pub(crate) fn pool_cuda(
        &mut self,
        cuda: &Cuda,
        operation: &'static str,
        shape: Shape,
        x: &Tensor,
        pooling: Pooling,
    ) -> Result<Tensor> {
        let element = x.element(cuda);
        let length = shape.elements();
        let planes = length / (pooling.fit[0] * pooling.fit[1]).max(1);
        let output = cuda.buffer(element, length)?;
        let places = arguments![x.pointer(cuda, element)?, output.pointer()];
        let arguments = pooling.arguments(places, planes, arguments![pooling.maximum]);
        cuda.launch(POOLING.kernel("pool"), element, Launch::elements(length), &arguments)?;
        Ok(self.record_cuda(operation, shape, output, &[x], |_| {
            let x = x.clone();
            move |cuda, upstream, gradients| {
                let element = upstream.element();
                let source = x.pointer(cuda, element)?;
                let launch = Launch::elements(x.shape().elements());
                gradients.with_cuda(&x, element, |target, accumulate| {
                    let places = arguments![upstream.pointer(), source, target];
                    let after = arguments![pooling.maximum, accumulate];
                    let arguments = pooling.arguments(places, planes, after);
                    cuda.launch(POOLING.kernel("pool_backward"), element, launch, &arguments)
                })
            }
        }))
    }

    /// See [`Tape::upsample`]; `shape` is that of the result.
    pub(crate) fn upsample_cuda(
        &mut self,
        cuda: &Cuda,
        shape: Shape,
        x: &Tensor,
        factor: usize,
    ) -> Result<Tensor> {
        let element = x.element(cuda);
        let (rows, width) = (x.shape().rows(), x.shape().last());
        let output = cuda.buffer(element, shape.elements())?;
        let source = x.pointer(cuda, element)?;
        let arguments = arguments![source, output.pointer(), rows, width, factor];
        let launch = Launch::elements(shape.elements());
        cuda.launch(POOLING.kernel("upsample"), element, launch, arguments)?;
        Ok(self.record_cuda("upsample", shape, output, &[x], |_| {
            let x = x.clone();
            move |cuda, upstream, gradients| {
                let (element, d) = (upstream.element(), upstream.pointer());
                gradients.with_cuda(&x, element, |target, accumulate| {
                    let arguments = arguments![d, target, rows, width, factor, accumulate];
                    let launch = Launch::elements(rows * width);
                    cuda.launch(POOLING.kernel("upsample_backward"), element, launch, arguments)
                })
            }
        }))
    }
}
