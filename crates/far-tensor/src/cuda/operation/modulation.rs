//! What operations with a modulation [groups, parts, width] share on a GPU: how rows are dealt out to
//! blocks, and how the gradient of the modulation is lent.

use crate::cuda::{Cuda, Element, Launch};
use crate::gradient::GradientStore;
use crate::{Result, Tensor};

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
    /// About as many blocks of `threads` threads as a GPU with `processors` runs at once: what a block
    /// prepares, and the partial sums that it leaves, should serve many rows. Blocks walk whole
    /// batches of `batch` rows.
    pub(super) fn new(
        processors: usize,
        [groups, group_rows]: [usize; 2],
        threads: usize,
        batch: usize,
    ) -> Self {
        const THREADS_AT_ONCE: usize = 768;
        let blocks = processors * (THREADS_AT_ONCE / threads).clamp(1, 24);
        let chunks = (blocks / groups).clamp(1, group_rows.div_ceil(batch).max(1));
        let chunk_rows = group_rows.div_ceil(chunks).next_multiple_of(batch).max(1);
        Self { groups, group_rows, chunks: group_rows.div_ceil(chunk_rows).max(1), chunk_rows }
    }

    /// Blocks of all groups.
    pub(super) fn blocks(&self) -> usize {
        self.groups * self.chunks
    }

    /// The launch that adds up the partial sums of each group: 32 columns per block.
    pub(super) fn finish(&self, width: usize) -> Launch {
        let warps = if self.chunks > 64 { 32 } else { 8 };
        Launch::blocks(self.groups * width.div_ceil(32), 32 * warps)
    }
}

/// Lends the gradient of a modulation to `work(address)`, which adds to its own parts; the others are
/// zero if nobody has written them yet.
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
            groups in 1usize..300, group_rows in 0usize..3000, threads in 1usize..20, batch in 1usize..5,
        ) {
            let dealt = Chunks::new(132, [groups, group_rows], 32 * threads, batch);
            prop_assert!(dealt.chunk_rows.is_multiple_of(batch));
            prop_assert!(dealt.chunks * dealt.chunk_rows >= group_rows);
            prop_assert!((dealt.chunks - 1) * dealt.chunk_rows < group_rows.max(1));
        }
    }

    #[test]
    fn a_training_step_fills_the_gpu_once() {
        let dealt = Chunks::new(132, [32, 1280], 96, 4);
        let expected = Chunks { groups: 32, group_rows: 1280, chunks: 32, chunk_rows: 40 };
        assert_eq!(dealt, expected);
        assert!(dealt.blocks() <= 8 * 132);
    }
}
