//! Sums, products, scale and shift on a GPU.

use super::element::kernel_from;
use crate::cuda::{Cuda, CudaBuffer, Element, Launch, Program, arguments, programs};
use crate::gradient::GradientStore;
use crate::tensor::Origin;
use crate::{Result, Tape, Tensor};

programs! {
    /// Sums, products, scale and shift.
    ARITHMETIC = "arithmetic": "run.cuh", "elementwise.cuh", "arithmetic.cu";
}

impl Tape {
    /// p·a + q·b; see [`Tape::weighted_sum`].
    pub(crate) fn combine_cuda(
        &mut self,
        cuda: &Cuda,
        operation: &'static str,
        [a, b]: [&Tensor; 2],
        [p, q]: [f32; 2],
    ) -> Result<Tensor> {
        let element = cuda.common_element(&[a, b]);
        let length = a.shape().elements();
        let output = cuda.buffer(element, length)?;
        let kernel = ARITHMETIC.kernel("combine");
        let (left, right) = (a.pointer(cuda, element)?, b.pointer(cuda, element)?);
        let arguments = arguments![left, right, output.pointer(), length, p, q];
        cuda.launch(kernel, element, eights(length), arguments)?;
        Ok(self.record_cuda(operation, *a.shape(), output, &[a, b], |_| {
            let (a, b) = (a.clone(), b.clone());
            move |cuda, upstream, gradients| {
                // One that takes the gradient as it is comes last, so that the buffer moves on to it.
                let whole = |input: &Tensor, factor: f32| {
                    factor == 1.0 && matches!(input.origin, Origin::Node { .. })
                };
                let (a, b) = ((&a, p), (&b, q));
                let (first, last) = if whole(a.0, p) { (b, a) } else { (a, b) };
                cuda.add_multiple(gradients, first.0, &upstream, first.1)?;
                if whole(last.0, last.1) {
                    gradients.add_whole_cuda(last.0, upstream)
                } else {
                    cuda.add_multiple(gradients, last.0, &upstream, last.1)
                }
            }
        }))
    }

    /// See [`Tape::multiply`].
    pub(crate) fn multiply_cuda(&mut self, cuda: &Cuda, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        let element = cuda.common_element(&[a, b]);
        let length = a.shape().elements();
        let output = cuda.buffer(element, length)?;
        let factors = [a.pointer(cuda, element)?, b.pointer(cuda, element)?];
        cuda.product(element, factors, (output.pointer(), element), length, false)?;
        Ok(self.record_cuda("multiply", *a.shape(), output, &[a, b], |_| {
            let (a, b) = (a.clone(), b.clone());
            move |cuda, upstream, gradients| {
                let source = upstream.element();
                for (input, other) in [(&a, &b), (&b, &a)] {
                    let element = cuda.gradient_element(input, source);
                    gradients.with_cuda(input, element, |target, accumulate| {
                        let factors = [upstream.pointer(), other.pointer(cuda, source)?];
                        cuda.product(source, factors, (target, element), length, accumulate)
                    })?;
                }
                Ok(())
            }
        }))
    }

    /// See [`Tape::affine`].
    pub(crate) fn affine_cuda(
        &mut self,
        cuda: &Cuda,
        x: &Tensor,
        factor: f32,
        offset: f32,
    ) -> Result<Tensor> {
        let element = x.element(cuda);
        let length = x.shape().elements();
        let output = cuda.buffer(element, length)?;
        let source = (x.pointer(cuda, element)?, element);
        cuda.line(source, (output.pointer(), element), length, [factor, offset], false)?;
        Ok(self.record_cuda("affine", *x.shape(), output, &[x], |_| {
            let x = x.clone();
            move |cuda, upstream, gradients| cuda.add_multiple(gradients, &x, &upstream, factor)
        }))
    }
}

/// Threads that each take eight elements.
pub(super) fn eights(length: usize) -> Launch {
    Launch::elements(length.div_ceil(8))
}

impl Cuda {
    /// target ← a·b, added if `accumulate`.
    fn product(
        &self,
        element: Element,
        [a, b]: [u64; 2],
        target: (u64, Element),
        length: usize,
        accumulate: bool,
    ) -> Result<()> {
        let arguments = arguments![a, b, target.0, length, accumulate];
        let kernel = kernel_from!(ARITHMETIC, "multiply", element);
        self.launch(kernel, target.1, eights(length), arguments)
    }

    /// target ← factor·source + offset, added if `accumulate`.
    fn line(
        &self,
        source: (u64, Element),
        target: (u64, Element),
        length: usize,
        [factor, offset]: [f32; 2],
        accumulate: bool,
    ) -> Result<()> {
        let arguments = arguments![source.0, target.0, length, factor, offset, accumulate];
        let kernel = kernel_from!(ARITHMETIC, "affine", source.1);
        self.launch(kernel, target.1, eights(length), arguments)
    }

    /// Adds `factor` · `upstream` to the gradient of `input`.
    fn add_multiple(
        &self,
        gradients: &mut GradientStore<'_>,
        input: &Tensor,
        upstream: &CudaBuffer,
        factor: f32,
    ) -> Result<()> {
        let source = (upstream.pointer(), upstream.element());
        let element = self.gradient_element(input, upstream.element());
        gradients.with_cuda(input, element, |target, accumulate| {
            self.line(source, (target, element), upstream.length(), [factor, 0.0], accumulate)
        })
    }
}
