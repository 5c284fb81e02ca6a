//! What operations with a modulation [groups, parts, width] share on a GPU: how rows are dealt out to
//! blocks, and how the gradient of the modulation is lent.

use crate::cuda::{Cuda, Element, Launch};
use crate::gradient::GradientStore;
use crate::{Result, Tensor};

/// Rows for each block from which it pays that a block leaves its share in the sum over all rows: so many in
/// half precision take as long to read as a share to write and to read.
pub(super) const SUMMED_ROWS: usize = 4;

/// Rows dealt out to blocks: `chunks` blocks for each group of consecutive rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunks {
    pub groups: usize,
    /// Rows of a group.
    pub group_rows: usize,
    /// Blocks for each group.
    pub chunks: usize,
    /// Rows of a block; the last block of a group may have fewer.
    pub chunk_rows: usize,
}

impl Chunks {
    /// About as many blocks as a GPU runs at once, which is `at_once`: what a block prepares, and the
    /// partial sums that it leaves, should serve many rows. Blocks walk batches of `batch` rows.
    pub(super) fn new([groups, group_rows]: [usize; 2], at_once: usize, batch: usize) -> Self {
        let chunks = (at_once / groups).clamp(1, group_rows.div_ceil(batch).max(1));
        let chunk_rows = group_rows.div_ceil(chunks).next_multiple_of(batch).max(batch);
        Self { groups, group_rows, chunks: group_rows.div_ceil(chunk_rows).max(1), chunk_rows }
    }

    /// Blocks of all groups.
    pub(super) fn blocks(&self) -> usize {
        self.groups * self.chunks
    }

    /// The launch that adds up the partial sums of each group.
    pub(super) fn totals(&self, width: usize) -> (Launch, usize) {
        totals(self.groups, self.chunks, width)
    }
}

/// The launch that adds up `parts` rows of `width` partial sums for each group, and into how many
/// slices its blocks divide the parts.
pub(super) fn totals(groups: usize, parts: usize, width: usize) -> (Launch, usize) {
    let (threads, slices) = match parts {
        129.. => (1024, 32),
        _ => (256, (parts / 4).max(1).next_power_of_two().min(8)),
    };
    (Launch::blocks(groups * width.div_ceil(threads / slices), threads), slices)
}

impl Cuda {
    /// How many blocks of `threads` threads run at once if each processor runs that many threads.
    pub(super) fn blocks_at_once(&self, threads: usize, processor_threads: usize) -> usize {
        const MOST_BLOCKS: usize = 24;
        self.context().processors * (processor_threads / threads).clamp(1, MOST_BLOCKS)
    }
}

/// Lends the gradient of a modulation to `work(address)`, which adds to its own parts; the others are
/// zero if they have not been written yet.
pub(super) fn with_modulation(
    cuda: &Cuda,
    gradients: &mut GradientStore<'_>,
    vectors: &Tensor,
    work: impl FnOnce(u64) -> Result<()>,
) -> Result<()> {
    let element: Element = cuda.element();
    gradients.with_cuda(vectors, element, |address, accumulate| {
        if !accumulate {
            cuda.zero(address, vectors.shape().elements() * element.size())?;
        }
        work(address)
    })
}

/// Whether all addresses are those of 16-byte vectors.
pub(super) fn aligned(addresses: &[u64]) -> bool {
    addresses.iter().all(|address| address.is_multiple_of(16))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn chunks_cover_each_group_once(
            groups in 1usize..300, group_rows in 0usize..3000, at_once in 1usize..2000, batch in 1usize..5,
        ) {
            let dealt = Chunks::new([groups, group_rows], at_once, batch);
            prop_assert!(dealt.chunk_rows.is_multiple_of(batch));
            prop_assert!(dealt.chunks * dealt.chunk_rows >= group_rows);
            prop_assert!((dealt.chunks - 1) * dealt.chunk_rows < group_rows.max(1));
        }
    }

    #[test]
    fn a_training_step_fills_the_gpu_once() {
        let dealt = Chunks::new([32, 1280], 660, 4);
        let expected = Chunks { groups: 32, group_rows: 1280, chunks: 20, chunk_rows: 64 };
        assert_eq!(dealt, expected);
    }
}
