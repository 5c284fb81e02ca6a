//! Memory bandwidth of a device: a lower bound on the time of every operation.

use crate::buffer::Buffer;
use crate::cuda::Element;
use crate::{Device, Result};
use rayon::prelude::*;
use std::time::Instant;

/// Values of one copy on a GPU: a gibibyte, which exceeds every cache.
const ON_GPU: usize = 1 << 28;
/// Values of one copy on the CPU.
const ON_CPU: usize = 1 << 25;
/// Values that one thread copies at a time.
const PIECE: usize = 1 << 16;

impl Device {
    /// Bytes per second that a plain copy within this device's memory reads and writes together, the
    /// best of three measurements.
    ///
    /// # Errors
    /// If a GPU has no room for two gibibytes or has failed.
    pub fn copy_rate(&self) -> Result<f64> {
        let mut best = 0.0_f64;
        match self.gpu() {
            Some(cuda) => {
                let [source, target] =
                    [cuda.zeroed(Element::F32, ON_GPU)?, cuda.buffer(Element::F32, ON_GPU)?];
                for _ in 0..3 {
                    const COPIES: usize = 8;
                    self.synchronize()?;
                    let start = Instant::now();
                    for _ in 0..COPIES {
                        cuda.copy(target.pointer(), source.pointer(), source.size())?;
                    }
                    self.synchronize()?;
                    let bytes = (2 * COPIES * source.size()) as f64;
                    best = best.max(bytes / start.elapsed().as_secs_f64());
                }
            }
            None => {
                let source = Buffer::zeroed(ON_CPU);
                let mut target = Buffer::zeroed(ON_CPU);
                for _ in 0..3 {
                    let start = Instant::now();
                    let pieces = target.par_chunks_mut(PIECE).zip(source.par_chunks(PIECE));
                    self.run(|| pieces.for_each(|(target, source)| target.copy_from_slice(source)));
                    let bytes = (2 * size_of_val(&*source)) as f64;
                    best = best.max(bytes / start.elapsed().as_secs_f64());
                }
            }
        }
        Ok(best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_positive_number() {
        let rate = Device::with_threads(2).copy_rate().unwrap();
        assert!(rate.is_finite() && rate > 0.0, "{rate}");
    }
}
