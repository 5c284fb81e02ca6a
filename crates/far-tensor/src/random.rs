//! A counter-based generator (Philox 4×32-10) with streams named by purpose and step.
//!
//! The n-th number of a stream is a pure function of (seed, purpose, step, n): resuming a run,
//! changing the number of threads or moving to another device gives the same numbers. The ten
//! rounds are written out here, rather than taken from a crate, because the same twenty lines must
//! exist as a GPU kernel and agree to the bit; they are tested against the original authors' known
//! answers.

use crate::parallel::{GRAIN, for_ranges};

/// A stream of random numbers.
///
/// ```
/// use far_tensor::Random;
/// let mut noise = Random::stream(7, "diffusion noise", 120);
/// let mut again = Random::stream(7, "diffusion noise", 120);
/// assert_eq!(noise.uniform(), again.uniform());
/// ```
#[derive(Clone, Debug)]
pub struct Random {
    key: [u32; 2],
    step: u64,
    position: u64,
    block: [u32; 4],
}

impl Random {
    /// The stream for one purpose at one step of a seeded run.
    pub fn stream(seed: u64, purpose: &str, step: u64) -> Self {
        // The purpose is hashed into the key by FNV-1a, the seed then mixed in by a full avalanche.
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        for byte in purpose.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let key = avalanche(hash ^ avalanche(seed));
        Self { key: [key as u32, (key >> 32) as u32], step, position: 0, block: [0; 4] }
    }

    fn block_at(&self, index: u64) -> [u32; 4] {
        let counter =
            [index as u32, (index >> 32) as u32, self.step as u32, (self.step >> 32) as u32];
        philox(counter, self.key)
    }

    /// The next 32 random bits.
    pub fn bits(&mut self) -> u32 {
        let lane = (self.position % 4) as usize;
        if lane == 0 {
            self.block = self.block_at(self.position / 4);
        }
        self.position += 1;
        self.block[lane]
    }

    /// The next number, uniform in [0, 1).
    pub fn uniform(&mut self) -> f32 {
        to_unit(self.bits())
    }

    /// The next integer, uniform in `0..bound`.
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "there is no number below 0");
        let wide = (u64::from(self.bits()) << 32) | u64::from(self.bits());
        ((u128::from(wide) * bound as u128) >> 64) as usize
    }

    /// Fills a slice with standard normal numbers, on all threads.
    ///
    /// Element i depends on the stream and i alone; numbers drawn one by one before or after are
    /// not affected.
    pub fn fill_normal(&self, values: &mut [f32]) {
        self.fill(values, |bits, pair| {
            for half in 0..2 {
                let radius = (-2.0 * (1.0 - to_unit(bits[2 * half])).ln()).sqrt();
                let (sin, cos) = (std::f32::consts::TAU * to_unit(bits[2 * half + 1])).sin_cos();
                pair[2 * half] = radius * cos;
                pair[2 * half + 1] = radius * sin;
            }
        });
    }

    /// Fills a slice with numbers uniform in [low, high), as [`Random::fill_normal`] does.
    pub fn fill_uniform(&self, values: &mut [f32], low: f32, high: f32) {
        self.fill(values, |bits, four| {
            *four = bits.map(|bits| low + (high - low) * to_unit(bits));
        });
    }

    fn fill(&self, values: &mut [f32], convert: impl Fn([u32; 4], &mut [f32; 4]) + Sync) {
        // The highest bit of the counter separates filled numbers from those drawn one by one.
        const FILLED: u64 = 1 << 63;
        let length = values.len();
        let shared = crate::parallel::Disjoint::new(values);
        for_ranges(length.div_ceil(4), GRAIN / 4, |blocks| {
            let range = blocks.start * 4..(blocks.end * 4).min(length);
            // SAFETY: the ranges of blocks are disjoint.
            let part = unsafe { shared.range(range) };
            for (block, four) in blocks.zip(part.chunks_mut(4)) {
                let mut numbers = [0.0; 4];
                convert(self.block_at(FILLED | block as u64), &mut numbers);
                four.copy_from_slice(&numbers[..four.len()]);
            }
        });
    }
}

fn to_unit(bits: u32) -> f32 {
    (bits >> 8) as f32 / (1 << 24) as f32
}

/// Mixes 64 bits so that each input bit changes half of the output (the finalizer of SplitMix64).
fn avalanche(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Ten rounds of Philox 4×32.
fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let ([mut a, mut b, mut c, mut d], [mut first, mut second]) = (counter, key);
    for _ in 0..10 {
        let low = u64::from(a) * 0xd251_1f53;
        let high = u64::from(c) * 0xcd9e_8d57;
        (a, b, c, d) = (
            (high >> 32) as u32 ^ b ^ first,
            high as u32,
            (low >> 32) as u32 ^ d ^ second,
            low as u32,
        );
        first = first.wrapping_add(0x9e37_79b9);
        second = second.wrapping_add(0xbb67_ae85);
    }
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_gives_the_known_answers() {
        assert_eq!(philox([0; 4], [0; 2]), [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
        let ones = u32::MAX;
        assert_eq!(philox([ones; 4], [ones; 2]), [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]);
        let counter = [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344];
        let answer = [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1];
        assert_eq!(philox(counter, [0xa4093822, 0x299f31d0]), answer);
    }

    #[test]
    fn streams_differ_by_seed_purpose_and_step() {
        let first = |seed, purpose, step| Random::stream(seed, purpose, step).bits();
        let base = first(1, "noise", 5);
        assert!(base != first(2, "noise", 5) && base != first(1, "level", 5));
        assert!(base != first(1, "noise", 6) && base == first(1, "noise", 5));
    }

    #[test]
    fn filled_numbers_do_not_depend_on_the_length() {
        let stream = Random::stream(3, "noise", 0);
        let (mut long, mut short) = (vec![0.0; 40_001], vec![0.0; 17]);
        stream.fill_normal(&mut long);
        stream.fill_normal(&mut short);
        assert_eq!(long[..17], short[..]);
        let mean = long.iter().sum::<f32>() / long.len() as f32;
        let variance = long.iter().map(|x| x * x).sum::<f32>() / long.len() as f32;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03, "{mean} {variance}");
    }

    #[test]
    fn below_reaches_every_number() {
        let mut stream = Random::stream(4, "index", 0);
        let mut seen = [0; 7];
        for _ in 0..7000 {
            seen[stream.below(7)] += 1;
        }
        assert!(seen.iter().all(|count| (800..1200).contains(count)), "{seen:?}");
    }
}
