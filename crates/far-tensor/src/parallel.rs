//! Splits work into pieces whose boundaries depend on the sizes alone, never on the number of
//! threads, so that results are the same bytes for any number of threads.

use rayon::prelude::*;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::Range;

/// Elements of cheap arithmetic from which another thread pays off.
pub(crate) const GRAIN: usize = 16 * 1024;

/// Runs `work` on consecutive ranges of `0..items`, each of at most `grain` items.
pub(crate) fn for_ranges(items: usize, grain: usize, work: impl Fn(Range<usize>) + Sync) {
    let grain = grain.max(1);
    let pieces = items.div_ceil(grain);
    let range = |piece: usize| piece * grain..((piece + 1) * grain).min(items);
    if pieces <= 1 {
        if items > 0 {
            work(0..items);
        }
        return;
    }
    (0..pieces).into_par_iter().with_max_len(1).for_each(|piece| work(range(piece)));
}

/// Runs `work` on consecutive parts of `target`, each of at most `grain` rows of `width` elements.
pub(crate) fn for_parts(
    target: &mut [f32],
    width: usize,
    grain: usize,
    work: impl Fn(Range<usize>, &mut [f32]) + Sync,
) {
    let rows = target.len().checked_div(width).unwrap_or(0);
    let shared = Disjoint::new(target);
    for_ranges(rows, grain, |range| {
        // SAFETY: the ranges of rows are disjoint.
        let part = unsafe { shared.range(range.start * width..range.end * width) };
        work(range, part);
    });
}

/// Rows per piece so that a piece has about [`GRAIN`] elements.
pub(crate) fn row_grain(width: usize) -> usize {
    (GRAIN / width.max(1)).max(1)
}

/// A mutable slice that several threads write in disjoint parts.
#[derive(Clone, Copy)]
pub(crate) struct Disjoint<'a> {
    start: *mut f32,
    length: usize,
    lifetime: PhantomData<&'a mut [f32]>,
}

// SAFETY: the only access is through `range`, whose callers guarantee disjointness.
unsafe impl Sync for Disjoint<'_> {}
// SAFETY: as above.
unsafe impl Send for Disjoint<'_> {}

impl<'a> Disjoint<'a> {
    pub(crate) fn new(values: &'a mut [f32]) -> Self {
        Self { start: values.as_mut_ptr(), length: values.len(), lifetime: PhantomData }
    }

    /// One part of the slice.
    ///
    /// # Safety
    /// No two parts that are alive at the same time may overlap.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn range(&self, range: Range<usize>) -> &'a mut [f32] {
        assert!(range.start <= range.end && range.end <= self.length);
        // SAFETY: within the slice as just checked; disjointness is guaranteed by the caller.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }
}

/// Lends a thread's scratch memory, which grows if needed and is kept: no allocation in steady
/// state.
///
/// The contents are unspecified. Calls may nest; each level has its own memory.
pub(crate) fn with_scratch<T>(length: usize, work: impl FnOnce(&mut [f32]) -> T) -> T {
    thread_local! {
        static SCRATCH: RefCell<Vec<Vec<f32>>> = const { RefCell::new(Vec::new()) };
    }
    let mut memory = SCRATCH.with_borrow_mut(Vec::pop).unwrap_or_default();
    if memory.len() < length {
        memory.resize(length, 0.0);
    }
    let result = work(&mut memory[..length]);
    SCRATCH.with_borrow_mut(|kept| kept.push(memory));
    result
}

/// Sums per-piece partial results into `total` in a fixed order.
///
/// `work(range, partial)` adds the contribution of `range` to a zeroed `partial` of the length of
/// `total`; partials are added to `total` by increasing range.
pub(crate) fn reduce_ranges(
    device: &crate::Device,
    items: usize,
    grain: usize,
    total: &mut [f32],
    accumulate: bool,
    work: impl Fn(Range<usize>, &mut [f32]) + Sync,
) {
    let width = total.len();
    let pieces = items.div_ceil(grain.max(1));
    if !accumulate {
        total.fill(0.0);
    }
    if pieces <= 1 {
        if items > 0 && !accumulate {
            work(0..items, total);
        } else if items > 0 {
            let mut partial = device.zeroed(width);
            work(0..items, &mut partial);
            crate::vectorize::add_assign(total, &partial);
        }
        return;
    }
    let mut partials = device.zeroed(pieces * width);
    let shared = Disjoint::new(&mut partials);
    for_ranges(items, grain, |range| {
        let piece = range.start / grain.max(1);
        // SAFETY: each piece has its own part.
        work(range, unsafe { shared.range(piece * width..(piece + 1) * width) });
    });
    crate::vectorize::add_rows(total, &partials);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn ranges_cover_everything_once() {
        for (items, grain) in [(0, 4), (1, 4), (4, 4), (5, 4), (100, 7), (3, 0)] {
            let seen = AtomicUsize::new(0);
            for_ranges(items, grain, |range| {
                seen.fetch_add(range.len(), Ordering::Relaxed);
            });
            assert_eq!(seen.into_inner(), items);
        }
    }

    #[test]
    fn scratch_nests() {
        with_scratch(4, |outer| {
            outer.fill(1.0);
            with_scratch(4, |inner| inner.fill(2.0));
            assert!(outer.iter().all(|x| *x == 1.0));
        });
    }
}
