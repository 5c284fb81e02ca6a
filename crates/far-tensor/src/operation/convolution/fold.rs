//! A window over repeated pixels as smaller windows over the pixels themselves.
//!
//! Where each pixel is repeated n times each way, neighboring elements of a window meet the same pixel.
//! Which ones do depends on the place of the window modulo n, its phase: pixels of the result at
//! (n·r + p, n·q + s) form the phase (p, s). With floors, position n·r + p + i − top is over pixel
//! r + ⌊(p + i − top)/n⌋. So a phase is a convolution of the image as it is stored, by a window of
//! ⌈(K − 1)/n⌉ + 1 elements each way whose weights are sums of the window's own: 2 × 2 instead of 3 × 3
//! where pixels are doubled, 4/9 of the products.

use super::sliding::Sliding;
use crate::Device;
use crate::buffer::Buffer;
use std::ops::Range;

/// Which pixels of a result are written: every `apart`-th row and column of `extent`, from `first` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    pub apart: usize,
    /// [rows, columns], like the extent.
    pub first: [usize; 2],
    pub extent: [usize; 2],
}

impl Placement {
    /// All pixels of a result.
    pub(crate) fn whole(extent: [usize; 2]) -> Self {
        Self { apart: 1, first: [0; 2], extent }
    }
}

impl Sliding {
    /// The phases in the order of their first pixels, if their windows are smaller than this one. A
    /// phase may be without a pixel.
    pub(crate) fn phases(&self) -> Option<impl Iterator<Item = Self> + use<>> {
        let kernel = self.kernel.map(|side| (side - 1).div_ceil(self.repeat) + 1);
        let moves_by_pixels = self.stride == [1; 2] && self.gap == [1; 2];
        let (whole, apart) = (*self, self.repeat);
        let phase = move |number: usize| {
            let first = [number / apart, number % apart];
            let before = [0, 1].map(|axis| -whole.offset(axis, first).div_euclid(apart as isize));
            let fit = [0, 1].map(|axis| whole.fit[axis].saturating_sub(first[axis]));
            let placement = Placement { apart, first, extent: whole.fit };
            let fit = fit.map(|extent| extent.div_ceil(apart));
            Self { kernel, before, fit, repeat: 1, placement, ..whole }
        };
        (moves_by_pixels && kernel != self.kernel).then(|| (0..apart * apart).map(phase))
    }

    /// Where the first window of the phase from `first` on begins in the repeated image.
    fn offset(&self, axis: usize, first: [usize; 2]) -> isize {
        first[axis] as isize - self.before[axis]
    }

    /// The elements of the window that meet the same pixel as element `tap` of the phase's window.
    fn meeting(&self, axis: usize, first: [usize; 2], tap: usize) -> Range<usize> {
        let skipped = self.offset(axis, first).rem_euclid(self.repeat as isize) as usize;
        let start = |tap: usize| (tap * self.repeat).saturating_sub(skipped).min(self.kernel[axis]);
        start(tap)..start(tap + 1)
    }

    /// The weight of a phase, from that of the whole window [outputs, channels, taps].
    pub(super) fn fold_weight(&self, device: &Device, weight: &[f32], phase: &Self) -> Buffer {
        let (first, width) = (phase.placement.first, self.kernel[1]);
        let meetings: Vec<[Range<usize>; 2]> = (0..phase.taps())
            .map(|tap| [tap / phase.kernel[1], tap % phase.kernel[1]])
            .map(|[row, column]| [self.meeting(0, first, row), self.meeting(1, first, column)])
            .collect();
        let mut folded = device.buffer(self.outputs * self.channels * phase.taps());
        let windows = weight.chunks_exact(self.taps());
        for (taps, window) in folded.chunks_exact_mut(phase.taps()).zip(windows) {
            for (sum, [rows, columns]) in taps.iter_mut().zip(&meetings) {
                let row = |i: usize| &window[i * width..][columns.clone()];
                *sum = rows.clone().flat_map(row).sum();
            }
        }
        folded
    }
}

#[cfg(test)]
mod tests {
    use super::super::direct::{Ending, PackedWeight};
    use super::super::{Filter, Padding};
    use super::*;
    use crate::testing::{assert_close, normal};
    use proptest::prelude::*;

    #[test]
    fn a_doubled_image_under_three_elements_has_two_by_two_windows() {
        let (x, weight) = (normal([1, 4, 5, 1], 1), normal([1, 1, 3, 3], 2));
        let filter = Filter { repeat: 2, ..Filter::same(&weight) };
        let whole = Sliding::new(&x, &filter).unwrap();
        let phases: Vec<Sliding> = whole.phases().unwrap().collect();
        assert_eq!(phases.len(), 4);
        assert!(phases.iter().all(|phase| phase.kernel == [2; 2] && phase.fit == [4, 5]));
        assert_eq!(phases[1].before, [1, 0]);
        let w = weight.values();
        let second = whole.fold_weight(&Device::cpu(), w, &phases[1]);
        let below = [w[3] + w[4] + w[6] + w[7], w[5] + w[8]];
        assert_close(&second, &[w[0] + w[1], w[2], below[0], below[1]], 1e-6);
    }

    #[test]
    fn what_would_not_get_smaller_has_no_phases() {
        let x = normal([1, 4, 4, 1], 1);
        for (kernel, stride, repeat) in [(3, 1, 1), (1, 1, 2), (2, 1, 2), (3, 2, 2)] {
            let weight = normal([1, 1, kernel, kernel], 2);
            let filter = Filter { repeat, stride: [stride; 2], ..Filter::same(&weight) };
            assert!(Sliding::new(&x, &filter).unwrap().phases().is_none());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]
        #[test]
        fn phases_together_are_the_whole(
            batch in 0usize..3, channels in 1usize..20, outputs in 1usize..40,
            image in prop::array::uniform2(1usize..8), kernel in prop::array::uniform2(1usize..6),
            sides in prop::array::uniform4(0usize..4), repeat in 2usize..4, relu in any::<bool>(),
            seed in 0u64..99,
        ) {
            let [top, bottom, left, right] = sides;
            let padding = Padding { top, bottom, left, right };
            prop_assume!(kernel[0] <= image[0] * repeat + top + bottom);
            prop_assume!(kernel[1] <= image[1] * repeat + left + right);
            let x = normal([batch, image[0], image[1], channels], seed);
            let weight = normal([outputs, channels, kernel[0], kernel[1]], seed + 1);
            let bias = normal([outputs], seed + 2);
            let filter = Filter { padding, repeat, ..Filter::same(&weight) };
            let (device, whole) = (Device::poisoned(), Sliding::new(&x, &filter).unwrap());
            let residual = normal([whole.pixels() * outputs], seed + 3);
            let (bias, residual) = (Some(bias.values()), Some(residual.values()));
            let ending = Ending { bias, residual, relu, accumulate: false };
            let convolve = |parts: &mut dyn Iterator<Item = (Sliding, &[f32])>| {
                let mut result = device.buffer(whole.pixels() * outputs);
                for (part, weight) in parts {
                    let weight = PackedWeight::new(&device, &part, weight, false);
                    part.convolve(&mut result, x.values(), &weight, ending);
                }
                result
            };
            let expected = convolve(&mut [(whole, weight.values())].into_iter());
            let Some(phases) = whole.phases() else { return Ok(()) };
            let folded: Vec<_> = phases
                .map(|phase| (phase, whole.fold_weight(&device, weight.values(), &phase)))
                .collect();
            let found = convolve(&mut folded.iter().map(|(phase, weight)| (*phase, &**weight)));
            assert_close(&found, &expected, 3e-5);
        }
    }
}
