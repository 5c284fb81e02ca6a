//! The memory in RAM: one writer appends, any number of readers take snapshots.

use crate::block::{Block, check};
use crate::key::normalize;
use crate::payload::PayloadSource;
use crate::{BLOCK_RECORDS, CueKind, Error, MemoryId, Observation, Schema, Snapshot};
use arc_swap::ArcSwap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Capacity of the first block; it doubles until a block is full.
const FIRST_CAPACITY: usize = 256;

/// What writer and readers share. Invariant: every row below `length` is in `blocks` and is never
/// written again. `length` is stored after the row and loaded before the list, so a reader's list
/// is at least as new as its length.
struct Shared {
    schema: Arc<Schema>,
    blocks: ArcSwap<Vec<Arc<Block>>>,
    length: AtomicUsize,
}

impl Shared {
    fn snapshot(&self) -> Snapshot {
        let length = self.length.load(Ordering::Acquire);
        let blocks = self.blocks.load_full();
        // SAFETY: the invariant above.
        unsafe { Snapshot::new(self.schema.clone(), blocks, length) }
    }
}

/// An append-only episodic memory in RAM. It is the only writer; readers hold a [`MemoryReader`].
///
/// ```
/// use far_memory::{Cue, Memory, Observation, Pose, Schema};
/// let mut memory = Memory::new(Schema::new(vec![Cue::key("vision", 2)])?);
/// let id = memory.append(&Observation::new(0.0, Pose::identity()).with_key("vision", &[3.0, 4.0]))?;
/// let snapshot = memory.snapshot();
/// assert_eq!(snapshot.len(), 1);
/// assert!((snapshot.key(0, id.index()).unwrap().dot(&[0.6, 0.8]) - 1.0).abs() < 1e-6);
/// # Ok::<(), far_memory::Error>(())
/// ```
pub struct Memory {
    shared: Arc<Shared>,
    /// One key at a time, scaled to unit length before it is stored.
    row: Vec<f32>,
    /// Whether the last block belongs to another memory, which may still write to it.
    last_is_shared: bool,
}

/// A handle from which any thread takes snapshots without waiting for the writer.
#[derive(Clone)]
pub struct MemoryReader {
    shared: Arc<Shared>,
}

impl MemoryReader {
    /// The records appended so far.
    pub fn snapshot(&self) -> Snapshot {
        self.shared.snapshot()
    }
}

impl Memory {
    /// An empty memory with these cues.
    pub fn new(schema: Schema) -> Self {
        Self::from_rows(Arc::new(schema), Vec::new(), 0)
    }

    /// A memory that continues after loaded or mapped blocks, each with as many records as its
    /// capacity, made with the same schema.
    ///
    /// # Errors
    /// [`Error::Block`] if a block other than the last is not full, or has other cues.
    pub fn from_blocks(schema: Schema, blocks: Vec<Block>) -> Result<Self, Error> {
        let last = blocks.len().saturating_sub(1);
        for (number, block) in blocks.iter().enumerate() {
            if number < last && block.capacity() != BLOCK_RECORDS {
                return Err(Error::Block {
                    reason: format!(
                        "block {number} of {} has {} records instead of {BLOCK_RECORDS}",
                        blocks.len(),
                        block.capacity()
                    ),
                });
            }
            check_cues(&schema, number, block)?;
        }
        let length = blocks.iter().map(Block::capacity).sum();
        let blocks = blocks.into_iter().map(Arc::new).collect();
        Ok(Self::from_rows(Arc::new(schema), blocks, length))
    }

    fn from_rows(schema: Arc<Schema>, blocks: Vec<Arc<Block>>, length: usize) -> Self {
        let blocks = ArcSwap::from_pointee(blocks);
        let shared = Shared { schema, blocks, length: AtomicUsize::new(length) };
        Self { shared: Arc::new(shared), row: Vec::new(), last_is_shared: false }
    }

    /// A memory of its own that begins with the records of this one; see [`Snapshot::fork`].
    pub fn fork(&self) -> Self {
        self.snapshot().fork()
    }

    /// A memory that begins with published rows of blocks that another one may own.
    pub(crate) fn from_shared_rows(
        schema: Arc<Schema>,
        blocks: Vec<Arc<Block>>,
        length: usize,
    ) -> Self {
        Self { last_is_shared: true, ..Self::from_rows(schema, blocks, length) }
    }

    /// Goes back to the records of a snapshot, of this memory or of another with the same cues.
    /// Readers that were made before, and snapshots, keep the records they have.
    ///
    /// ```
    /// use far_memory::{Cue, Memory, Observation, Pose, Schema};
    /// let mut memory = Memory::new(Schema::new(vec![Cue::metadata("meta")])?);
    /// memory.append(&Observation::new(0.0, Pose::identity()))?;
    /// let before = memory.snapshot();
    /// memory.append(&Observation::new(1.0, Pose::identity()))?;
    /// memory.restore(&before)?;
    /// assert_eq!(memory.len(), 1);
    /// # Ok::<(), far_memory::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::SnapshotSchema`] if the snapshot has other cues.
    pub fn restore(&mut self, snapshot: &Snapshot) -> Result<(), Error> {
        if snapshot.schema() != self.schema() {
            let names = |schema: &Schema| format!("{:?}", schema.cues());
            let (found, expected) = (names(snapshot.schema()), names(self.schema()));
            return Err(Error::SnapshotSchema { found, expected });
        }
        // A new list and a new length together: a reader of the old pair must not mix them.
        *self = snapshot.fork();
        Ok(())
    }

    /// The cues.
    pub fn schema(&self) -> &Schema {
        &self.shared.schema
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.shared.length.load(Ordering::Relaxed)
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A handle for readers on other threads.
    pub fn reader(&self) -> MemoryReader {
        MemoryReader { shared: self.shared.clone() }
    }

    /// The records appended so far.
    pub fn snapshot(&self) -> Snapshot {
        self.shared.snapshot()
    }

    /// Appends one observation. Keys are scaled to unit length; a zero key stays zero and a key
    /// with a NaN is kept as it is (recall skips it and counts it).
    ///
    /// # Errors
    /// Nothing is stored if the time or pose is not finite or a cue is given twice
    /// ([`Error::Observation`]), a cue is unknown ([`Error::UnknownCue`]) or a key has another
    /// length than its cue ([`Error::Dimension`]).
    pub fn append(&mut self, observation: &Observation<'_>) -> Result<MemoryId, Error> {
        self.check(observation)?;
        let length = self.len();
        let row = length % BLOCK_RECORDS;
        let block = self.block_with_room(length);
        // SAFETY: `&mut self` makes this the only writer, the row is not below the published
        // length, and `block_with_room` returns an owned block.
        unsafe { block.write_metadata(row, observation.time, observation.pose.as_ref()) };
        for (cue, name, ..) in self.shared.schema.keys() {
            let column = block.key_column(cue).expect("blocks are made with this schema");
            let key = observation.keys.iter().find(|(given, _)| *given == name);
            if let Some((_, key)) = key {
                (*key).clone_into(&mut self.row);
                normalize(&mut self.row);
                // SAFETY: as above.
                unsafe { column.write(row, &self.row) };
            }
            column.mark(row, key.is_some());
        }
        block.payloads.set(row, observation.payload);
        self.shared.length.store(length + 1, Ordering::Release);
        Ok(MemoryId(length as u64))
    }

    /// Replaces a full block with one of the same records, for example an owned block with a mapped
    /// one. Snapshots taken before keep the old block alive.
    ///
    /// # Errors
    /// [`Error::Block`] if there is no full block with this number, or `block` is not a full one of
    /// this schema.
    pub(crate) fn replace_block(&mut self, number: usize, block: Block) -> Result<(), Error> {
        let full = (number + 1) * BLOCK_RECORDS <= self.len();
        if !full || block.capacity() != BLOCK_RECORDS {
            let reason = format!("{} records cannot replace block {number}", block.capacity());
            return Err(Error::Block { reason });
        }
        check_cues(self.schema(), number, &block)?;
        let mut blocks = Vec::clone(&self.shared.blocks.load());
        blocks[number] = Arc::new(block);
        self.shared.blocks.store(Arc::new(blocks));
        Ok(())
    }

    /// From now on, reads the payloads of the last block's first `rows` records from `source`, and
    /// frees the copies in RAM. Snapshots taken before keep theirs.
    ///
    /// # Panics
    /// If the last block is full or has fewer than `rows` records.
    pub(crate) fn lend_payloads(&mut self, source: Arc<dyn PayloadSource>, rows: usize) {
        let length = self.len() % BLOCK_RECORDS;
        assert!(rows <= length, "the rows exist");
        let mut blocks = Vec::clone(&self.shared.blocks.load());
        let last = blocks.last_mut().expect("a block with records");
        // SAFETY: the rows below `length` are published.
        let mut block = unsafe { last.grown(&self.shared.schema, length, last.capacity()) };
        block.payloads.lend(source, rows);
        *last = Arc::new(block);
        self.shared.blocks.store(Arc::new(blocks));
    }

    fn check(&self, observation: &Observation<'_>) -> Result<(), Error> {
        check(observation.time, observation.pose.as_ref())?;
        for (place, (name, key)) in observation.keys.iter().enumerate() {
            let cue = &self.schema().cues()[self.schema().index(name)?];
            let refuse =
                |reason: String| Err(Error::Observation { time: observation.time, reason });
            match cue.kind {
                CueKind::Metadata => {
                    return refuse(format!("cue {name:?} is the metadata cue and takes no key"));
                }
                CueKind::Key { dimension, .. } if dimension != key.len() => {
                    return Err(Error::Dimension {
                        cue: (*name).to_owned(),
                        expected: dimension,
                        found: key.len(),
                    });
                }
                CueKind::Key { .. } => {}
            }
            if observation.keys[..place].iter().any(|(earlier, _)| earlier == name) {
                return refuse(format!("cue {name:?} is given twice"));
            }
        }
        Ok(())
    }

    /// The block of the next row, made or enlarged and published if necessary.
    fn block_with_room(&mut self, length: usize) -> Arc<Block> {
        let blocks = self.shared.blocks.load_full();
        let row = length % BLOCK_RECORDS;
        let last_is_shared = std::mem::take(&mut self.last_is_shared);
        if let Some(last) = blocks.last()
            && !last_is_shared
            && blocks.len() * BLOCK_RECORDS > length
            && row < last.capacity()
        {
            return last.clone();
        }
        let mut blocks = Vec::clone(&blocks);
        let schema = &self.shared.schema;
        let block = if row == 0 {
            // A second block follows a full one: more records will come, so it gets its full size
            // at once.
            let capacity = if blocks.is_empty() { FIRST_CAPACITY } else { BLOCK_RECORDS };
            Arc::new(Block::zeroed(schema, capacity))
        } else {
            let last = blocks.pop().expect("a row above 0 has a block");
            let capacity = (2 * row).clamp(FIRST_CAPACITY, BLOCK_RECORDS);
            // SAFETY: the rows of this block below `row` are published.
            Arc::new(unsafe { last.grown(schema, row, capacity) })
        };
        blocks.push(block.clone());
        self.shared.blocks.store(Arc::new(blocks));
        block
    }
}

/// Rejects a block whose key columns do not match the schema.
fn check_cues(schema: &Schema, number: usize, block: &Block) -> Result<(), Error> {
    for (cue, name, dimension, precision) in schema.keys() {
        let found = block.key_column(cue).map(|keys| (keys.dimension(), keys.precision()));
        if found != Some((dimension, precision)) {
            return Err(Error::Block {
                reason: format!("block {number} has no matching keys for cue {name:?}"),
            });
        }
    }
    Ok(())
}
