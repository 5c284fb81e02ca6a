//! The inner loop of a convolution on the CPU: some pixels times some outputs, held in registers.

use crate::buffer::LANE;
use crate::vectorize::{Level, fused, vectorized};

/// Outputs that are summed at a time for so many outputs in all: what fits the registers.
pub(super) fn lanes_of(outputs: usize) -> usize {
    let vectors = match Level::detect() {
        #[cfg(target_arch = "x86_64")]
        Level::Wide => outputs.div_ceil(LANE).clamp(1, 4),
        _ => 1,
    };
    // Three vectors would leave registers idle.
    LANE * if vectors == 3 { 4 } else { vectors }
}

vectorized! {
    /// sums [pixels, lanes] ← sums + source · weights, with weights [depth, lanes]; pixel n reads
    /// `depth` elements of the source from n·step on.
    pub(super) fn add_products(
        sums: &mut [f32],
        source: &[f32],
        weights: &[f32],
        step: usize,
        lanes: usize,
    ) {
        match lanes / LANE {
            4 => add_blocks::<FUSED, 4>(sums, source, weights, step),
            2 => add_blocks::<FUSED, 2>(sums, source, weights, step),
            _ => add_blocks::<FUSED, 1>(sums, source, weights, step),
        }
    }
}

#[inline(always)]
fn add_blocks<const FUSED: bool, const VECTORS: usize>(
    sums: &mut [f32],
    source: &[f32],
    weights: &[f32],
    step: usize,
) {
    let (weights, rest) = weights.as_chunks::<LANE>();
    debug_assert!(rest.is_empty());
    let mut sums = sums.as_chunks_mut::<LANE>().0;
    let mut source = source;
    // As many pixels at once as are left: six keep all registers busy.
    loop {
        let taken = match sums.len() / VECTORS {
            6.. => add_block::<FUSED, 6, VECTORS>(sums, source, weights, step),
            4..6 => add_block::<FUSED, 4, VECTORS>(sums, source, weights, step),
            2..4 => add_block::<FUSED, 2, VECTORS>(sums, source, weights, step),
            1 => add_block::<FUSED, 1, VECTORS>(sums, source, weights, step),
            _ => return,
        };
        sums = &mut sums[taken * VECTORS..];
        source = source.get(taken * step..).unwrap_or_default();
    }
}

/// One block; returns how many pixels it has.
#[inline(always)]
fn add_block<const FUSED: bool, const PIXELS: usize, const VECTORS: usize>(
    sums: &mut [[f32; LANE]],
    source: &[f32],
    weights: &[[f32; LANE]],
    step: usize,
) -> usize {
    let depth = weights.len() / VECTORS;
    let weights = &weights[..depth * VECTORS];
    let mut rows = [source; PIXELS];
    for (pixel, row) in rows.iter_mut().enumerate() {
        *row = &source[pixel * step..][..depth];
    }
    let mut held = [[[0.0; LANE]; VECTORS]; PIXELS];
    for pixel in 0..PIXELS {
        for vector in 0..VECTORS {
            held[pixel][vector] = sums[pixel * VECTORS + vector];
        }
    }
    for place in 0..depth {
        for pixel in 0..PIXELS {
            let factor = rows[pixel][place];
            for vector in 0..VECTORS {
                let weights = &weights[place * VECTORS + vector];
                for lane in 0..LANE {
                    held[pixel][vector][lane] =
                        fused::<FUSED>(factor, weights[lane], held[pixel][vector][lane]);
                }
            }
        }
    }
    for pixel in 0..PIXELS {
        for vector in 0..VECTORS {
            sums[pixel * VECTORS + vector] = held[pixel][vector];
        }
    }
    PIXELS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_every_size_agree_with_plain_sums() {
        for lanes in [LANE, 2 * LANE, 4 * LANE] {
            for pixels in 0..15 {
                let (depth, step) = (5, 3);
                let value = |n: usize| (n % 7) as f32 - 3.0;
                let source: Vec<f32> = (0..pixels * step + depth).map(value).collect();
                let weights: Vec<f32> = (0..depth * lanes).map(|n| value(n * 3 + 1)).collect();
                let mut sums = vec![0.5; pixels * lanes];
                add_products(&mut sums, &source, &weights, step, lanes);
                for (n, sum) in sums.iter().enumerate() {
                    let (pixel, lane) = (n / lanes, n % lanes);
                    let terms =
                        (0..depth).map(|k| source[pixel * step + k] * weights[k * lanes + lane]);
                    assert_eq!(*sum, 0.5 + terms.sum::<f32>());
                }
            }
        }
    }
}
