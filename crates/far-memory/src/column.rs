//! One contiguous array of numbers: owned and aligned to 64 bytes, or borrowed from a mapped file.
//!
//! Reading while another thread appends is sound because of three rules, kept by this file and
//! `block.rs`: a column never moves, rows below the published length are never written again, and
//! only the one writer touches rows at or above it.

use crate::Error;
use bytemuck::Pod;
use memmap2::MmapMut;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

/// Alignment of owned columns: one cache line, one AVX-512 register.
pub const COLUMN_ALIGNMENT: usize = 64;

/// Bytes that stay where they are for as long as their owner lives: a mapped file, a loaded buffer.
///
/// # Safety
/// `bytes` must return the same slice at every call, and nothing may write to it while `self` lives.
pub unsafe trait StableBytes: Send + Sync {
    /// The bytes.
    fn bytes(&self) -> &[u8];
}

// SAFETY: a boxed slice owns its heap buffer, which does not move with the box and is only
// reachable through a shared reference here.
unsafe impl StableBytes for Box<[u8]> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

/// Columns of at least this size are mapped rather than allocated, so that they can use huge pages:
/// a scan over millions of keys otherwise spends its time on TLB misses.
const MAPPED_BYTES: usize = 4 << 20;

enum Backing {
    /// Allocated here with this layout; freed on drop.
    Owned(Layout),
    /// An anonymous mapping; unmapped on drop.
    Mapped { _map: MmapMut },
    /// Borrowed; the handle keeps the owner alive.
    Lent { _owner: Arc<dyn StableBytes> },
}

/// A fixed-capacity array of `T` that one writer may fill while readers read what is published.
pub struct Column<T: Pod> {
    start: NonNull<T>,
    capacity: usize,
    backing: Backing,
    element: PhantomData<T>,
}

// SAFETY: the pointer is owned (or kept alive by an owner that is Send + Sync) and `T: Pod` has no
// thread affinity; writes go through `write`, whose contract excludes concurrent access.
unsafe impl<T: Pod + Send> Send for Column<T> {}
// SAFETY: shared access only reads rows that are no longer written; see `write` and `read`.
unsafe impl<T: Pod + Sync> Sync for Column<T> {}

impl<T: Pod> Column<T> {
    /// A column of `capacity` zeros, aligned to [`COLUMN_ALIGNMENT`].
    pub fn zeroed(capacity: usize) -> Self {
        let bytes = capacity.checked_mul(size_of::<T>()).expect("a column fits the address space");
        if let Some((start, map)) = mapped(bytes) {
            let backing = Backing::Mapped { _map: map };
            return Self { start: start.cast(), capacity, backing, element: PhantomData };
        }
        let layout = Layout::from_size_align(bytes.max(1), COLUMN_ALIGNMENT.max(align_of::<T>()))
            .expect("a column fits the address space");
        // SAFETY: the layout has a size of at least one byte.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start.cast::<T>()) else { handle_alloc_error(layout) };
        Self { start, capacity, backing: Backing::Owned(layout), element: PhantomData }
    }

    /// A column with a copy of `values`.
    pub fn from_slice(values: &[T]) -> Self {
        let column = Self::zeroed(values.len());
        // SAFETY: the column was made here, so nothing else reads or writes it.
        unsafe { column.write(0, values) };
        column
    }

    /// A column that borrows `count` values at byte `offset` of another owner's bytes.
    ///
    /// # Errors
    /// [`Error::Block`] if the range lies outside the bytes or is not aligned for `T`.
    pub fn lent(owner: Arc<dyn StableBytes>, offset: usize, count: usize) -> Result<Self, Error> {
        let length = owner.bytes().len();
        let bytes = count
            .checked_mul(size_of::<T>())
            .and_then(|size| owner.bytes().get(offset..)?.get(..size))
            .ok_or_else(|| Error::Block {
                reason: format!("{count} values at byte {offset} do not fit in {length} bytes"),
            })?;
        let values: &[T] = bytemuck::try_cast_slice(bytes).map_err(|cause| Error::Block {
            reason: format!("{count} values at byte {offset} cannot be read in place: {cause}"),
        })?;
        let start = NonNull::from(values).cast::<T>();
        let backing = Backing::Lent { _owner: owner };
        Ok(Self { start, capacity: count, backing, element: PhantomData })
    }

    /// How many values the column has room for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The first `length` values.
    ///
    /// # Safety
    /// Nothing writes to those values while the slice lives: `length` was published by the writer.
    ///
    /// # Panics
    /// If `length` exceeds the capacity.
    pub(crate) unsafe fn read(&self, length: usize) -> &[T] {
        assert!(length <= self.capacity, "published length within the column");
        // SAFETY: in range by the assertion, initialized from zeroed or lent bytes, and by the
        // caller's promise not written concurrently.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), length) }
    }

    /// Copies `values` to `first..`.
    ///
    /// # Safety
    /// The column is owned, and no other thread reads or writes those values now.
    ///
    /// # Panics
    /// If the values do not fit.
    pub(crate) unsafe fn write(&self, first: usize, values: &[T]) {
        let fits = first.checked_add(values.len()).is_some_and(|end| end <= self.capacity);
        assert!(fits, "rows within the column");
        // SAFETY: in range by the assertion; exclusive access is guaranteed by the caller.
        unsafe {
            let target = self.start.as_ptr().add(first);
            std::ptr::copy_nonoverlapping(values.as_ptr(), target, values.len());
        }
    }
}

/// Zeroed pages for a large column; `None` for a small one, or if the mapping fails and the
/// allocator should try.
fn mapped(bytes: usize) -> Option<(NonNull<u8>, MmapMut)> {
    if bytes < MAPPED_BYTES {
        return None;
    }
    let mut map = MmapMut::map_anon(bytes).ok()?;
    // Only a hint, which the system may ignore.
    #[cfg(target_os = "linux")]
    let _ = map.advise(memmap2::Advice::HugePage);
    let start = NonNull::new(map.as_mut_ptr())?;
    Some((start, map))
}

impl<T: Pod> Drop for Column<T> {
    fn drop(&mut self) {
        if let Backing::Owned(layout) = self.backing {
            // SAFETY: allocated in `zeroed` with this layout and freed only here.
            unsafe { dealloc(self.start.as_ptr().cast(), layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owned_columns_are_aligned_and_hold_their_values() {
        let column = Column::from_slice(&[1.0f32, 2.0, 3.0]);
        // SAFETY: nothing writes.
        let values = unsafe { column.read(3) };
        assert_eq!(values, [1.0, 2.0, 3.0]);
        assert_eq!(values.as_ptr() as usize % COLUMN_ALIGNMENT, 0);
    }

    #[test]
    fn large_columns_are_aligned_and_zero() {
        let column = Column::<f32>::zeroed(MAPPED_BYTES / 4 + 3);
        // SAFETY: nothing writes.
        let values = unsafe { column.read(column.capacity()) };
        assert!(values.iter().all(|&value| value == 0.0));
        assert_eq!(values.as_ptr() as usize % COLUMN_ALIGNMENT, 0);
    }

    #[test]
    fn lent_columns_outlive_the_callers_handle_and_refuse_bad_ranges() {
        let words: Vec<u8> = (0..64u8).collect();
        let owner: Arc<dyn StableBytes> = Arc::new(words.into_boxed_slice());
        let aligned = owner.bytes().as_ptr().align_offset(4);
        let column = Column::<u32>::lent(owner.clone(), aligned, 4).expect("in range");
        assert!(Column::<u32>::lent(owner.clone(), 60, 2).is_err());
        assert!(Column::<u32>::lent(owner.clone(), usize::MAX, 2).is_err());
        assert!(Column::<u32>::lent(owner.clone(), aligned + 1, 2).is_err());
        drop(owner);
        let first = (aligned as u32) | (aligned as u32 + 1) << 8;
        // SAFETY: nothing writes.
        assert_eq!(unsafe { column.read(4) }[0] & 0xffff, first);
    }
}
