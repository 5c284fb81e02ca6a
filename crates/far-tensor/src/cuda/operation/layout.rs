//! Concatenation, slices and repetition on a GPU: bands of columns copied between matrices.

use super::element::{kernel_from, run_length};
use crate::cuda::{Cuda, Element, Launch, Program, arguments, programs};
use crate::{Result, Shape, Tape, Tensor};
use std::ops::Range;

programs! {
    /// Bands and sums over an axis.
    LAYOUT = "layout": "run.cuh", "layout.cu";
}

/// Rows that one thread adds up.
const PART_ROWS: usize = 64;

/// A band of columns of a matrix, from `start` on.
#[derive(Clone, Copy)]
struct Band {
    pointer: u64,
    element: Element,
    width: usize,
    start: usize,
}

impl Band {
    /// Where its first row begins.
    fn first(&self) -> u64 {
        self.pointer + (self.start * self.element.size()) as u64
    }
}

impl Cuda {
    /// Copies `length` columns of `rows` rows, or adds them.
    fn copy_band(
        &self,
        source: Band,
        target: Band,
        [rows, length]: [usize; 2],
        accumulate: bool,
    ) -> Result<()> {
        let whole = rows <= 1 || (source.width == length && target.width == length);
        if whole && !accumulate && source.element == target.element {
            let bytes = rows * length * source.element.size();
            return self.copy(target.first(), source.first(), bytes);
        }
        self.copy_rows(source, target, [rows, length, 1], accumulate)
    }

    /// The same, where each row of the source goes to `times` rows of the target.
    fn copy_rows(
        &self,
        source: Band,
        target: Band,
        [rows, length, times]: [usize; 3],
        accumulate: bool,
    ) -> Result<()> {
        let places = [length, source.width, source.start, target.width, target.start];
        let run = run_length(&places);
        let arguments = arguments![
            source.pointer,
            source.width,
            source.start,
            target.pointer,
            target.width,
            target.start,
            rows,
            length,
            times,
            run as i32,
            accumulate
        ];
        let kernel = kernel_from!(LAYOUT, "copy_band", source.element);
        self.launch(kernel, target.element, Launch::elements(rows * length / run), arguments)
    }

    /// source [outer, times, inner] → target [outer, inner]: the sum over the middle axis.
    pub(super) fn sum_middle(
        &self,
        source: (u64, Element),
        target: (u64, Element),
        [outer, times, inner]: [usize; 3],
        accumulate: bool,
    ) -> Result<()> {
        if times > 2 * PART_ROWS {
            let parts = times.div_ceil(PART_ROWS);
            let partials = self.buffer(Element::F32, outer * parts * inner)?;
            let middle = (partials.pointer(), Element::F32);
            self.sum_parts(source, middle, [outer, times, inner], PART_ROWS, false)?;
            return self.sum_parts(middle, target, [outer, parts, inner], parts, accumulate);
        }
        self.sum_parts(source, target, [outer, times, inner], times.max(1), accumulate)
    }

    fn sum_parts(
        &self,
        source: (u64, Element),
        target: (u64, Element),
        [outer, times, inner]: [usize; 3],
        part: usize,
        accumulate: bool,
    ) -> Result<()> {
        let run = run_length(&[inner]);
        let threads = outer * times.div_ceil(part) * inner / run;
        let arguments =
            arguments![source.0, target.0, outer, times, inner, part, run as i32, accumulate];
        let kernel = kernel_from!(LAYOUT, "sum_middle", source.1);
        self.launch(kernel, target.1, Launch::elements(threads), arguments)
    }
}

impl Tape {
    /// See [`Tape::concat`]; `shape` is that of the result.
    pub(crate) fn concat_cuda(
        &mut self,
        cuda: &Cuda,
        shape: Shape,
        inputs: &[&Tensor],
        axis: usize,
    ) -> Result<Tensor> {
        let element = cuda.common_element(inputs);
        let (rows, total, inner) = shape.around(axis);
        let width = total * inner;
        let output = cuda.buffer(element, shape.elements())?;
        let mut target = Band { pointer: output.pointer(), element, width, start: 0 };
        for input in inputs {
            let own = input.shape().extents()[axis] * inner;
            let pointer = input.pointer(cuda, element)?;
            let source = Band { pointer, element, width: own, start: 0 };
            cuda.copy_band(source, target, [rows, own], false)?;
            target.start += own;
        }
        Ok(self.record_cuda("concat", shape, output, inputs, |_| {
            let inputs: Vec<Tensor> = inputs.iter().copied().cloned().collect();
            move |cuda, upstream, gradients| {
                let (pointer, element) = (upstream.pointer(), upstream.element());
                let mut source = Band { pointer, element, width, start: 0 };
                for input in &inputs {
                    let (_, extent, inner) = input.shape().around(axis);
                    let own = extent * inner;
                    let element = cuda.gradient_element(input, source.element);
                    gradients.with_cuda(input, element, |pointer, accumulate| {
                        let target = Band { pointer, element, width: own, start: 0 };
                        cuda.copy_band(source, target, [rows, own], accumulate)
                    })?;
                    source.start += own;
                }
                Ok(())
            }
        }))
    }

    /// See [`Tape::slice`]; `shape` is that of the result, `band` the columns of rows of `width`.
    pub(crate) fn slice_cuda(
        &mut self,
        cuda: &Cuda,
        shape: Shape,
        x: &Tensor,
        width: usize,
        band: Range<usize>,
    ) -> Result<Tensor> {
        let element = x.element(cuda);
        let rows = x.shape().elements() / width.max(1);
        let output = cuda.buffer(element, shape.elements())?;
        let source = Band { pointer: x.pointer(cuda, element)?, element, width, start: band.start };
        let target = Band { pointer: output.pointer(), element, width: band.len(), start: 0 };
        cuda.copy_band(source, target, [rows, band.len()], false)?;
        Ok(self.record_cuda("slice", shape, output, &[x], |_| {
            let x = x.clone();
            move |cuda, upstream, gradients| {
                if band.len() == width {
                    return gradients.add_whole_cuda(&x, upstream);
                }
                let (pointer, element) = (upstream.pointer(), upstream.element());
                let source = Band { pointer, element, width: band.len(), start: 0 };
                let element = cuda.gradient_element(&x, element);
                gradients.with_cuda(&x, element, |pointer, accumulate| {
                    if !accumulate {
                        cuda.zero(pointer, rows * width * element.size())?;
                    }
                    let target = Band { pointer, element, width, start: band.start };
                    cuda.copy_band(source, target, [rows, band.len()], accumulate)
                })
            }
        }))
    }

    /// See [`Tape::repeat`]; `shape` is that of the result, whose new axis is `axis`.
    pub(crate) fn repeat_cuda(
        &mut self,
        cuda: &Cuda,
        shape: Shape,
        x: &Tensor,
        axis: usize,
    ) -> Result<Tensor> {
        let element = x.element(cuda);
        let (outer, times, inner) = shape.around(axis);
        let output = cuda.buffer(element, shape.elements())?;
        let source = Band { pointer: x.pointer(cuda, element)?, element, width: inner, start: 0 };
        let target = Band { pointer: output.pointer(), ..source };
        cuda.copy_rows(source, target, [outer * times, inner, times.max(1)], false)?;
        Ok(self.record_cuda("repeat", shape, output, &[x], |_| {
            let x = x.clone();
            move |cuda, upstream, gradients| {
                if times == 1 {
                    return gradients.add_whole_cuda(&x, upstream);
                }
                let source = (upstream.pointer(), upstream.element());
                let element = cuda.gradient_element(&x, source.1);
                gradients.with_cuda(&x, element, |target, accumulate| {
                    let sizes = [outer, times, inner];
                    cuda.sum_middle(source, (target, element), sizes, accumulate)
                })
            }
        }))
    }
}
