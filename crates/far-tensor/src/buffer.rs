//! Aligned memory that is reused, so that a steady-state step allocates nothing large.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, Weak};

/// Floats in one cache line, the unit in which buffers are aligned and sized.
pub(crate) const LANE: usize = 16;

/// One cache line of floats.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Lane([f32; LANE]);

/// A 64-byte-aligned array of floats that returns to its pool when dropped.
pub struct Buffer {
    lanes: Vec<Lane>,
    length: usize,
    pool: Weak<Pool>,
}

impl Buffer {
    /// A zeroed buffer without a pool.
    pub fn zeroed(length: usize) -> Self {
        let lanes = vec![Lane([0.0; LANE]); length.div_ceil(LANE)];
        Self { lanes, length, pool: Weak::new() }
    }
}

impl From<&[f32]> for Buffer {
    fn from(values: &[f32]) -> Self {
        let mut copy = Self::zeroed(values.len());
        copy.copy_from_slice(values);
        copy
    }
}

impl Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        // SAFETY: `Lane` is `repr(C)` over `[f32; LANE]` without padding, and there are at least
        // `length` floats in `lanes`, all initialized.
        unsafe { std::slice::from_raw_parts(self.lanes.as_ptr().cast(), self.length) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as in `deref`, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.lanes.as_mut_ptr().cast(), self.length) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.upgrade() {
            pool.put_back(std::mem::take(&mut self.lanes));
        }
    }
}

/// Free buffers by size class.
///
/// Sizes are rounded up to a quarter of a power of two, so that changing shapes can reuse buffers
/// and the memory kept stays within a quarter of what was requested.
#[derive(Default)]
pub struct Pool {
    free: Mutex<BTreeMap<usize, Vec<Vec<Lane>>>>,
    poisoned: bool,
}

impl Pool {
    /// An empty pool. A poisoned one fills its buffers with NaN, so that tests detect a kernel that
    /// forgets to write an element.
    pub(crate) fn new(poisoned: bool) -> Arc<Self> {
        Arc::new(Self { free: Mutex::default(), poisoned })
    }

    /// A buffer with unspecified contents.
    pub(crate) fn take(self: &Arc<Self>, length: usize) -> Buffer {
        let class = size_class(length.div_ceil(LANE));
        let kept = self.free.lock().expect("no user panics while it holds the pool");
        let kept = { kept }.get_mut(&class).and_then(Vec::pop);
        let mut lanes = kept.unwrap_or_else(|| vec![Lane([0.0; LANE]); class]);
        if self.poisoned {
            lanes.fill(Lane([f32::NAN; LANE]));
        }
        Buffer { lanes, length, pool: Arc::downgrade(self) }
    }

    /// A buffer of zeros.
    pub(crate) fn take_zeroed(self: &Arc<Self>, length: usize) -> Buffer {
        let mut buffer = self.take(length);
        buffer.fill(0.0);
        buffer
    }

    fn put_back(&self, lanes: Vec<Lane>) {
        if let Ok(mut free) = self.free.lock() {
            free.entry(lanes.len()).or_default().push(lanes);
        }
    }
}

fn size_class(lanes: usize) -> usize {
    if lanes <= 4 {
        return lanes.max(1);
    }
    let step = lanes.next_power_of_two() / 8;
    lanes.next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_buffer_is_handed_out_again() {
        let pool = Pool::new(false);
        let first = pool.take(1000);
        let address = first.as_ptr();
        drop(first);
        assert_eq!(pool.take(990).as_ptr(), address);
    }

    #[test]
    fn size_classes_waste_at_most_a_quarter() {
        for lanes in 1..5000 {
            let class = size_class(lanes);
            assert!(class >= lanes && class * 4 <= lanes * 5, "{lanes} became {class}");
        }
    }

    #[test]
    fn buffers_are_aligned() {
        assert_eq!(Buffer::zeroed(3).as_ptr() as usize % 64, 0);
    }
}
