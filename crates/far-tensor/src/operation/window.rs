//! Sliding windows over images, shared by convolution and pooling.

use crate::{Result, Tensor};
use std::ops::Range;

/// Padding of an image in elements, by side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Padding {
    /// Rows above.
    pub top: usize,
    /// Rows below.
    pub bottom: usize,
    /// Columns to the left.
    pub left: usize,
    /// Columns to the right.
    pub right: usize,
}

impl Padding {
    /// The same padding on all sides.
    pub fn even(amount: usize) -> Self {
        Self { top: amount, bottom: amount, left: amount, right: amount }
    }
}

/// A window of `kernel` elements that moves by `stride`; both are [rows, columns].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The window's extent.
    pub kernel: [usize; 2],
    /// Its step.
    pub stride: [usize; 2],
    /// Padding around the image.
    pub padding: Padding,
}

impl Window {
    /// A square window with even padding.
    pub fn square(kernel: usize, stride: usize, padding: usize) -> Self {
        let padding = Padding::even(padding);
        Self { kernel: [kernel; 2], stride: [stride; 2], padding }
    }

    /// The padding before and after an axis: 0 is rows, 1 is columns.
    fn around(&self, axis: usize) -> (usize, usize) {
        let padding = self.padding;
        [(padding.top, padding.bottom), (padding.left, padding.right)][axis]
    }

    /// Number of window positions in an image: ⌊(extent + padding − kernel) / stride⌋ + 1 along
    /// each axis.
    pub(super) fn fit(
        &self,
        operation: &'static str,
        x: &Tensor,
        image: [usize; 2],
    ) -> Result<[usize; 2]> {
        let padded = [0, 1].map(|axis| {
            let (before, after) = self.around(axis);
            image[axis] + before + after
        });
        let sound = (0..2).all(|axis| {
            let (kernel, stride) = (self.kernel[axis], self.stride[axis]);
            kernel > 0 && stride > 0 && kernel <= padded[axis]
        });
        x.expect(operation, sound, || {
            let Self { kernel, stride, .. } = self;
            format!("a window {kernel:?} with stride {stride:?} must fit the padded {padded:?}")
        })?;
        Ok([0, 1].map(|axis| (padded[axis] - self.kernel[axis]) / self.stride[axis] + 1))
    }

    /// Which elements of an axis of `extent` the window at `position` covers.
    pub(super) fn reach(&self, axis: usize, position: usize, extent: usize) -> Range<usize> {
        let (before, _) = self.around(axis);
        let start = position * self.stride[axis];
        let end = (start + self.kernel[axis]).saturating_sub(before).min(extent);
        start.saturating_sub(before).min(end)..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn reach_agrees_with_counting(
            extent in 1usize..9, kernel in 1usize..5, stride in 1usize..4,
            before in 0usize..4, after in 0usize..4,
        ) {
            prop_assume!(kernel <= extent + before + after);
            let padding = Padding { top: before, bottom: after, left: 0, right: 0 };
            let window = Window { kernel: [kernel, 1], stride: [stride, 1], padding };
            let image = Tensor::zeros([extent, 1]);
            let [positions, _] = window.fit("test", &image, [extent, 1]).unwrap();
            prop_assert!((positions - 1) * stride + kernel <= extent + before + after);
            prop_assert!(positions * stride + kernel > extent + before + after);
            for position in 0..positions {
                let covered: Vec<usize> = (0..kernel)
                    .filter_map(|offset| (position * stride + offset).checked_sub(before))
                    .filter(|place| *place < extent)
                    .collect();
                prop_assert_eq!(window.reach(0, position, extent).collect::<Vec<_>>(), covered);
            }
        }
    }

    #[test]
    fn a_window_larger_than_the_image_is_refused() {
        let image = Tensor::zeros([2, 2]);
        assert!(Window::square(3, 1, 0).fit("test", &image, [2, 2]).is_err());
        assert!(Window::square(1, 0, 0).fit("test", &image, [2, 2]).is_err());
    }
}
