//! Sums and means on a GPU. Those over everything are in f32 whatever x is.

use crate::cuda::{Cuda, CudaBuffer, Element, Launch, Program, arguments, programs};
use crate::{Result, Shape, Tape, Tensor};

programs! {
    /// Sums over everything or one axis.
    REDUCTION = "reduction": "block_total.cu", "reduction.cu";
}

/// The most partial sums of a sum over everything.
const MOST_PARTIALS: usize = 1024;

impl Cuda {
    /// The launch whose blocks each leave one partial sum of `length` elements.
    pub(super) fn partial_sums(length: usize) -> Launch {
        Launch::blocks(length.div_ceil(1024).min(MOST_PARTIALS), 256)
    }

    /// factor · Σ of partial sums, as a buffer of one f32.
    pub(super) fn total(&self, partials: &CudaBuffer, factor: f32) -> Result<CudaBuffer> {
        let output = self.buffer(Element::F32, 1)?;
        let arguments = arguments![partials.pointer(), output.pointer(), partials.length(), factor];
        self.launch_plain(REDUCTION.kernel("total_finish"), Launch::blocks(1, 256), arguments)?;
        Ok(output)
    }
}

impl Tape {
    /// See [`Tape::sum`] and [`Tape::mean`].
    pub(crate) fn total_cuda(
        &mut self,
        cuda: &Cuda,
        operation: &'static str,
        x: &Tensor,
        factor: f32,
    ) -> Result<Tensor> {
        let (element, length) = (x.element(cuda), x.shape().elements());
        let launch = Cuda::partial_sums(length);
        let partials = cuda.buffer(Element::F32, launch.grid[0])?;
        let arguments = arguments![x.pointer(cuda, element)?, partials.pointer(), length];
        cuda.launch(REDUCTION.kernel("total_partials"), element, launch, arguments)?;
        let output = cuda.total(&partials, factor)?;
        let shape = Shape::new(&[]);
        Ok(self.record_cuda(operation, shape, output, &[x], |_| {
            let x = x.clone();
            move |cuda, upstream, gradients| {
                let (d, launch) = (upstream.pointer(), Launch::elements(length));
                gradients.with_cuda(&x, element, |target, accumulate| {
                    let arguments = arguments![d, target, length, factor, accumulate];
                    cuda.launch(REDUCTION.kernel("total_backward"), element, launch, arguments)
                })
            }
        }))
    }

    /// See [`Tape::sum_axis`] and [`Tape::mean_axis`]; `shape` is that of the result.
    pub(crate) fn reduce_axis_cuda(
        &mut self,
        cuda: &Cuda,
        operation: &'static str,
        x: &Tensor,
        axis: usize,
        factor: f32,
        shape: Shape,
    ) -> Result<Tensor> {
        let element = x.element(cuda);
        let (outer, extent, inner) = x.shape().around(axis);
        let output = cuda.buffer(element, outer * inner)?;
        let (source, target) = (x.pointer(cuda, element)?, output.pointer());
        if output.length() == 0 {
        } else if inner == 1 {
            let threads = extent.next_multiple_of(32).min(256);
            let arguments = arguments![source, target, extent, factor];
            let launch = Launch::blocks(outer, threads);
            cuda.launch(REDUCTION.kernel("last_axis_forward"), element, launch, arguments)?;
        } else {
            let warps = extent.next_power_of_two().min(8);
            let arguments = arguments![source, target, extent, inner, factor];
            let launch = Launch::blocks(outer * inner.div_ceil(32), 32 * warps);
            cuda.launch(REDUCTION.kernel("axis_forward"), element, launch, arguments)?;
        }
        Ok(self.record_cuda(operation, shape, output, &[x], |_| {
            let x = x.clone();
            move |cuda, upstream, gradients| {
                let (d, length) = (upstream.pointer(), x.shape().elements());
                let launch = Launch::elements(length);
                gradients.with_cuda(&x, element, |target, accumulate| {
                    let arguments =
                        arguments![d, target, length, extent, inner, factor, accumulate];
                    cuda.launch(REDUCTION.kernel("axis_backward"), element, launch, arguments)
                })
            }
        }))
    }
}
