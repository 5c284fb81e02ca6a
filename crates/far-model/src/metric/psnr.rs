//! The peak signal-to-noise ratio: 10·log₁₀(1/MSE) of RGB in [0, 1].

use super::check_pictures;
use crate::Result;
use far_data::Picture;

/// The least mean squared error that counts: equal pictures have 100 dB instead of infinity, so
/// that means over frames exist.
const LEAST_ERROR: f64 = 1e-10;

/// PSNR of two pictures, in decibels; 100 where they are equal.
///
/// ```
/// use far_data::Picture;
/// let [gray, lighter] = [100, 151].map(|level| Picture::filled(4, 4, [level; 3]));
/// // 51 of 255 is 0.2: 10·log₁₀(1/0.04).
/// assert!((far_model::psnr(&gray, &lighter)? - 13.9794).abs() < 1e-4);
/// assert_eq!(far_model::psnr(&gray, &gray)?, 100.0);
/// # Ok::<(), far_model::Error>(())
/// ```
///
/// # Errors
/// If the sizes differ or the pictures are empty.
pub fn psnr(a: &Picture, b: &Picture) -> Result<f64> {
    check_pictures("psnr", a, b, 1)?;
    let differences = a.pixels.iter().zip(&b.pixels).map(|(a, b)| u64::from(a.abs_diff(*b)));
    // Whole numbers: the sum is exact in any order.
    let total: u64 = differences.map(|difference| difference * difference).sum();
    let error = total as f64 / (a.pixels.len() as f64 * 255.0 * 255.0);
    Ok(-10.0 * error.max(LEAST_ERROR).log10())
}
