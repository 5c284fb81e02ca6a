//! Attention by Hopper's own instructions: heads of 64 channels in bf16, and forward of 128.

use super::kernels::{HOPPER_BACKWARD, HOPPER_BACKWARD_SHORT, HOPPER_FORWARD};
use super::{Call, Gradients, Upstream};
use crate::Result;
use crate::cuda::{Element, Launch, TensorMap, argument_groups, arguments};

/// The forward kernels: queries of a block, its threads and its shared memory.
const FORWARD: (&str, [usize; 3]) = ("attention_forward_hopper_64", [128, 256, 99_408]);
const FORWARD_SHORT: (&str, [usize; 3]) = ("attention_forward_short_hopper_64", [256, 256, 99_392]);
const FORWARD_WIDE: (&str, [usize; 3]) = ("attention_forward_hopper_128", [192, 384, 181_312]);
/// Keys of a block of the backward, its threads and its shared memory.
const BACKWARD_BLOCK: [usize; 3] = [128, 256, 200_736];
/// Threads and shared memory of a block of the backward that has a whole head.
const BACKWARD_SHORT_BLOCK: [usize; 2] = [256, 232_448];
/// Blocks of the first of these that a multiprocessor runs at once, and keys of its tiles.
const FORWARD_RESIDENT: usize = 2;
const TILE: usize = 64;
/// Fewer tiles than these are not worth a block of their own.
const FEWEST_TILES: usize = 4;
/// After so many turns of blocks the GPU is not idle for long enough.
const MOST_TURNS: usize = 4;
/// Rows that a block merges.
const MERGED_ROWS: usize = 8;
/// The most queries, and keys, that one block covers.
const SHORT: usize = 256;

/// Blocks of rows whose keys are dealt out to several blocks, so that no multiprocessor is idle: those
/// that are left over when all others fill the GPU one or more times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Split {
    /// Blocks that read all keys.
    whole: usize,
    /// Those whose keys are dealt out.
    rest: usize,
    /// To how many each.
    splits: usize,
}

impl Split {
    /// For so many blocks, of which the GPU runs some at once, and tiles of keys; `None` where it would
    /// not pay.
    fn of(blocks: usize, at_once: usize, tiles: usize) -> Option<Self> {
        let rest = blocks % at_once;
        let splits = at_once.checked_div(rest)?.min(tiles / FEWEST_TILES);
        let pays = splits > 1 && blocks < MOST_TURNS * at_once;
        pays.then_some(Self { whole: blocks - rest, rest, splits })
    }
}

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
        let (name, [rows, threads, shared]) = match self.layout.channels {
            128 => FORWARD_WIDE,
            _ if self.is_short() => FORWARD_SHORT,
            _ => FORWARD,
        };
        let blocks = self.pairs() * self.layout.queries.div_ceil(rows);
        let at_once = FORWARD_RESIDENT * self.cuda.context().processors;
        if name == FORWARD.0
            && let Some(split) = Split::of(blocks, at_once, self.layout.keys.div_ceil(TILE))
        {
            return self.forward_split(output, logarithms, split);
        }
        self.cuda.launch_plain(
            HOPPER_FORWARD.kernel(name),
            Launch { shared, ..Launch::blocks(blocks, threads) },
            &argument_groups![
                self.maps()?.each_ref(),
                [output, logarithms, self.mask],
                self.sizes(),
                [self.width()],
                [self.scale()]
            ],
        )
    }

    /// The same with the keys of some blocks dealt out to several, and a pass that merges them.
    fn forward_split(&self, output: u64, logarithms: u64, split: Split) -> Result<()> {
        let [_, heads, queries, _] = self.sizes();
        let (_, [rows, threads, shared]) = FORWARD;
        let Split { whole, rest, splits } = split;
        let [whole_blocks, parts] = [whole, splits].map(|count| count as i32);
        let floats = rest * splits * rows * (self.layout.channels + 1);
        let scratch = self.cuda.buffer(Element::F32, floats)?;
        let (scratch, width) = (scratch.pointer(), self.width());
        let kernel = |name| HOPPER_FORWARD.kernel(name);
        self.cuda.launch_plain(
            kernel("attention_forward_split_hopper_64"),
            Launch { shared, ..Launch::blocks(whole + rest * splits, threads) },
            &argument_groups![
                self.maps()?.each_ref(),
                [output, logarithms, self.mask],
                self.sizes(),
                [width],
                [self.scale()],
                [scratch],
                [whole_blocks, parts]
            ],
        )?;
        self.cuda.launch_plain(
            kernel("attention_merge_hopper_64"),
            Launch::blocks(rest * rows / MERGED_ROWS, threads),
            arguments![scratch, output, logarithms, heads, queries, width, whole_blocks, parts],
        )
    }

    pub(super) fn backward_hopper(&self, from: &Upstream, to: Gradients) -> Result<()> {
        let cuda = self.cuda;
        let maps = &self.maps()?;
        let [groups, heads, queries, _] = self.sizes();
        let Upstream { output, upstream, logarithms } = *from;
        let (width, scale, pairs) = (self.width(), self.scale(), self.pairs());
        let upstream_map = &self.map(upstream, self.layout.queries, width)?;
        let [rows, threads, shared] = BACKWARD_BLOCK;
        let kernel = |name| HOPPER_BACKWARD.kernel(name);
        if self.is_short() {
            let output_map = &self.map(output, self.layout.queries, width)?;
            let [threads, shared] = BACKWARD_SHORT_BLOCK;
            return cuda.launch_plain(
                HOPPER_BACKWARD_SHORT.kernel("attention_backward_short_hopper_64"),
                Launch { shared, ..Launch::blocks(pairs, threads) },
                &argument_groups![
                    maps.each_ref(),
                    [upstream_map, output_map],
                    [logarithms],
                    to.places,
                    [self.mask],
                    self.sizes(),
                    to.strides,
                    [scale]
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
            &argument_groups![
                maps.each_ref(),
                [upstream_map],
                [scratch],
                to.places,
                [self.mask],
                self.sizes(),
                to.strides,
                [scale]
            ],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn splits_fill_the_gpu_and_no_more(
            blocks in 1usize..2000, at_once in 1usize..400, tiles in 1usize..100,
        ) {
            let Some(Split { whole, rest, splits }) = Split::of(blocks, at_once, tiles) else {
                return Ok(());
            };
            prop_assert!(whole + rest == blocks && whole.is_multiple_of(at_once));
            prop_assert!(splits > 1 && rest * splits <= at_once);
            prop_assert!(splits * FEWEST_TILES <= tiles);
        }
    }

    /// One clip of the paper's size on an H200: all frames read all, and a target reads all.
    #[test]
    fn one_clip_is_split() {
        let joint = Split { whole: 264, rest: 72, splits: 3 };
        assert_eq!(Split::of(12 * 28, 264, 56), Some(joint));
        let target = Split { whole: 0, rest: 24, splits: 11 };
        assert_eq!(Split::of(12 * 2, 264, 56), Some(target));
        assert_eq!(Split::of(32 * 12 * 10, 264, 20), None);
    }
}
