//! x + gate·f on a GPU.

use super::modulation::{Chunks, SUMMED_ROWS, aligned, with_modulation};
use crate::cuda::{Cuda, CudaBuffer, Element, Launch, Program, arguments, programs};
use crate::gradient::{CudaGradient, GradientStore, RowSums};
use crate::{Result, Tape, Tensor};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
        let node = GatedBackward::new([x, f, modulation], gate);
        Ok(self.record_gated_residual(output, &node))
    }

    /// Records x + gate·f, which was computed.
    pub(super) fn record_gated_residual(
        &mut self,
        output: CudaBuffer,
        node: &Arc<GatedBackward>,
    ) -> Tensor {
        let inputs = [&node.x, &node.f, &node.modulation];
        self.record_cuda("gated_residual", *node.x.shape(), output, &inputs, |_| {
            let node = node.clone();
            move |cuda, upstream, gradients| node.backward(cuda, upstream, gradients)
        })
    }
}

pub(super) struct GatedBackward {
    x: Tensor,
    f: Tensor,
    modulation: Tensor,
    gate: usize,
    /// Whether df and dgate are there already.
    done: AtomicBool,
}

/// Where df and dgate go in the kernel of another operation.
pub(super) struct BranchPlaces {
    /// f, df, partial sums for the gate and over rows, and the modulation.
    pub places: [u64; 5],
    /// Vectors of the modulation, and which one is the gate.
    pub gate: [usize; 2],
    partials: CudaBuffer,
    row_sums: Option<RowSums>,
    taken: CudaGradient,
}

impl GatedBackward {
    pub(super) fn new(inputs: [&Tensor; 3], gate: usize) -> Arc<Self> {
        let [x, f, modulation] = inputs.map(Tensor::clone);
        Arc::new(Self { x, f, modulation, gate, done: AtomicBool::new(false) })
    }

    /// The places of f's gradient and the gate's for rows dealt out so, where an operation that makes the
    /// rest of the upstream can compute them on its way; return them with [`GatedBackward::give`].
    pub(super) fn take(
        &self,
        cuda: &Cuda,
        gradients: &mut GradientStore<'_>,
        dealt: Chunks,
    ) -> Result<Option<BranchPlaces>> {
        let element = cuda.element();
        let f = self.f.pointer(cuda, element)?;
        if !gradients.is_first(&self.f, element) || !aligned(&[f]) {
            return Ok(None);
        }
        let Some(taken) = gradients.take_cuda(&self.f, element)? else { return Ok(None) };
        let width = self.x.shape().last();
        let partials = cuda.buffer(Element::F32, dealt.blocks() * width)?;
        let row_sums = self.row_sums(cuda, dealt)?;
        let row_place = row_sums.as_ref().map_or(0, |sums| sums.partials.pointer());
        let gates = self.modulation.pointer(cuda, element)?;
        let places = [f, taken.pointer, partials.pointer(), row_place, gates];
        let gate = [self.modulation.shape().extents()[1], self.gate];
        Ok(Some(BranchPlaces { places, gate, partials, row_sums, taken }))
    }

    /// Returns what [`GatedBackward::take`] lent, after the kernel that filled it.
    pub(super) fn give(
        &self,
        cuda: &Cuda,
        gradients: &mut GradientStore<'_>,
        dealt: Chunks,
        branch: BranchPlaces,
    ) -> Result<()> {
        let BranchPlaces { partials, row_sums, taken, .. } = branch;
        gradients.give_cuda(&self.f, taken)?;
        if let Some(row_sums) = row_sums {
            gradients.leave_row_sums(&self.f, row_sums);
        }
        self.done.store(true, Ordering::Relaxed);
        self.finish(cuda, gradients, dealt, &partials)
    }

    /// Room for each block's share in Σ df. What made f is likely a linear map, whose bias has it as its gradient.
    fn row_sums(&self, cuda: &Cuda, dealt: Chunks) -> Result<Option<RowSums>> {
        let (rows, width, parts) = (self.x.shape().rows(), self.x.shape().last(), dealt.blocks());
        if rows < SUMMED_ROWS * parts {
            return Ok(None);
        }
        let partials = cuda.buffer(Element::F32, parts * width)?;
        Ok(Some(RowSums { partials, parts, width }))
    }

    /// Adds up the shares of the blocks in dgate.
    fn finish(
        &self,
        cuda: &Cuda,
        gradients: &mut GradientStore<'_>,
        dealt: Chunks,
        partials: &CudaBuffer,
    ) -> Result<()> {
        let (parts, width) = (self.modulation.shape().extents()[1], self.x.shape().last());
        with_modulation(cuda, gradients, &self.modulation, |gradient| {
            let (launch, slices) = dealt.totals(width);
            let (sums, chunks) = (partials.pointer(), dealt.chunks);
            let arguments = arguments![sums, gradient, parts, self.gate, width, chunks, slices];
            let kernel = GATED_RESIDUAL.kernel("gated_residual_finish");
            cuda.launch(kernel, cuda.element(), launch, arguments)
        })
    }

    fn backward(
        &self,
        cuda: &Cuda,
        upstream: CudaBuffer,
        gradients: &mut GradientStore<'_>,
    ) -> Result<()> {
        if upstream.length() > 0 && !self.done.load(Ordering::Relaxed) {
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
        let first = gradients.is_first(&self.f, element);
        let taken = gradients.take_cuda(&self.f, element)?;
        let (target, accumulate) =
            taken.as_ref().map_or((0, false), |taken| (taken.pointer, taken.accumulate));
        let places = [upstream.pointer(), f, gates, target];
        let Layout { dealt, columns, launch, vectors } =
            Layout::new(cuda, &self.x, &self.modulation, &places);
        let partials = cuda.buffer(Element::F32, dealt.blocks() * width)?;
        let (d, sums, gate) = (upstream.pointer(), partials.pointer(), self.gate);
        let row_sums = if first { self.row_sums(cuda, dealt)? } else { None };
        let row_place = row_sums.as_ref().map_or(0, |sums| sums.partials.pointer());
        let Chunks { group_rows, chunks, chunk_rows, .. } = dealt;
        let arguments = arguments![
            d, f, gates, target, sums, row_place, parts, gate, width, columns, group_rows, chunks,
            chunk_rows, accumulate
        ];
        let name = if vectors { "gated_residual_backward" } else { "gated_residual_backward_any" };
        cuda.launch(GATED_RESIDUAL.kernel(name), element, launch, arguments)?;
        if let Some(taken) = taken {
            gradients.give_cuda(&self.f, taken)?;
        }
        if let Some(row_sums) = row_sums {
            gradients.leave_row_sums(&self.f, row_sums);
        }
        self.finish(cuda, gradients, dealt, &partials)
    }
}
