//! What the machine can do at best: reading bytes and multiplying matrices, measured beside a recall.

use super::timing::Timings;
use far_memory::{Keys, Snapshot};
use pulp::{Arch, Simd, WithSimd};
use std::hint::black_box;

/// Rows, columns and depth of the matrix product whose rate counts as the machine's.
const MATRIX: usize = 384;

/// The two yardsticks.
pub struct Floor {
    threads: usize,
    left: Vec<f32>,
    right: Vec<f32>,
    product: Vec<f32>,
    read: Timings,
    multiply: Timings,
    bytes: usize,
}

struct Sum<'a>(&'a [f32]);

impl WithSimd for Sum<'_> {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        let (vectors, _) = S::as_simd_f32s(self.0);
        let mut sums = [simd.splat_f32s(0.0); 8];
        for group in vectors.chunks_exact(8) {
            for (sum, &value) in sums.iter_mut().zip(group) {
                *sum = simd.add_f32s(*sum, value);
            }
        }
        sums.into_iter().map(|sum| simd.reduce_sum_f32s(sum)).sum()
    }
}

impl Floor {
    /// Yardsticks for this many threads.
    pub fn new(threads: usize) -> Self {
        let ramp = |scale: f32| (0..MATRIX * MATRIX).map(|i| (i % 17) as f32 * scale).collect();
        Self {
            threads,
            left: ramp(0.1),
            right: ramp(-0.2),
            product: vec![0.0; MATRIX * MATRIX],
            read: Timings::default(),
            multiply: Timings::default(),
            bytes: 0,
        }
    }

    /// Times one sequential read of all keys and one matrix product.
    pub fn measure(&mut self, snapshot: &Snapshot, cue: Option<usize>) {
        if let Some(cue) = cue {
            let parts: Vec<&[f32]> = snapshot
                .blocks()
                .filter_map(|block| match block.keys(cue) {
                    Some(Keys::F32(keys)) => Some(keys),
                    Some(Keys::F16(keys)) => Some(as_floats(keys)),
                    None => None,
                })
                .collect();
            self.bytes = parts.iter().map(|part| size_of_val(*part)).sum();
            let threads = self.threads;
            self.read.time(|| black_box(read(&parts, threads)));
        }
        let Self { left, right, product, threads, .. } = self;
        let parallelism = match *threads {
            1 => gemm::Parallelism::None,
            threads => gemm::Parallelism::Rayon(threads),
        };
        let size = MATRIX as isize;
        // SAFETY: three square row-major matrices of MATRIX² elements; the product is not read.
        self.multiply.time(|| unsafe {
            gemm::gemm(
                MATRIX,
                MATRIX,
                MATRIX,
                product.as_mut_ptr(),
                1,
                size,
                false,
                left.as_ptr(),
                1,
                size,
                right.as_ptr(),
                1,
                size,
                0.0,
                1.0,
                false,
                false,
                false,
                parallelism,
            );
        });
    }

    /// Bytes read by one sequential read.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sequential read, in gigabytes (10⁹) per second; 0 without keys.
    pub fn read_rate(&self) -> f64 {
        if self.bytes == 0 { 0.0 } else { self.bytes as f64 / self.read.median() * 1e-3 }
    }

    /// Matrix product, in 10⁹ operations per second.
    pub fn multiply_rate(&self) -> f64 {
        2.0 * (MATRIX * MATRIX * MATRIX) as f64 / self.multiply.median() * 1e-3
    }

    /// The least time for reading the bytes once and doing these operations, in microseconds.
    pub fn micros(&self, operations: f64) -> f64 {
        let read = if self.bytes == 0 { 0.0 } else { self.read.median() };
        read + operations / self.multiply_rate() * 1e-3
    }
}

/// The bytes of half-precision keys as floats; a last odd number is left out.
fn as_floats<T>(values: &[T]) -> &[f32] {
    // SAFETY: the keys are plain numbers, every bit pattern is a float, and `align_to` keeps to the
    // aligned middle.
    unsafe { values.align_to::<f32>().1 }
}

fn read(parts: &[&[f32]], threads: usize) -> f32 {
    if threads == 1 {
        return parts.iter().map(|part| Arch::new().dispatch(Sum(part))).sum();
    }
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|number| {
                scope.spawn(move || {
                    let share = |part: &&[f32]| {
                        let (first, last) =
                            (number * part.len() / threads, (number + 1) * part.len() / threads);
                        Arch::new().dispatch(Sum(&part[first..last]))
                    };
                    parts.iter().map(share).sum::<f32>()
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap_or(0.0)).sum()
    })
}
