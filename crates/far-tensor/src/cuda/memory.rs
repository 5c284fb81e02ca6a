//! The GPU's memory: buffers that go back to a pool, so that a steady-state step allocates nothing.
//!
//! All work of a device is in the order of one stream. A buffer that was given back may therefore be
//! handed out at once: whoever writes to it next comes later in the stream than its last reader.
//! Recorded work is launched again, so its buffers go back to a [`Reserve`] of its own.

use super::context::Context;
use super::graph;
use super::staging::Staging;
use crate::{Error, Result};
use cudarc::driver::result;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

/// What a number on the GPU is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Element {
    /// Single precision.
    F32,
    /// The upper half of single precision.
    Bf16,
}

impl Element {
    /// Bytes of one.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
        }
    }

    /// How the kernels for it are called.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        }
    }
}

/// How much of a GPU's memory is used, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Held by tensors now.
    pub in_use: usize,
    /// The most that tensors ever held at once.
    pub peak: usize,
    /// Taken from the GPU, in use or kept for the next tensor.
    pub reserved: usize,
}

/// An array on the GPU that goes back to its pool when dropped.
pub(crate) struct CudaBuffer {
    pointer: u64,
    bytes: usize,
    length: usize,
    element: Element,
    pool: Arc<CudaPool>,
    /// Where it goes back to, if not to the pool.
    reserve: Option<Arc<Reserve>>,
}

/// Fields are read through methods: a closure that names a field alone would own a copy of that number, not
/// the memory, which would go back to its pool.
impl CudaBuffer {
    /// Where it begins.
    pub(crate) fn pointer(&self) -> u64 {
        self.pointer
    }

    /// How many elements it has.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// What they are.
    pub(crate) fn element(&self) -> Element {
        self.element
    }

    /// Bytes of its elements.
    pub(crate) fn size(&self) -> usize {
        self.length * self.element.size()
    }

    /// Bytes of the block it has, some of them behind its elements.
    pub(super) fn block(&self) -> usize {
        self.bytes
    }

    /// Whether it is memory of that pool.
    pub(crate) fn belongs_to(&self, pool: &Arc<CudaPool>) -> bool {
        Arc::ptr_eq(&self.pool, pool)
    }

    /// Whether it goes back to that reserve.
    pub(super) fn is_of(&self, reserve: &Arc<Reserve>) -> bool {
        self.reserve.as_ref().is_some_and(|own| Arc::ptr_eq(own, reserve))
    }

    /// The context it lives in.
    pub(crate) fn context(&self) -> &Context {
        &self.pool.context
    }
}

impl Drop for CudaBuffer {
    fn drop(&mut self) {
        match &self.reserve {
            Some(reserve) => reserve.put_back(self.pointer, self.bytes),
            None => self.pool.put_back(self.pointer, self.bytes),
        }
    }
}

/// Free blocks by size.
#[derive(Default)]
struct FreeBlocks(BTreeMap<usize, Vec<u64>>);

impl FreeBlocks {
    /// A block that holds `bytes`, up to an eighth too large, and its size.
    fn take(&mut self, bytes: usize) -> Option<(u64, usize)> {
        let (&size, kept) = self.0.range_mut(bytes..=bytes + bytes / 8).next()?;
        let pointer = kept.pop().expect("no empty list is kept");
        if kept.is_empty() {
            self.0.remove(&size);
        }
        Some((pointer, size))
    }

    fn put(&mut self, pointer: u64, bytes: usize) {
        self.0.entry(bytes).or_default().push(pointer);
    }
}

/// Blocks that are kept from others, for work that is launched again. They go back to the pool when
/// neither the work nor a buffer needs them any more.
pub(super) struct Reserve {
    pool: Arc<CudaPool>,
    free: Mutex<FreeBlocks>,
}

impl Reserve {
    pub(super) fn new(pool: &Arc<CudaPool>) -> Arc<Self> {
        Arc::new(Self { pool: pool.clone(), free: Mutex::default() })
    }

    /// Where its blocks come from.
    pub(super) fn pool(&self) -> &Arc<CudaPool> {
        &self.pool
    }

    fn take(&self, bytes: usize) -> Option<(u64, usize)> {
        self.free.lock().expect("no user panics while it holds the reserve").take(bytes)
    }

    fn put_back(&self, pointer: u64, bytes: usize) {
        if let Ok(mut free) = self.free.lock() {
            free.put(pointer, bytes);
        }
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        let free = std::mem::take(self.free.get_mut().expect("nobody else holds it"));
        for (bytes, pointers) in free.0 {
            pointers.into_iter().for_each(|pointer| self.pool.put_back(pointer, bytes));
        }
    }
}

#[derive(Default)]
struct Blocks {
    free: FreeBlocks,
    memory: MemoryUse,
}

/// The memory of a GPU.
pub(crate) struct CudaPool {
    context: Context,
    blocks: Mutex<Blocks>,
    staging: Staging,
}

impl CudaPool {
    /// The pool of the GPU with that number, which all devices on it share: so a tensor of one can be
    /// read by another.
    ///
    /// # Errors
    /// If there is no such GPU or it cannot be used.
    pub(crate) fn of(ordinal: usize) -> Result<Arc<Self>> {
        static POOLS: Mutex<BTreeMap<usize, Weak<CudaPool>>> = Mutex::new(BTreeMap::new());
        let mut pools = POOLS.lock().expect("no user panics while it holds the pools");
        if let Some(pool) = pools.get(&ordinal).and_then(Weak::upgrade) {
            return Ok(pool);
        }
        let pool = Arc::new(Self::new(Context::open(ordinal)?));
        pools.insert(ordinal, Arc::downgrade(&pool));
        Ok(pool)
    }

    fn new(context: Context) -> Self {
        Self { context, blocks: Mutex::default(), staging: Staging::default() }
    }

    /// Pinned memory for copies to the GPU.
    pub(super) fn staging(&self) -> &Staging {
        &self.staging
    }

    /// The GPU.
    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    /// A buffer whose contents are whatever its last user left there.
    ///
    /// # Errors
    /// If the GPU has no room.
    pub(crate) fn take(self: &Arc<Self>, element: Element, length: usize) -> Result<CudaBuffer> {
        let bytes = block_size(length * element.size());
        let reserve = graph::reserve(self);
        let (pointer, bytes) = match reserve.as_ref().and_then(|reserve| reserve.take(bytes)) {
            Some(block) => block,
            None => self.block(bytes)?,
        };
        Ok(CudaBuffer { pointer, bytes, length, element, pool: self.clone(), reserve })
    }

    /// A block that holds `bytes`, and its size.
    fn block(&self, bytes: usize) -> Result<(u64, usize)> {
        let mut blocks = self.blocks.lock().expect("no user panics while it holds the pool");
        let (pointer, bytes) = match blocks.free.take(bytes) {
            Some(block) => block,
            None => (self.allocate(&mut blocks, bytes)?, bytes),
        };
        let memory = &mut blocks.memory;
        memory.in_use += bytes;
        memory.peak = memory.peak.max(memory.in_use);
        Ok((pointer, bytes))
    }

    fn allocate(&self, blocks: &mut Blocks, bytes: usize) -> Result<u64> {
        self.context.bind()?;
        // SAFETY: the context is bound; the memory is freed in `release` only.
        let mut taken = unsafe { result::malloc_sync(bytes) };
        if taken.is_err() {
            self.release(blocks);
            // SAFETY: as above.
            taken = unsafe { result::malloc_sync(bytes) };
        }
        let pointer = taken.map_err(|_| {
            let (free, total) = result::mem_get_info().unwrap_or_default();
            Error::OutOfMemory { asked: bytes, free, total, held: blocks.memory.in_use }
        })?;
        blocks.memory.reserved += bytes;
        Ok(pointer)
    }

    /// Gives every free block back to the GPU.
    fn release(&self, blocks: &mut Blocks) {
        for (size, kept) in std::mem::take(&mut blocks.free).0 {
            blocks.memory.reserved -= size * kept.len();
            for pointer in kept {
                // SAFETY: the block came from `allocate` and nobody holds it; freeing waits for the
                // kernels that still use it.
                let freed = unsafe { result::free_sync(pointer) };
                debug_assert!(freed.is_ok());
            }
        }
    }

    fn put_back(&self, pointer: u64, bytes: usize) {
        if let Ok(mut blocks) = self.blocks.lock() {
            blocks.memory.in_use -= bytes;
            blocks.free.put(pointer, bytes);
        }
    }

    /// How much is used.
    pub(crate) fn memory(&self) -> MemoryUse {
        self.blocks.lock().expect("no user panics while it holds the pool").memory
    }

    /// From now on the peak is counted anew.
    pub(crate) fn forget_peak(&self) {
        let mut blocks = self.blocks.lock().expect("no user panics while it holds the pool");
        blocks.memory.peak = blocks.memory.in_use;
    }
}

impl Drop for CudaPool {
    fn drop(&mut self) {
        // Copies from pinned memory may still be under way.
        if self.context.synchronize().is_ok() {
            self.staging.release();
            let mut blocks = std::mem::take(self.blocks.get_mut().expect("nobody else holds it"));
            self.release(&mut blocks);
        }
    }
}

/// The block that holds `bytes`: small ones in steps of 512 bytes, large ones of 64 KiB.
fn block_size(bytes: usize) -> usize {
    let step = if bytes < 1 << 20 { 512 } else { 1 << 16 };
    bytes.max(1).next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_and_waste_little() {
        for bytes in [0, 1, 512, 513, 100_000, 1 << 20, (1 << 20) + 1, 123_456_789] {
            let block = block_size(bytes);
            assert!(block >= bytes && block.is_multiple_of(512) && block > 0);
            assert!(bytes < 1 << 20 || block * 15 <= bytes * 16, "{bytes} became {block}");
        }
    }
}
