//! Axes in another order on a GPU.

use super::element::{kernel_from, run_length};
use crate::cuda::{Argument, Cuda, Element, Launch, Program, arguments, programs};
use crate::{MAXIMUM_RANK, Result, Shape, Tape, Tensor};

programs! {
    /// Permutations.
    PERMUTE = "permute": "run.cuh", "permute.cu";
}

/// The axes of a result, outermost first: the extent of each, and its stride in the source.
pub(crate) type Walks = Vec<[usize; 2]>;

impl Cuda {
    /// target ← source with its axes in another order, added if `accumulate`.
    fn permute(
        &self,
        source: (u64, Element),
        target: (u64, Element),
        walks: &Walks,
        accumulate: bool,
    ) -> Result<()> {
        let [last_extent, last_stride] = *walks.last().expect("there is an axis");
        let run = if last_stride == 1 {
            let outer = walks[..walks.len() - 1].iter().map(|[_, stride]| *stride);
            run_length(&outer.chain([last_extent]).collect::<Vec<_>>())
        } else {
            1
        };
        let elements: usize = walks.iter().map(|[extent, _]| extent).product();
        let (runs, axes) = (elements / run, walks.len() as i32);
        let (mut extents, mut strides) = ([1; MAXIMUM_RANK], [0; MAXIMUM_RANK]);
        for (axis, [extent, stride]) in walks.iter().enumerate() {
            (extents[axis], strides[axis]) = (*extent, *stride);
        }
        extents[walks.len() - 1] /= run;
        let mut all = arguments![source.0, target.0, runs, axes, run as i32, accumulate].to_vec();
        all.extend(extents.into_iter().chain(strides).map(Argument::from));
        let kernel = kernel_from!(PERMUTE, "permute", source.1);
        self.launch(kernel, target.1, Launch::elements(runs), &all)
    }
}

impl Tape {
    /// See [`Tape::permute`]; `shape` is that of the result, `there` and `back` how the axes are
    /// walked in each direction.
    pub(crate) fn permute_cuda(
        &mut self,
        cuda: &Cuda,
        shape: Shape,
        x: &Tensor,
        [there, back]: [Walks; 2],
    ) -> Result<Tensor> {
        let element = x.element(cuda);
        let output = cuda.buffer(element, shape.elements())?;
        let source = (x.pointer(cuda, element)?, element);
        cuda.permute(source, (output.pointer(), element), &there, false)?;
        Ok(self.record_cuda("permute", shape, output, &[x], |_| {
            let x = x.clone();
            move |cuda, upstream, gradients| {
                let source = (upstream.pointer(), upstream.element());
                let element = cuda.gradient_element(&x, source.1);
                gradients.with_cuda(&x, element, |target, accumulate| {
                    cuda.permute(source, (target, element), &back, accumulate)
                })
            }
        }))
    }
}
