//! LayerNorm over the channels of each head on a GPU.

use super::modulation::{Chunks, SUMMED_ROWS, aligned, totals};
use crate::cuda::{Argument, Cuda, CudaBuffer, Element, Launch, Program, arguments, programs};
use crate::gradient::{CudaGradient, GradientStore, RowSums};
use crate::operation::Affine;
use crate::{Result, Tape, Tensor};

programs! {
    /// Norms of heads.
    HEAD_NORM = "head_norm": "packed.cu", "modulation.cu", "head_norm.cu";
}

/// Slots that one launch of the fast kernels takes.
const SLOTS: usize = 4;
/// The most threads of a block of the fast kernels, one for each 16-byte vector, and for how many threads
/// of a processor blocks are made: few leave little to add up, many wait for memory at once.
const FORWARD: [usize; 2] = [512, 2048];
const BACKWARD: [usize; 2] = [192, 640];
/// Rows that a thread has under way at once.
const BATCH: usize = 4;
/// Heads, one for each warp, of a block of the general kernels.
const WARPS: usize = 8;

/// The sizes and the small vectors of one norm.
struct HeadNorm {
    rows: usize,
    width: usize,
    heads: usize,
    channels: usize,
    slots: Vec<Option<[Tensor; 2]>>,
    epsilon: f32,
}

/// The launch of the fast kernels for some of the slots.
struct Fast {
    /// The first column.
    start: usize,
    /// Columns of the slots together.
    span: usize,
    chunk_rows: usize,
    launch: Launch,
}

impl HeadNorm {
    fn new(x: &Tensor, heads: usize, slots: &[Option<Affine<'_>>], epsilon: f32) -> Self {
        let (rows, width) = (x.shape().rows(), x.shape().last());
        let kept = |affine: Affine<'_>| [affine.scale.clone(), affine.offset.clone()];
        let channels = width / (heads * slots.len());
        let slots = slots.iter().map(|slot| slot.map(kept)).collect();
        Self { rows, width, heads, channels, slots, epsilon }
    }

    fn slot_width(&self) -> usize {
        self.heads * self.channels
    }

    /// Whether the threads of a head can be neighbors in a warp, each with one 16-byte vector.
    fn is_fast(&self, cuda: &Cuda, addresses: &[u64]) -> bool {
        let vector = 16 / cuda.element().size();
        let team = self.channels / vector;
        self.channels.is_multiple_of(vector)
            && team.is_power_of_two()
            && team <= 32
            && aligned(addresses)
    }

    /// The launch for `count` slots from `first` on.
    fn fast(
        &self,
        cuda: &Cuda,
        [first, count]: [usize; 2],
        [most_threads, processor_threads]: [usize; 2],
    ) -> Fast {
        let span = count * self.slot_width();
        let across = span / (16 / cuda.element().size());
        // Tiles of the same size; a head does not cross them, as its threads are a power of two.
        let threads = across.div_ceil(across.div_ceil(most_threads)).next_multiple_of(32);
        let tiles = across.div_ceil(threads);
        let at_once = cuda.blocks_at_once(threads * tiles, processor_threads);
        let dealt = Chunks::new([1, self.rows], at_once, BATCH);
        let launch = Launch { grid: [dealt.blocks(), tiles, 1], threads, shared: 0 };
        Fast { start: first * self.slot_width(), span, chunk_rows: dealt.chunk_rows, launch }
    }

    /// The launch of the general kernels for one slot.
    fn general(&self) -> Launch {
        Launch::blocks((self.rows * self.heads).div_ceil(WARPS), 32 * WARPS)
    }

    /// The addresses of γ and β of a slot; null where it is copied.
    fn vectors(&self, cuda: &Cuda, slot: usize) -> Result<[u64; 2]> {
        match self.slots.get(slot) {
            Some(Some([scale, offset])) => {
                Ok([scale.pointer(cuda, Element::F32)?, offset.pointer(cuda, Element::F32)?])
            }
            _ => Ok([0; 2]),
        }
    }

    fn forward(&self, cuda: &Cuda, x: u64, y: u64) -> Result<()> {
        let element = cuda.element();
        let Self { rows, width, heads, channels, epsilon, .. } = *self;
        if !self.is_fast(cuda, &[x, y]) {
            for slot in 0..self.slots.len() {
                let [scale, offset] = self.vectors(cuda, slot)?;
                let start = slot * self.slot_width();
                let arguments =
                    arguments![x, y, scale, offset, rows, width, start, heads, channels, epsilon];
                let kernel = HEAD_NORM.kernel("head_norm_forward_any");
                cuda.launch(kernel, element, self.general(), arguments)?;
            }
            return Ok(());
        }
        for first in (0..self.slots.len()).step_by(SLOTS) {
            let count = SLOTS.min(self.slots.len() - first);
            let Fast { start, span, chunk_rows, launch } = self.fast(cuda, [first, count], FORWARD);
            let at = (start * element.size()) as u64;
            let mut arguments = arguments![x + at, y + at].to_vec();
            for slot in first..first + SLOTS {
                let vectors = if slot < first + count { self.vectors(cuda, slot)? } else { [0; 2] };
                arguments.extend_from_slice(arguments![vectors[0], vectors[1]]);
            }
            let slot_width = self.slot_width();
            arguments.extend_from_slice(arguments![
                rows, width, span, slot_width, channels, chunk_rows, epsilon
            ]);
            cuda.launch(HEAD_NORM.kernel("head_norm_forward"), element, launch, &arguments)?;
        }
        Ok(())
    }
}

impl Tape {
    /// See [`Tape::head_norm`].
    pub(crate) fn head_norm_cuda(
        &mut self,
        cuda: &Cuda,
        x: &Tensor,
        heads: usize,
        slots: &[Option<Affine<'_>>],
        epsilon: f32,
    ) -> Result<Tensor> {
        let norm = HeadNorm::new(x, heads, slots, epsilon);
        let HeadNorm { rows, width, .. } = norm;
        let output = cuda.buffer(cuda.element(), rows * width)?;
        if rows * width > 0 {
            norm.forward(cuda, x.pointer(cuda, cuda.element())?, output.pointer())?;
        }
        let mut inputs = vec![x];
        inputs.extend(slots.iter().flatten().flat_map(|affine| [affine.scale, affine.offset]));
        Ok(self.record_cuda("head_norm", *x.shape(), output, &inputs, |_| {
            let node = HeadNormBackward { x: x.clone(), norm };
            move |cuda, upstream, gradients| node.backward(cuda, upstream, gradients)
        }))
    }

    /// See [`Tape::head_norm_owned`]; says whether x could be overwritten.
    pub(crate) fn head_norm_over_cuda(
        &mut self,
        cuda: &Cuda,
        x: &mut Tensor,
        heads: usize,
        slots: &[Option<Affine<'_>>],
        epsilon: f32,
    ) -> Result<bool> {
        let mut norm = HeadNorm::new(x, heads, slots, epsilon);
        let place = x.owned_pointer(cuda, cuda.element());
        // The general kernels read a head more than once.
        let Some(place) = place.filter(|place| norm.is_fast(cuda, &[*place])) else {
            return Ok(false);
        };
        // What comes last and would be copied is there.
        while norm.slots.pop_if(|slot| slot.is_none()).is_some() {}
        if norm.rows * norm.width > 0 {
            norm.forward(cuda, place, place)?;
        }
        Ok(true)
    }
}

struct HeadNormBackward {
    x: Tensor,
    norm: HeadNorm,
}

/// Partial sums of the small vectors' gradients.
struct Sums {
    /// Where those of the first slot begin, γ before β.
    address: u64,
    parts: usize,
    /// From one part to the next.
    stride: usize,
}

impl HeadNormBackward {
    /// The upstream becomes dx where it is: copied slots need no work, and nobody else has it.
    fn backward(
        &self,
        cuda: &Cuda,
        upstream: CudaBuffer,
        gradients: &mut GradientStore<'_>,
    ) -> Result<()> {
        let norm = &self.norm;
        let mut row_sums = None;
        if upstream.length() > 0 {
            let x = self.x.pointer(cuda, cuda.element())?;
            if norm.is_fast(cuda, &[x, upstream.pointer()]) {
                row_sums = self.fast_backward(cuda, upstream.pointer(), x, gradients)?;
            } else {
                self.general_backward(cuda, upstream.pointer(), x, gradients)?;
            }
        }
        let first = gradients.is_first(&self.x, cuda.element());
        gradients.add_whole_cuda(&self.x, upstream)?;
        if let Some(row_sums) = row_sums.filter(|_| first) {
            gradients.leave_row_sums(&self.x, row_sums);
        }
        Ok(())
    }

    /// Also the sums over the rows of dx, which are likely the gradient of a bias, if one launch is all and only
    /// slots at the end are copied.
    fn fast_backward(
        &self,
        cuda: &Cuda,
        gradient: u64,
        x: u64,
        gradients: &mut GradientStore<'_>,
    ) -> Result<Option<RowSums>> {
        let norm = &self.norm;
        let element = cuda.element();
        let HeadNorm { rows, width, channels, epsilon, .. } = *norm;
        let normed = norm.slots.iter().take_while(|slot| slot.is_some()).count();
        let summed =
            normed > 0 && normed <= SLOTS && norm.slots[normed..].iter().all(Option::is_none);
        let mut row_sums = None;
        for first in (0..norm.slots.len()).step_by(SLOTS) {
            let rest = &norm.slots[first..norm.slots.len().min(first + SLOTS)];
            // Copied slots at the end need no thread.
            let Some(last) = rest.iter().rposition(Option::is_some) else { continue };
            let count = last + 1;
            let Fast { start, span, chunk_rows, launch } =
                norm.fast(cuda, [first, count], BACKWARD);
            let parts = launch.grid[0] * launch.grid[1];
            let stride = count * 2 * channels;
            let partials = cuda.buffer(Element::F32, parts * stride)?;
            if summed && rows >= SUMMED_ROWS * launch.grid[0] {
                let partials = cuda.buffer(Element::F32, launch.grid[0] * width)?;
                row_sums = Some(RowSums { partials, parts: launch.grid[0], width });
            }
            let row_place = row_sums.as_ref().map_or(0, |sums| sums.partials.pointer());
            let at = (start * element.size()) as u64;
            let mut arguments =
                arguments![gradient + at, x + at, partials.pointer(), row_place].to_vec();
            for slot in first..first + SLOTS {
                let scale = if slot < first + count { norm.vectors(cuda, slot)?[0] } else { 0 };
                arguments.extend_from_slice(arguments![scale]);
            }
            let slot_width = norm.slot_width();
            arguments.extend_from_slice(arguments![
                rows, width, span, slot_width, channels, chunk_rows, epsilon
            ]);
            cuda.launch(HEAD_NORM.kernel("head_norm_backward"), element, launch, &arguments)?;
            if row_place != 0 && span < width {
                let source = (gradient + (span * element.size()) as u64, element);
                let sums = row_place + (span * Element::F32.size()) as u64;
                cuda.band_sums(source, sums, [rows, width - span, width], chunk_rows)?;
            }
            let sums = Sums { address: partials.pointer(), parts, stride };
            self.finish(cuda, &rest[..count], &sums, gradients)?;
        }
        Ok(row_sums)
    }

    fn general_backward(
        &self,
        cuda: &Cuda,
        gradient: u64,
        x: u64,
        gradients: &mut GradientStore<'_>,
    ) -> Result<()> {
        let norm = &self.norm;
        let HeadNorm { rows, width, heads, channels, epsilon, .. } = *norm;
        let (parts, stride) = (rows * heads, 2 * channels);
        for slot in 0..norm.slots.len() {
            let [scale, _] = norm.vectors(cuda, slot)?;
            if scale == 0 {
                continue;
            }
            let terms = cuda.buffer(Element::F32, parts * stride)?;
            let address = terms.pointer();
            let start = slot * norm.slot_width();
            let arguments = arguments![
                gradient, x, address, scale, rows, width, start, heads, channels, epsilon
            ];
            let kernel = HEAD_NORM.kernel("head_norm_backward_any");
            cuda.launch(kernel, cuda.element(), norm.general(), arguments)?;
            let sums = Sums { address, parts, stride };
            self.finish(cuda, &norm.slots[slot..=slot], &sums, gradients)?;
        }
        Ok(())
    }

    /// Adds up the gradients of γ and β of at most four slots.
    fn finish(
        &self,
        cuda: &Cuda,
        slots: &[Option<[Tensor; 2]>],
        sums: &Sums,
        gradients: &mut GradientStore<'_>,
    ) -> Result<()> {
        let channels = self.norm.channels;
        let numbered =
            slots.iter().enumerate().filter_map(|(slot, pair)| Some((slot, pair.as_ref()?)));
        let mut pending: Vec<(usize, &Tensor)> = numbered
            .flat_map(|(slot, [scale, offset])| [(2 * slot, scale), (2 * slot + 1, offset)])
            .collect();
        while !pending.is_empty() {
            // A vector that several slots share is lent to one of them at a time.
            let mut later = Vec::new();
            let mut lent: Vec<(&Tensor, CudaGradient)> = Vec::new();
            let (mut targets, mut accumulate) = ([0_u64; 2 * SLOTS], 0);
            for (place, vector) in pending {
                if lent.iter().any(|(other, _)| other.origin == vector.origin) {
                    later.push((place, vector));
                } else if let Some(gradient) = gradients.take_cuda(vector, Element::F32)? {
                    targets[place] = gradient.pointer;
                    accumulate |= i32::from(gradient.accumulate) << place;
                    lent.push((vector, gradient));
                }
            }
            let (launch, slices) = totals(2 * slots.len(), sums.parts, channels);
            let mut arguments = arguments![sums.address].to_vec();
            arguments.extend(targets.map(Argument::from));
            let Sums { parts, stride, .. } = *sums;
            arguments.extend_from_slice(arguments![parts, stride, channels, slices, accumulate]);
            cuda.launch_plain(HEAD_NORM.kernel("head_norm_finish"), launch, &arguments)?;
            for (vector, gradient) in lent {
                gradients.give_cuda(vector, gradient)?;
            }
            pending = later;
        }
        Ok(())
    }
}
