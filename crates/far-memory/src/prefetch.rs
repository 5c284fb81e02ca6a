//! Prefetching of bytes that will be read soon.

/// Bytes per request: one cache line on common processors.
const LINE: usize = 64;

/// A range of memory to bring into the caches, in parts, while something else is computed.
#[derive(Clone, Copy)]
pub(crate) struct Prefetch<'a>(&'a [u8]);

impl<'a> Prefetch<'a> {
    /// Nothing to prefetch.
    pub(crate) const NONE: Self = Self(&[]);

    pub(crate) fn new<T: bytemuck::Pod>(values: &'a [T]) -> Self {
        Self(bytemuck::cast_slice(values))
    }

    /// Part `index` of `count`, in whole cache lines.
    #[inline(always)]
    pub(crate) fn part(self, index: usize, count: usize) -> Self {
        if self.0.is_empty() {
            return self;
        }
        let lines = self.0.len().div_ceil(LINE);
        let (first, last) = (index * lines / count, (index + 1) * lines / count);
        Self(&self.0[(first * LINE).min(self.0.len())..(last * LINE).min(self.0.len())])
    }

    /// Requests all its lines.
    #[inline(always)]
    pub(crate) fn fetch(self) {
        for line in self.0.chunks(LINE) {
            request(line.as_ptr());
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn request(address: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
    // SAFETY: a prefetch is a hint; it reads nothing and cannot fault.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(address.cast()) };
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn request(address: *const u8) {
    // SAFETY: a prefetch is a hint; it reads nothing and cannot fault.
    unsafe {
        std::arch::asm!("prfm pldl2keep, [{}]", in(reg) address, options(nostack, preserves_flags));
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
fn request(_address: *const u8) {}
