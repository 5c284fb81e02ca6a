//! Attention by Hopper's own instructions: heads of 64 channels in bf16, and forward of 128.

use super::kernels::{HOPPER_BACKWARD, HOPPER_BACKWARD_SHORT, HOPPER_FORWARD};
use super::{Call, Gradients, Upstream};
use crate::Result;
use crate::cuda::{Element, Kernel, Launch, TensorMap, arguments};

/// The forward kernels: queries of a block, its threads and its shared memory.
const FORWARD: (&str, [usize; 3]) = ("attention_forward_hopper_64", [128, 256, 99_408]);
const FORWARD_SHORT: (&str, [usize; 3]) = ("attention_forward_short_hopper_64", [256, 256, 99_392]);
const FORWARD_WIDE: (&str, [usize; 3]) = ("attention_forward_hopper_128", [192, 384, 181_312]);
/// Keys of a block of the backward, its threads and its shared memory.
const BACKWARD_BLOCK: [usize; 3] = [128, 256, 200_736];
/// Threads and shared memory of a block of the backward that has a whole head.
const BACKWARD_SHORT_BLOCK: [usize; 2] = [256, 232_448];
/// The most queries, and keys, that one block covers.
const SHORT: usize = 256;

impl Call<'_> {
    /// Queries, keys and values as the copy engine reads them.
    fn maps(&self) -> Result<[TensorMap; 3]> {
        let [query, key, value] = self.places;
        let [query_stride, key_stride] = self.strides;
        let keys = self.layout.keys;
        Ok([
            self.map(query, self.layout.queries, query_stride)?,
            self.map(key, keys, key_stride)?,
            self.map(value, keys, key_stride)?,
        ])
    }

    fn map(&self, pointer: u64, tokens: usize, stride: usize) -> Result<TensorMap> {
        let sizes = [self.layout.groups, tokens, self.layout.heads];
        TensorMap::heads(self.cuda.context(), pointer, sizes, self.layout.channels, stride)
    }

    /// Whether one block covers a head.
    fn is_short(&self) -> bool {
        self.layout.queries <= SHORT && self.layout.keys <= SHORT
    }

    pub(super) fn forward_hopper(&self, output: u64, logarithms: u64) -> Result<()> {
        let [query, key, value] = &self.maps()?;
        let [groups, heads, queries, keys] = self.sizes();
        let (name, [rows, threads, shared]) = match self.layout.channels {
            128 => FORWARD_WIDE,
            _ if self.is_short() => FORWARD_SHORT,
            _ => FORWARD,
        };
        let blocks = self.pairs() * self.layout.queries.div_ceil(rows);
        self.cuda.launch_plain(
            Kernel { program: &HOPPER_FORWARD, name },
            Launch { shared, ..Launch::blocks(blocks, threads) },
            arguments![
                query,
                key,
                value,
                output,
                logarithms,
                self.mask,
                groups,
                heads,
                queries,
                keys,
                self.width(),
                self.scale()
            ],
        )
    }

    pub(super) fn backward_hopper(&self, from: &Upstream, to: Gradients) -> Result<()> {
        let cuda = self.cuda;
        let [query, key, value] = &self.maps()?;
        let [groups, heads, queries, keys] = self.sizes();
        let Upstream { output, upstream, logarithms } = *from;
        let (width, scale, pairs) = (self.width(), self.scale(), self.pairs());
        let upstream_map = &self.map(upstream, self.layout.queries, width)?;
        let [to_query, to_key, to_value] = to.places;
        let [query_stride, key_stride] = to.strides;
        let [rows, threads, shared] = BACKWARD_BLOCK;
        let kernel = |name| Kernel { program: &HOPPER_BACKWARD, name };
        if self.is_short() {
            let output_map = &self.map(output, self.layout.queries, width)?;
            let [threads, shared] = BACKWARD_SHORT_BLOCK;
            return cuda.launch_plain(
                Kernel {
                    program: &HOPPER_BACKWARD_SHORT,
                    name: "attention_backward_short_hopper_64",
                },
                Launch { shared, ..Launch::blocks(pairs, threads) },
                arguments![
                    query,
                    key,
                    value,
                    upstream_map,
                    output_map,
                    logarithms,
                    to_query,
                    to_key,
                    to_value,
                    self.mask,
                    groups,
                    heads,
                    queries,
                    keys,
                    query_stride,
                    key_stride,
                    scale
                ],
            );
        }
        let padded = self.layout.queries.next_multiple_of(128);
        let scratch = cuda.buffer(Element::F32, pairs * (padded * 66 + 1))?;
        let scratch = scratch.pointer();
        cuda.launch_plain(
            kernel("attention_prepare_hopper_64"),
            Launch::blocks((pairs * padded).div_ceil(32), 256),
            arguments![output, upstream, logarithms, scratch, groups, heads, queries, width],
        )?;
        let blocks = pairs * self.layout.keys.div_ceil(rows);
        cuda.launch_plain(
            kernel("attention_backward_hopper_64"),
            Launch { shared, ..Launch::blocks(blocks, threads) },
            arguments![
                query,
                key,
                value,
                upstream_map,
                scratch,
                to_query,
                to_key,
                to_value,
                self.mask,
                groups,
                heads,
                queries,
                keys,
                query_stride,
                key_stride,
                scale
            ],
        )
    }
}
