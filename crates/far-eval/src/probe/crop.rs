//! The part of a frame that a probe looks at, and how far two pictures of it are apart.

use crate::frame_quality::Distance;
use crate::{Metric, Result};
use far_data::{Mask, Picture};

/// The least side of a crop as a share of the frame's: 64 of the paper's 256 pixels.
const LEAST_SHARE: u32 = 4;
/// The least side in pixels, as far as the frame has so many: LPIPS cannot see less.
const LEAST_SIDE: u32 = 32;

/// A square part of frames of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crop {
    /// Left, top, right and bottom edge in pixels, right and bottom exclusive.
    pub edges: [u32; 4],
}

impl Crop {
    /// The smallest square around a box of [left, top, right, bottom] in a frame of [width, height]:
    /// at least a quarter of the frame's smaller side and 32 pixels, moved inward where it would
    /// leave the frame and cut where the frame ends.
    pub fn around([left, top, right, bottom]: [u32; 4], [width, height]: [u32; 2]) -> Self {
        let least = (width.min(height) / LEAST_SHARE).max(LEAST_SIDE);
        let side = least.max(right - left).max(bottom - top);
        let place = |low: u32, high: u32, extent: u32| {
            let side = side.min(extent);
            let start = ((low + high) / 2).saturating_sub(side / 2).min(extent - side);
            (start, start + side)
        };
        let (left, right) = place(left, right, width);
        let (top, bottom) = place(top, bottom, height);
        Self { edges: [left, top, right, bottom] }
    }

    /// The crop around the set pixels of a mask, in frames of [width, height] that show the same as
    /// the mask at another resolution; `None` if no pixel is set.
    pub fn of_mask(mask: &Mask, [width, height]: [u32; 2]) -> Option<Self> {
        let [left, top, right, bottom] = mask.bounds()?;
        let low = |value: u32, from: u32, to: u32| {
            (u64::from(value) * u64::from(to) / u64::from(from)) as u32
        };
        let high = |value: u32, from: u32, to: u32| {
            (u64::from(value) * u64::from(to)).div_ceil(u64::from(from)) as u32
        };
        let bounds = [
            low(left, mask.width, width),
            low(top, mask.height, height),
            high(right, mask.width, width),
            high(bottom, mask.height, height),
        ];
        Some(Self::around(bounds, [width, height]))
    }

    /// The crop around all pixels in which two pictures of the same size differ; `None` if they do
    /// not.
    pub fn of_difference(a: &Picture, b: &Picture) -> Option<Self> {
        let differ = |x, y| a.pixel(x, y) != b.pixel(x, y);
        Self::of_mask(&Mask::from_fn(a.width, a.height, differ), [a.width, a.height])
    }

    /// This part of a picture.
    pub fn cut(&self, picture: &Picture) -> Picture {
        picture.cropped(self.edges)
    }
}

/// How far apart two pictures of a crop are: LPIPS, or the mean square of the difference of colors
/// in [0, 1] where its weights are not at hand.
#[derive(Clone, Copy)]
pub(crate) struct CropDistance<'a> {
    lpips: Option<&'a Distance<'a>>,
}

impl<'a> CropDistance<'a> {
    /// By LPIPS, if it is given.
    pub fn new(lpips: Option<&'a Distance<'a>>) -> Self {
        Self { lpips }
    }

    /// The distance of two pictures of the same size, less is better.
    ///
    /// # Errors
    /// If LPIPS refuses the pictures.
    pub fn of(&self, a: &Picture, b: &Picture) -> Result<f64> {
        match self.lpips {
            Some(lpips) => Ok(lpips(a, b)?),
            None => Ok(mean_square(a, b)),
        }
    }

    /// A metric by this distance: where it is no LPIPS, its key ends with `_mse`, its name says so, and
    /// it does not stand in the table of a terminal.
    pub fn measuring(&self, mut metric: Metric) -> Metric {
        if self.lpips.is_none() {
            metric.id.push_str("_mse");
            metric.label.push_str(", by squared error");
            metric.note.push_str("; nearness by squared error, not LPIPS");
            metric.title = None;
        }
        metric
    }

    /// Distances that part small, medium and large changes: about the terciles of what the changed
    /// states of recorded kitchens differ by.
    pub fn magnitudes(&self) -> [f64; 2] {
        if self.lpips.is_some() { [0.12, 0.24] } else { [0.009, 0.017] }
    }
}

fn mean_square(a: &Picture, b: &Picture) -> f64 {
    let squares = a.pixels.iter().zip(&b.pixels).map(|(a, b)| f64::from(a.abs_diff(*b)).powi(2));
    squares.sum::<f64>() / (255.0 * 255.0 * a.pixels.len().max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn a_crop_holds_its_box_lies_in_the_frame_and_is_square_where_it_can_be(
            [width, height] in prop::array::uniform2(8u32..300),
            [x, y] in prop::array::uniform2(0.0f32..1.0),
            [wide, high] in prop::array::uniform2(0.0f32..1.0),
        ) {
            let (left, top) = ((x * width as f32) as u32, (y * height as f32) as u32);
            let right = left + 1 + (wide * (width - left - 1) as f32) as u32;
            let bottom = top + 1 + (high * (height - top - 1) as f32) as u32;
            let [l, t, r, b] = Crop::around([left, top, right, bottom], [width, height]).edges;
            prop_assert!(l <= left && t <= top && r >= right && b >= bottom);
            prop_assert!(r <= width && b <= height);
            let side = (right - left).max(bottom - top).max(32).max(width.min(height) / 4);
            prop_assert_eq!([r - l, b - t], [side.min(width), side.min(height)]);
        }
    }

    #[test]
    fn a_small_change_is_looked_at_in_a_quarter_of_the_frame() {
        let mask = Mask::from_fn(256, 256, |x, y| (100..110).contains(&x) && (4..6).contains(&y));
        assert_eq!(Crop::of_mask(&mask, [256, 256]).unwrap().edges, [73, 0, 137, 64]);
        // The same change in frames of half the size.
        assert_eq!(Crop::of_mask(&mask, [128, 128]).unwrap().edges, [36, 0, 68, 32]);
        let empty = Mask::from_fn(8, 8, |_, _| false);
        assert_eq!(Crop::of_mask(&empty, [128, 128]), None);
    }

    #[test]
    fn without_lpips_the_mean_square_is_measured_and_named() {
        let gray = Picture::filled(40, 40, [51; 3]);
        let mut other = gray.clone();
        assert_eq!(Crop::of_difference(&gray, &other), None);
        other.set_pixel(20, 20, [102, 51, 51]);
        let crop = Crop::of_difference(&gray, &other).unwrap();
        assert_eq!(crop.edges, [4, 4, 36, 36]);
        let plain = CropDistance::new(None);
        let [a, b] = [&gray, &other].map(|picture| crop.cut(picture));
        let expected = 0.2f64.powi(2) / (3.0 * 1024.0);
        assert!((plain.of(&a, &b).unwrap() - expected).abs() < 1e-12);
        let metric = || Metric::share("state_surface", "State").titled("surfaces").noted("near");
        let squared = plain.measuring(metric());
        assert_eq!((squared.id.as_str(), squared.title), ("state_surface_mse", None));
        assert!(squared.label.ends_with("squared error") && squared.note.ends_with("not LPIPS"));
        let lpips = |_: &Picture, _: &Picture| Ok(0.5);
        let learned = CropDistance::new(Some(&lpips));
        assert_eq!(learned.measuring(metric()), metric());
        assert_eq!(learned.of(&a, &b).unwrap(), 0.5);
    }
}
