//! Attention on a GPU: which kernels serve which heads, and how they are launched.

mod hopper;
mod kernels;

use crate::cuda::{
    Argument, Cuda, CudaBuffer, Element, Kernel, Launch, Precision, Program, argument_groups,
};
use crate::gradient::GradientStore;
use crate::operation::AttentionLayout;
use crate::{Result, Tape, Tensor};
use kernels::{ATTENTION_PLAIN, PlainKernels, TENSOR_CORE_FORWARD, TensorCoreKernels};

impl Tape {
    /// See [`Tape::self_attention`] and [`Tape::cross_attention`].
    pub(crate) fn attend_cuda(
        &mut self,
        cuda: &Cuda,
        operation: &'static str,
        [query, key_value]: [&Tensor; 2],
        mask: Option<&Tensor>,
        layout: AttentionLayout,
    ) -> Result<Tensor> {
        let width = layout.heads * layout.channels;
        let rows = layout.groups * layout.queries;
        let output = cuda.buffer(cuda.element(), rows * width)?;
        let logarithms = cuda.buffer(Element::F32, rows * layout.heads)?;
        let call = Call::new(cuda, query, key_value, mask, layout)?;
        call.forward(output.pointer(), logarithms.pointer())?;
        let shape = query.shape().with_last(width);
        let inputs = [query, key_value];
        Ok(self.record_cuda(operation, shape, output, &inputs, |output| {
            let node = AttentionBackward {
                query: query.clone(),
                key_value: key_value.clone(),
                mask: mask.cloned(),
                output: output.clone(),
                logarithms,
                layout,
            };
            move |cuda, upstream, gradients| node.backward(cuda, upstream, gradients)
        }))
    }
}

/// One attention with the addresses of its operands.
struct Call<'a> {
    cuda: &'a Cuda,
    element: Element,
    layout: AttentionLayout,
    /// Queries, keys and values.
    places: [u64; 3],
    /// Elements between the rows of queries, and of keys and values.
    strides: [usize; 2],
    mask: u64,
}

/// Where gradients go.
#[derive(Clone, Copy)]
struct Gradients {
    places: [u64; 3],
    strides: [usize; 2],
}

/// Places and strides of queries, keys and values in their tensors, which begin at `query` and
/// `key_value`.
fn places(
    layout: &AttentionLayout,
    element: Element,
    query: u64,
    key_value: u64,
) -> ([u64; 3], [usize; 2]) {
    let width = layout.heads * layout.channels;
    let bytes = (width * element.size()) as u64;
    match layout.packed {
        3 => ([query, query + bytes, query + 2 * bytes], [3 * width, 3 * width]),
        _ => ([query, key_value, key_value + bytes], [width, 2 * width]),
    }
}

impl<'a> Call<'a> {
    fn new(
        cuda: &'a Cuda,
        query: &Tensor,
        key_value: &Tensor,
        mask: Option<&Tensor>,
        layout: AttentionLayout,
    ) -> Result<Self> {
        let element = cuda.element();
        let (query, key_value) = (query.pointer(cuda, element)?, key_value.pointer(cuda, element)?);
        let mask = mask.map_or(Ok(0), |mask| mask.pointer(cuda, Element::F32))?;
        let (places, strides) = places(&layout, element, query, key_value);
        Ok(Self { cuda, element, layout, places, strides, mask })
    }

    fn pairs(&self) -> usize {
        self.layout.groups * self.layout.heads
    }

    fn width(&self) -> usize {
        self.layout.heads * self.layout.channels
    }

    fn scale(&self) -> f32 {
        1.0 / (self.layout.channels as f32).sqrt()
    }

    /// Groups, heads, queries and keys as kernels take them.
    fn sizes(&self) -> [i32; 4] {
        let AttentionLayout { groups, heads, queries, keys, .. } = self.layout;
        [groups, heads, queries, keys].map(|size| size as i32)
    }

    /// Whether Hopper's kernels serve heads of so many channels.
    fn is_hopper(&self, channels: &[usize]) -> bool {
        let known = channels.contains(&self.layout.channels);
        known && self.cuda.is_hopper() && self.element == Element::Bf16
    }

    /// The tensor cores' kernels, where there are some for this head and precision.
    fn tensor_core(&self) -> Option<TensorCoreKernels> {
        let strict = self.cuda.precision() == Precision::F32;
        let kernels = TensorCoreKernels::of(self.element, self.layout.channels);
        // Smaller chips have less shared memory than the widest heads need.
        let limit = self.cuda.shared_limit();
        let fits = |kernels: &TensorCoreKernels| {
            kernels.forward_shared.max(kernels.backward_shared) <= limit
        };
        kernels.filter(|kernels| !strict && fits(kernels))
    }

    fn forward(&self, output: u64, logarithms: u64) -> Result<()> {
        if self.is_hopper(&[64, 128]) {
            return self.forward_hopper(output, logarithms);
        }
        let pairs = self.pairs();
        let arguments = argument_groups![
            self.places,
            [output, logarithms, self.mask],
            self.sizes(),
            self.strides,
            [self.width()],
            [self.scale()],
            [self.layout.channels as i32]
        ];
        let launch = |name,
                      program: &'static Program,
                      [rows, threads, shared]: [usize; 3],
                      arguments: &[_]| {
            let blocks = pairs * self.layout.queries.div_ceil(rows);
            let launch = Launch { shared, ..Launch::blocks(blocks, threads) };
            self.cuda.launch_plain(Kernel { program, name }, launch, arguments)
        };
        // All but the plain kernels know their head.
        let known = &arguments[..arguments.len() - 1];
        if let Some(kernels) = self.tensor_core() {
            let [rows, threads] = TENSOR_CORE_FORWARD;
            let block = [rows, threads, kernels.forward_shared];
            return launch(kernels.forward, kernels.program, block, known);
        }
        let kernels = PlainKernels::of(self.element, self.layout.channels);
        let [rows, shared] = kernels.forward_block;
        let block = [rows, PlainKernels::THREADS, shared];
        launch(kernels.forward, &ATTENTION_PLAIN, block, &arguments)
    }

    /// Gradients of queries, keys and values, overwritten.
    fn backward(&self, from: &Upstream, to: Gradients) -> Result<()> {
        if self.is_hopper(&[64]) {
            return self.backward_hopper(from, to);
        }
        match self.tensor_core() {
            Some(kernels) => self.backward_tensor_core(&kernels, from, to),
            None => self.backward_plain(from, to),
        }
    }

    fn backward_tensor_core(
        &self,
        kernels: &TensorCoreKernels,
        from: &Upstream,
        to: Gradients,
    ) -> Result<()> {
        let cuda = self.cuda;
        let AttentionLayout { groups, heads, queries, keys, channels, .. } = self.layout;
        let pairs = groups * heads;
        // Few heads leave processors idle: each then takes a part of the keys.
        let wanted = (2 * cuda.context().processors).div_ceil(pairs);
        let splits = wanted.clamp(1, keys.div_ceil(kernels.keys));
        let tiles = queries.div_ceil(kernels.queries);
        let delta = cuda.buffer(Element::F32, pairs * queries)?;
        let length = splits * pairs * tiles * kernels.queries * channels;
        let scratch = cuda.buffer(Element::F32, length)?;
        let kernel = |name| Kernel { program: kernels.program, name };
        let arguments = self.backward_arguments(from, to, delta.pointer(), scratch.pointer());
        let launch = Launch {
            grid: [pairs, splits, 1],
            threads: kernels.threads,
            shared: kernels.backward_shared,
        };
        cuda.launch_plain(kernel(kernels.backward), launch, &arguments[..arguments.len() - 1])?;
        if splits == 1 {
            return Ok(());
        }
        let [groups, heads, queries, _] = self.sizes();
        let launch = Launch { grid: [pairs, tiles, 1], threads: kernels.threads, shared: 0 };
        let arguments = argument_groups![
            [scratch.pointer(), to.places[0]],
            [groups, heads, queries, splits as i32],
            [to.strides[0]],
            [self.scale()]
        ];
        cuda.launch_plain(kernel(kernels.sum_splits), launch, &arguments)
    }

    fn backward_plain(&self, from: &Upstream, to: Gradients) -> Result<()> {
        let cuda = self.cuda;
        let kernels = PlainKernels::of(self.element, self.layout.channels);
        let pairs = self.pairs();
        let delta = cuda.buffer(Element::F32, pairs * self.layout.queries)?;
        let [groups, heads, queries, _] = self.sizes();
        let head = self.layout.channels as i32;
        let kernel = |name| ATTENTION_PLAIN.kernel(name);
        let Upstream { output, upstream, .. } = *from;
        cuda.launch(
            kernel("attention_delta_plain"),
            self.element,
            Launch::blocks((pairs * self.layout.queries).div_ceil(4), PlainKernels::THREADS),
            &argument_groups![
                [output, upstream, delta.pointer()],
                [groups, heads, queries],
                [self.width()],
                [head]
            ],
        )?;
        let arguments = self.backward_arguments(from, to, delta.pointer(), 0);
        let [rows, shared] = kernels.backward_block;
        for (name, count) in [
            (kernels.backward_query, self.layout.queries),
            (kernels.backward_key, self.layout.keys),
        ] {
            let blocks = pairs * count.div_ceil(rows);
            let launch = Launch { shared, ..Launch::blocks(blocks, PlainKernels::THREADS) };
            cuda.launch_plain(kernel(name), launch, &arguments)?;
        }
        Ok(())
    }

    /// What all but Hopper's take; the head comes last, for those that do not know it.
    fn backward_arguments(
        &self,
        from: &Upstream,
        to: Gradients,
        delta: u64,
        scratch: u64,
    ) -> Vec<Argument<'static>> {
        let Upstream { output, upstream, logarithms } = *from;
        argument_groups![
            self.places,
            [output, upstream, logarithms, delta, self.mask],
            to.places,
            [scratch],
            self.sizes(),
            self.strides,
            [self.width()],
            to.strides,
            [self.scale()],
            [self.layout.channels as i32]
        ]
    }
}

/// What a backward begins with.
struct Upstream {
    output: u64,
    upstream: u64,
    logarithms: u64,
}

struct AttentionBackward {
    query: Tensor,
    key_value: Tensor,
    mask: Option<Tensor>,
    output: Tensor,
    logarithms: CudaBuffer,
    layout: AttentionLayout,
}

impl AttentionBackward {
    fn backward(
        &self,
        cuda: &Cuda,
        upstream: CudaBuffer,
        gradients: &mut GradientStore<'_>,
    ) -> Result<()> {
        let Self { query, key_value, layout, .. } = self;
        let element = cuda.element();
        let call = Call::new(cuda, query, key_value, self.mask.as_ref(), *layout)?;
        let from = Upstream {
            output: self.output.pointer(cuda, element)?,
            upstream: upstream.pointer(),
            logarithms: self.logarithms.pointer(),
        };
        // The kernels overwrite, so they write to fresh memory, which moves in or is added.
        let of_query = cuda.buffer(element, query.shape().elements())?;
        if layout.packed == 3 {
            let (places, strides) = places(layout, element, of_query.pointer(), of_query.pointer());
            call.backward(&from, Gradients { places, strides })?;
            return gradients.add_whole_cuda(query, of_query);
        }
        let of_key = cuda.buffer(element, key_value.shape().elements())?;
        let (places, strides) = places(layout, element, of_query.pointer(), of_key.pointer());
        call.backward(&from, Gradients { places, strides })?;
        gradients.add_whole_cuda(query, of_query)?;
        gradients.add_whole_cuda(key_value, of_key)
    }
}
