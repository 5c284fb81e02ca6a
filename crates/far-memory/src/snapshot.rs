//! A consistent view of a memory at one moment.

use crate::block::{Block, BlockView};
use crate::key::Keys;
use crate::pool::{Pool, PoolView};
use crate::{BLOCK_RECORDS, Error, Memory, MemoryId, Payload, Pose, Schema};
use std::sync::Arc;

/// The records that existed when it was taken. Cheap to clone, never changes, never blocks the
/// writer and is never blocked by it.
///
/// Records are addressed by index, which is [`MemoryId::index`]. Methods that take an index panic
/// if it is not below [`len`](Self::len).
#[derive(Clone)]
pub struct Snapshot {
    schema: Arc<Schema>,
    blocks: Arc<Vec<Arc<Block>>>,
    length: usize,
}

impl Snapshot {
    /// # Safety
    /// All rows below `length` are published in `blocks`, which are full except the last.
    pub(crate) unsafe fn new(
        schema: Arc<Schema>,
        blocks: Arc<Vec<Arc<Block>>>,
        length: usize,
    ) -> Self {
        Self { schema, blocks, length }
    }

    /// The cues of the memory.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// How many blocks there are.
    pub fn block_count(&self) -> usize {
        self.length.div_ceil(BLOCK_RECORDS)
    }

    /// The block with this number.
    ///
    /// # Panics
    /// If there are fewer blocks.
    pub fn block(&self, number: usize) -> BlockView<'_> {
        assert!(number < self.block_count(), "block within the snapshot");
        let first = number * BLOCK_RECORDS;
        let length = (self.length - first).min(BLOCK_RECORDS);
        // SAFETY: `new` promises that rows below the snapshot's length are published.
        unsafe { BlockView::new(&self.blocks[number], first, length) }
    }

    /// All blocks, oldest first.
    pub fn blocks(&self) -> impl Iterator<Item = BlockView<'_>> {
        (0..self.block_count()).map(|number| self.block(number))
    }

    /// The oldest `length` records alone, or all if there are fewer.
    pub fn first(&self, length: usize) -> Self {
        Self { length: length.min(self.length), ..self.clone() }
    }

    /// A memory of its own that begins with these records. Full blocks stay shared; the last one is
    /// copied when the fork first appends, so a fork that only recalls costs nothing.
    ///
    /// ```
    /// use far_memory::{Cue, Memory, Observation, Pose, Schema};
    /// let mut memory = Memory::new(Schema::new(vec![Cue::metadata("meta")])?);
    /// memory.append(&Observation::new(0.0, Pose::identity()))?;
    /// let mut imagined = memory.snapshot().fork();
    /// imagined.append(&Observation::new(1.0, Pose::identity()))?;
    /// assert_eq!((memory.len(), imagined.len()), (1, 2));
    /// # Ok::<(), far_memory::Error>(())
    /// ```
    pub fn fork(&self) -> Memory {
        let blocks = self.blocks[..self.block_count()].to_vec();
        Memory::from_shared_rows(self.schema.clone(), blocks, self.length)
    }

    /// The block and row of a record.
    #[inline]
    fn locate(&self, index: usize) -> (BlockView<'_>, usize) {
        assert!(index < self.length, "index {index} within a snapshot of {}", self.length);
        (self.block(index / BLOCK_RECORDS), index % BLOCK_RECORDS)
    }

    /// Time of a record in seconds.
    pub fn time(&self, index: usize) -> f64 {
        let (block, row) = self.locate(index);
        block.times()[row]
    }

    /// Pose of a record, where it is known.
    pub fn pose(&self, index: usize) -> Option<Pose> {
        let (block, row) = self.locate(index);
        block.pose(row)
    }

    /// The key of a record (unit length) for the cue with this index in the schema; `None` if the
    /// record has none or the cue is the metadata cue.
    pub fn key(&self, cue: usize, index: usize) -> Option<Keys<'_>> {
        let (block, row) = self.locate(index);
        let keys = block.keys(cue)?;
        let dimension = keys.len() / block.len();
        block.is_present(cue, row).then(|| keys.range(row * dimension, (row + 1) * dimension))
    }

    /// The payload of a record.
    pub fn payload(&self, id: MemoryId) -> Payload<'_> {
        let (block, row) = self.locate(id.index());
        block.payload(row)
    }

    /// The records of a pool, at most `cap` of them, checked to be inside this snapshot.
    ///
    /// # Errors
    /// [`Error::OutsideSnapshot`] or [`Error::PoolOrder`].
    pub fn pool<'a>(&self, pool: &'a Pool, cap: Option<usize>) -> Result<PoolView<'a>, Error> {
        PoolView::new(pool, cap, self.length)
    }
}
