//! LayerNorm with affine map and modulation on a GPU.

use super::gated_residual::{BranchPlaces, GatedBackward};
use super::modulation::{Chunks, aligned, with_modulation};
use crate::cuda::{
    Cuda, CudaBuffer, Element, Launch, Program, argument_groups, arguments, programs,
};
use crate::gradient::GradientStore;
use crate::operation::{Affine, Gate, Modulation};
use crate::{Result, Tape, Tensor};
use std::sync::Arc;

programs! {
    /// Norms of rows.
    MODULATED_NORM = "modulated_norm": "packed.cu", "modulation.cu", "modulated_norm.cu";
}

/// Rows that a block of the fast kernels holds at once.
const BATCH: usize = 4;
/// The most threads of the fast kernels, one for each 16-byte vector of a row.
const MOST_THREADS: usize = 512;
/// Threads of the fast kernels that the registers of a processor are enough for: of the norm alone, and of
/// those that hold a residual or gradients too.
const FORWARD_THREADS: usize = 576;
const FULL_THREADS: usize = 512;

/// The small vectors and the sizes of one norm.
#[derive(Clone)]
struct Norm {
    rows: usize,
    width: usize,
    groups: usize,
    affine: Option<[Tensor; 2]>,
    /// The modulation, which of its vectors is the shift, and which the scale.
    modulation: Option<(Tensor, usize, usize)>,
}

/// The addresses of the small vectors; null where there are none.
struct Places {
    gamma: u64,
    beta: u64,
    vectors: u64,
    parts: usize,
    shift: usize,
    scale: usize,
}

impl Norm {
    fn places(&self, cuda: &Cuda) -> Result<Places> {
        let [gamma, beta] = match &self.affine {
            Some([scale, offset]) => {
                [scale.pointer(cuda, Element::F32)?, offset.pointer(cuda, Element::F32)?]
            }
            None => [0; 2],
        };
        let (vectors, parts, shift, scale) = match &self.modulation {
            Some((vectors, shift, scale)) => {
                let pointer = vectors.pointer(cuda, cuda.element())?;
                (pointer, vectors.shape().extents()[1], *shift, *scale)
            }
            None => (0, 0, 0, 0),
        };
        Ok(Places { gamma, beta, vectors, parts, shift, scale })
    }

    /// Rows of a group, at least one for kernels that divide by it.
    fn group_rows(&self) -> usize {
        (self.rows / self.groups).max(1)
    }

    /// Threads of the fast kernels, where they can be used.
    fn threads(&self, cuda: &Cuda, addresses: &[u64]) -> Option<usize> {
        let vector = 16 / cuda.element().size();
        let threads = (self.width / vector).next_multiple_of(32);
        let fits = self.width.is_multiple_of(vector) && threads <= MOST_THREADS;
        (fits && aligned(addresses)).then_some(threads)
    }

    fn chunks(&self, cuda: &Cuda, threads: usize, processor_threads: usize) -> Chunks {
        let at_once = cuda.blocks_at_once(threads, processor_threads);
        Chunks::new([self.groups, self.group_rows()], at_once, BATCH)
    }
}

impl Tape {
    /// See [`Tape::modulated_norm`] and [`Tape::layer_norm`].
    pub(crate) fn norm_cuda(
        &mut self,
        cuda: &Cuda,
        operation: &'static str,
        x: &Tensor,
        affine: Option<Affine<'_>>,
        modulation: Option<Modulation<'_>>,
        epsilon: f32,
    ) -> Result<Tensor> {
        let norm = Norm::new(x, affine, modulation);
        let (rows, width) = (norm.rows, norm.width);
        let element = cuda.element();
        let output = cuda.buffer(element, rows * width)?;
        let statistics = cuda.buffer(Element::F32, 2 * rows)?;
        if rows * width > 0 {
            norm.forward(cuda, x, &output, &statistics, epsilon)?;
        }
        let node = NormBackward { norm, x: x.clone(), statistics, gated: None };
        let vectors = modulation.map(|modulation| modulation.vectors);
        Ok(self.record_norm(operation, output, node, affine, vectors))
    }

    /// See [`Tape::gated_norm`]; `None` where there is no kernel for both at once.
    pub(crate) fn gated_norm_cuda(
        &mut self,
        cuda: &Cuda,
        [x, f]: [&Tensor; 2],
        gate: Gate<'_>,
        affine: Option<Affine<'_>>,
        modulation: Modulation<'_>,
        epsilon: f32,
    ) -> Result<Option<[Tensor; 2]>> {
        let element = cuda.element();
        let norm = Norm::new(x, affine, Some(modulation));
        let [groups, gate_parts, _] = *gate.vectors.shape().extents() else { return Ok(None) };
        let (rows, width) = (norm.rows, norm.width);
        let [base, branch] = [x.pointer(cuda, element)?, f.pointer(cuda, element)?];
        let threads = norm.threads(cuda, &[base, branch]);
        let Some(threads) = threads.filter(|_| groups == norm.groups && rows * width > 0) else {
            return Ok(None);
        };
        let sum = cuda.buffer(element, rows * width)?;
        let output = cuda.buffer(element, rows * width)?;
        let statistics = cuda.buffer(Element::F32, 2 * rows)?;
        let Places { gamma, beta, vectors, parts, shift, scale } = norm.places(cuda)?;
        let gates = gate.vectors.pointer(cuda, element)?;
        let dealt = norm.chunks(cuda, threads, FULL_THREADS);
        let Chunks { chunks, chunk_rows, .. } = dealt;
        let arguments = argument_groups![
            [base, branch, sum.pointer(), gates],
            [gate_parts, gate.part],
            [output.pointer(), statistics.pointer(), gamma, beta, vectors],
            [parts, shift, scale, width, norm.group_rows(), chunks, chunk_rows],
            [epsilon]
        ];
        let launch = Launch::blocks(dealt.blocks(), threads);
        cuda.launch(MODULATED_NORM.kernel("gated_norm_forward"), element, launch, &arguments)?;
        let gated = GatedBackward::new([x, f, gate.vectors], gate.part);
        let sum = self.record_gated_residual(sum, &gated);
        let node = NormBackward { norm, x: sum.clone(), statistics, gated: Some(gated) };
        let normed =
            self.record_norm("modulated_norm", output, node, affine, Some(modulation.vectors));
        Ok(Some([sum, normed]))
    }

    /// Records a norm that was computed.
    fn record_norm(
        &mut self,
        operation: &'static str,
        output: CudaBuffer,
        node: NormBackward,
        affine: Option<Affine<'_>>,
        modulation: Option<&Tensor>,
    ) -> Tensor {
        let x = node.x.clone();
        let small = affine.iter().flat_map(|affine| [affine.scale, affine.offset]);
        let inputs: Vec<&Tensor> = [&x].into_iter().chain(small).chain(modulation).collect();
        self.record_cuda(operation, *x.shape(), output, &inputs, |_| {
            move |cuda, upstream, gradients| node.backward(cuda, upstream, gradients)
        })
    }
}

impl Norm {
    fn new(x: &Tensor, affine: Option<Affine<'_>>, modulation: Option<Modulation<'_>>) -> Self {
        Self {
            rows: x.shape().rows(),
            width: x.shape().last(),
            groups: modulation.map_or(1, |m| m.vectors.shape().extents()[0]),
            affine: affine.map(|affine| [affine.scale.clone(), affine.offset.clone()]),
            modulation: modulation.map(|m| (m.vectors.clone(), m.shift, m.scale)),
        }
    }

    fn forward(
        &self,
        cuda: &Cuda,
        x: &Tensor,
        output: &CudaBuffer,
        statistics: &CudaBuffer,
        epsilon: f32,
    ) -> Result<()> {
        let element = cuda.element();
        let Places { gamma, beta, vectors, parts, shift, scale } = self.places(cuda)?;
        let (x, y, statistics) =
            (x.pointer(cuda, element)?, output.pointer(), statistics.pointer());
        let (width, group_rows) = (self.width, self.group_rows());
        let Some(threads) = self.threads(cuda, &[x, y]) else {
            let arguments = arguments![
                x, y, statistics, gamma, beta, vectors, parts, shift, scale, width, group_rows,
                epsilon
            ];
            let launch = Launch::blocks(self.rows, 256);
            return cuda.launch(
                MODULATED_NORM.kernel("modulated_norm_forward_any"),
                element,
                launch,
                arguments,
            );
        };
        let dealt = self.chunks(cuda, threads, FORWARD_THREADS);
        let Chunks { chunks, chunk_rows, .. } = dealt;
        let arguments = arguments![
            x, y, statistics, gamma, beta, vectors, parts, shift, scale, width, group_rows, chunks,
            chunk_rows, epsilon
        ];
        let launch = Launch::blocks(dealt.blocks(), threads);
        cuda.launch(MODULATED_NORM.kernel("modulated_norm_forward"), element, launch, arguments)
    }
}

struct NormBackward {
    norm: Norm,
    x: Tensor,
    /// Mean and 1/√(σ² + ε) of each row.
    statistics: CudaBuffer,
    /// The operation that made x right before. Whatever else reads x came later and so is behind us on the
    /// way back: what is written or added here makes dx whole, and the gradients of that operation follow.
    gated: Option<Arc<GatedBackward>>,
}

impl NormBackward {
    fn backward(
        &self,
        cuda: &Cuda,
        upstream: CudaBuffer,
        gradients: &mut GradientStore<'_>,
    ) -> Result<()> {
        let norm = &self.norm;
        if norm.rows * norm.width == 0 {
            return Ok(());
        }
        let element = cuda.element();
        let places = norm.places(cuda)?;
        let taken = gradients.take_cuda(&self.x, element)?;
        let target = taken.as_ref().map_or((0, false), |taken| (taken.pointer, taken.accumulate));
        let fast =
            norm.threads(cuda, &[self.x.pointer(cuda, element)?, upstream.pointer(), target.0]);
        let dealt = norm.chunks(cuda, fast.unwrap_or(128), FULL_THREADS);
        let branch = match &self.gated {
            Some(gated) if fast.is_some() && taken.is_some() => {
                gated.take(cuda, gradients, dealt)?
            }
            _ => None,
        };
        let partials = cuda.buffer(Element::F32, dealt.blocks() * 2 * norm.width)?;
        let rows = Rows { upstream: upstream.pointer(), target, dealt, sums: partials.pointer() };
        match fast {
            Some(threads) => self.fast_backward(cuda, &places, &rows, threads, branch.as_ref())?,
            None => self.general_backward(cuda, &places, &rows)?,
        }
        if let Some(taken) = taken {
            gradients.give_cuda(&self.x, taken)?;
        }
        if let (Some(gated), Some(branch)) = (&self.gated, branch) {
            gated.give(cuda, gradients, dealt, branch)?;
        }
        let Places { gamma, beta, vectors, parts, shift, scale } = places;
        let (groups, width) = (norm.groups, norm.width);
        let sums = match &norm.affine {
            Some(_) => Some([
                cuda.buffer(Element::F32, groups * width)?,
                cuda.buffer(Element::F32, groups * width)?,
            ]),
            None => None,
        };
        let [gamma_sums, beta_sums] =
            sums.as_ref().map_or([0; 2], |[gamma, beta]| [gamma.pointer(), beta.pointer()]);
        let finish = |gradient: u64| {
            let (launch, slices) = dealt.totals(width);
            let arguments = argument_groups![
                [partials.pointer(), gamma, beta, vectors, gradient, gamma_sums, beta_sums],
                [parts, shift, scale, width, dealt.chunks],
                [slices]
            ];
            cuda.launch(MODULATED_NORM.kernel("modulated_norm_finish"), element, launch, &arguments)
        };
        let mut finished = false;
        if let Some((vectors, ..)) = &norm.modulation {
            with_modulation(cuda, gradients, vectors, |address| {
                finished = true;
                finish(address)
            })?;
        }
        let (Some(tensors), Some(sums)) = (&norm.affine, sums) else { return Ok(()) };
        if !finished {
            finish(0)?;
        }
        for (tensor, sums) in tensors.iter().zip(&sums) {
            if groups == 1 {
                gradients.add_cuda(tensor, sums)?;
                continue;
            }
            gradients.with_cuda(tensor, Element::F32, |target, accumulate| {
                let source = (sums.pointer(), Element::F32);
                cuda.column_sums(source, [groups, width], target, accumulate)
            })?;
        }
        Ok(())
    }

    /// dx and the partial sums of what the small vectors need, and the gradients of the branch behind x.
    fn fast_backward(
        &self,
        cuda: &Cuda,
        places: &Places,
        rows: &Rows,
        threads: usize,
        branch: Option<&BranchPlaces>,
    ) -> Result<()> {
        let element = cuda.element();
        let Places { gamma, vectors, parts, scale, .. } = *places;
        let Rows { upstream, target: (target, accumulate), dealt, sums } = *rows;
        let (x, statistics) = (self.x.pointer(cuda, element)?, self.statistics.pointer());
        let (kernel, branch) = match branch {
            Some(BranchPlaces { places, gate, .. }) => {
                ("gated_norm_backward", argument_groups![*places, *gate])
            }
            None => ("modulated_norm_backward", Vec::new()),
        };
        let Chunks { chunks, chunk_rows, group_rows, .. } = dealt;
        let arguments = [
            argument_groups![[upstream, x, statistics, target]],
            branch,
            argument_groups![
                [sums, gamma, vectors],
                [parts, scale, self.norm.width, group_rows, chunks, chunk_rows],
                [accumulate]
            ],
        ]
        .concat();
        let launch = Launch::blocks(dealt.blocks(), threads);
        cuda.launch(MODULATED_NORM.kernel(kernel), element, launch, &arguments)
    }

    /// The same for rows of any width, without a branch.
    fn general_backward(&self, cuda: &Cuda, places: &Places, rows: &Rows) -> Result<()> {
        let norm = &self.norm;
        let element = cuda.element();
        let Places { gamma, vectors, parts, scale, .. } = *places;
        let Rows { upstream, target: (target, accumulate), dealt, sums } = *rows;
        let (width, group_rows) = (norm.width, norm.group_rows());
        let (x, statistics) = (self.x.pointer(cuda, element)?, self.statistics.pointer());
        if target != 0 {
            let arguments = arguments![
                upstream, x, statistics, target, gamma, vectors, parts, scale, width, group_rows,
                accumulate
            ];
            let launch = Launch::blocks(norm.rows, 256);
            cuda.launch(
                MODULATED_NORM.kernel("modulated_norm_backward_any"),
                element,
                launch,
                arguments,
            )?;
        }
        let Chunks { chunks, chunk_rows, .. } = dealt;
        let arguments =
            arguments![upstream, x, statistics, sums, width, group_rows, chunks, chunk_rows];
        let launch =
            Launch { grid: [dealt.blocks(), width.div_ceil(128), 1], threads: 128, shared: 0 };
        cuda.launch(MODULATED_NORM.kernel("modulated_norm_sums_any"), element, launch, arguments)
    }
}

/// What a backward reads and writes by rows.
struct Rows {
    upstream: u64,
    /// dx, null if it is not wanted, and whether to add to it.
    target: (u64, bool),
    dealt: Chunks,
    /// The partial sums [block, 2, width] of what the small vectors need.
    sums: u64,
}
