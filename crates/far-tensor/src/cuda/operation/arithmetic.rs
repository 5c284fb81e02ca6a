//! Sums, products, scale and shift on a GPU.

use super::element::kernel_from;
use crate::cuda::{Cuda, CudaBuffer, Element, Kernel, Launch, Program, arguments, programs};
use crate::gradient::GradientStore;
use crate::tape::CudaBackward;
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
        let kernel = Kernel { program: &ARITHMETIC, name: "combine" };
        let (left, right) = (a.pointer(cuda, element)?, b.pointer(cuda, element)?);
        let arguments = arguments![left, right, output.pointer(), length, p, q];
        cuda.launch(kernel, element, eights(length), arguments)?;
        Ok(self.record_cuda(operation, *a.shape(), output, &[a, b], |_| CombineBackward {
            inputs: [a.clone(), b.clone()],
            factors: [p, q],
        }))
    }

    /// See [`Tape::multiply`].
    pub(crate) fn multiply_cuda(&mut self, cuda: &Cuda, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        let element = cuda.common_element(&[a, b]);
        let length = a.shape().elements();
        let output = cuda.buffer(element, length)?;
        let factors = [a.pointer(cuda, element)?, b.pointer(cuda, element)?];
        cuda.product(element, factors, (output.pointer(), element), length, false)?;
        Ok(self.record_cuda("multiply", *a.shape(), output, &[a, b], |_| MultiplyBackward {
            a: a.clone(),
            b: b.clone(),
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
        Ok(self.record_cuda("affine", *x.shape(), output, &[x], |_| AffineBackward {
            x: x.clone(),
            factor,
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

struct CombineBackward {
    inputs: [Tensor; 2],
    factors: [f32; 2],
}

impl CudaBackward for CombineBackward {
    fn backward(
        &self,
        cuda: &Cuda,
        upstream: CudaBuffer,
        gradients: &mut GradientStore<'_>,
    ) -> Result<()> {
        let [a, b] = &self.inputs;
        let [p, q] = self.factors;
        // One that takes the gradient as it is comes last, so that the buffer moves on to it.
        let whole = |input: &Tensor, factor: f32| {
            factor == 1.0 && matches!(input.origin(), Origin::Node { .. })
        };
        let (first, last) = if whole(a, p) { ((b, q), (a, p)) } else { ((a, p), (b, q)) };
        cuda.add_multiple(gradients, first.0, &upstream, first.1)?;
        if whole(last.0, last.1) {
            gradients.add_whole_cuda(last.0, upstream)
        } else {
            cuda.add_multiple(gradients, last.0, &upstream, last.1)
        }
    }
}

struct MultiplyBackward {
    a: Tensor,
    b: Tensor,
}

impl CudaBackward for MultiplyBackward {
    fn backward(
        &self,
        cuda: &Cuda,
        upstream: CudaBuffer,
        gradients: &mut GradientStore<'_>,
    ) -> Result<()> {
        let source = upstream.element();
        for (input, other) in [(&self.a, &self.b), (&self.b, &self.a)] {
            let element = cuda.gradient_element(input, source);
            gradients.with_cuda(input, element, |target, accumulate| {
                let factors = [upstream.pointer(), other.pointer(cuda, source)?];
                cuda.product(source, factors, (target, element), upstream.length(), accumulate)
            })?;
        }
        Ok(())
    }
}

struct AffineBackward {
    x: Tensor,
    factor: f32,
}

impl CudaBackward for AffineBackward {
    fn backward(
        &self,
        cuda: &Cuda,
        upstream: CudaBuffer,
        gradients: &mut GradientStore<'_>,
    ) -> Result<()> {
        cuda.add_multiple(gradients, &self.x, &upstream, self.factor)
    }
}
