//! x + gate·f on a GPU.

use super::modulation::{Chunks, aligned, with_modulation};
use crate::cuda::{Cuda, CudaBuffer, Element, Launch, Program, arguments, programs};
use crate::gradient::GradientStore;
use crate::{Result, Tape, Tensor};

programs! {
    /// The residual branch of adaLN-Zero.
    GATED_RESIDUAL = "gated_residual": "modulation.cu", "gated_residual.cu";
}

/// The most threads of a block.
const THREADS: usize = 256;
/// Rows that a thread has under way at once.
const BATCH: usize = 4;

/// Threads of a processor that the memory is busy with; more leave more partial sums.
const PROCESSOR_THREADS: usize = 640;

/// How threads are laid over rows and columns.
struct Layout {
    dealt: Chunks,
    /// Threads side by side in a row.
    columns: usize,
    launch: Launch,
    /// Whether a thread takes a 16-byte vector of each row; otherwise one element.
    vectors: bool,
}

impl Layout {
    fn new(cuda: &Cuda, x: &Tensor, modulation: &Tensor, addresses: &[u64]) -> Self {
        let (rows, width) = (x.shape().rows(), x.shape().last());
        let vector = 16 / cuda.element().size();
        let vectors = width.is_multiple_of(vector) && aligned(addresses);
        let across = if vectors { width / vector } else { width };
        let columns = across.min(THREADS);
        let tiles = across.div_ceil(columns);
        let slots = THREADS / columns;
        let groups = modulation.shape().extents()[0];
        let threads = columns * slots;
        let at_once = cuda.blocks_at_once(threads * tiles, PROCESSOR_THREADS);
        let dealt = Chunks::new([groups, rows / groups], at_once, BATCH * slots);
        let launch = Launch { grid: [dealt.blocks(), tiles, 1], threads, shared: 0 };
        Self { dealt, columns, launch, vectors }
    }
}

impl Tape {
    /// See [`Tape::gated_residual`].
    pub(crate) fn gated_residual_cuda(
        &mut self,
        cuda: &Cuda,
        x: &Tensor,
        f: &Tensor,
        modulation: &Tensor,
        gate: usize,
    ) -> Result<Tensor> {
        let element = cuda.element();
        let output = cuda.buffer(element, x.shape().elements())?;
        if output.length() > 0 {
            let places = [
                x.pointer(cuda, element)?,
                f.pointer(cuda, element)?,
                modulation.pointer(cuda, element)?,
                output.pointer(),
            ];
            let Layout { dealt, columns, launch, vectors } =
                Layout::new(cuda, x, modulation, &places);
            let [x_place, f_place, gates, target] = places;
            let (parts, width) = (modulation.shape().extents()[1], x.shape().last());
            let Chunks { group_rows, chunks, chunk_rows, .. } = dealt;
            let arguments = arguments![
                x_place, f_place, gates, target, parts, gate, width, columns, group_rows, chunks,
                chunk_rows
            ];
            let name =
                if vectors { "gated_residual_forward" } else { "gated_residual_forward_any" };
            cuda.launch(GATED_RESIDUAL.kernel(name), element, launch, arguments)?;
        }
        let inputs = [x, f, modulation];
        Ok(self.record_cuda("gated_residual", *x.shape(), output, &inputs, |_| {
            let node =
                GatedBackward { x: x.clone(), f: f.clone(), modulation: modulation.clone(), gate };
            move |cuda, upstream, gradients| node.backward(cuda, upstream, gradients)
        }))
    }
}

struct GatedBackward {
    x: Tensor,
    f: Tensor,
    modulation: Tensor,
    gate: usize,
}

impl GatedBackward {
    fn backward(
        &self,
        cuda: &Cuda,
        upstream: CudaBuffer,
        gradients: &mut GradientStore<'_>,
    ) -> Result<()> {
        if upstream.length() > 0 {
            self.branch_backward(cuda, &upstream, gradients)?;
        }
        // All that reads the upstream is in the stream before whatever x's gradient meets next.
        gradients.add_whole_cuda(&self.x, upstream)
    }

    /// df and dgate.
    fn branch_backward(
        &self,
        cuda: &Cuda,
        upstream: &CudaBuffer,
        gradients: &mut GradientStore<'_>,
    ) -> Result<()> {
        let element = cuda.element();
        let (parts, width) = (self.modulation.shape().extents()[1], self.x.shape().last());
        let f = self.f.pointer(cuda, element)?;
        let gates = self.modulation.pointer(cuda, element)?;
        let taken = gradients.take_cuda(&self.f, element)?;
        let (target, accumulate) =
            taken.as_ref().map_or((0, false), |taken| (taken.pointer, taken.accumulate));
        let places = [upstream.pointer(), f, gates, target];
        let Layout { dealt, columns, launch, vectors } =
            Layout::new(cuda, &self.x, &self.modulation, &places);
        let partials = cuda.buffer(Element::F32, dealt.blocks() * width)?;
        let (d, sums, gate) = (upstream.pointer(), partials.pointer(), self.gate);
        let Chunks { group_rows, chunks, chunk_rows, .. } = dealt;
        let arguments = arguments![
            d, f, gates, target, sums, parts, gate, width, columns, group_rows, chunks, chunk_rows,
            accumulate
        ];
        let name = if vectors { "gated_residual_backward" } else { "gated_residual_backward_any" };
        cuda.launch(GATED_RESIDUAL.kernel(name), element, launch, arguments)?;
        if let Some(taken) = taken {
            gradients.give_cuda(&self.f, taken)?;
        }
        with_modulation(cuda, gradients, &self.modulation, |gradient| {
            let (launch, slices) = dealt.totals(width);
            let arguments = arguments![sums, gradient, parts, gate, width, chunks, slices];
            cuda.launch(GATED_RESIDUAL.kernel("gated_residual_finish"), element, launch, arguments)
        })
    }
}
