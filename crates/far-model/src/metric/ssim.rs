//! The structural similarity index.
//!
//! Around each pixel, with means, variances and the covariance of both pictures under an 11×11
//! Gaussian window of deviation 1.5:
//! SSIM = (2μ_aμ_b + C₁)(2σ_ab + C₂) / ((μ_a² + μ_b² + C₁)(σ_a² + σ_b² + C₂)), C₁ = 0.01², C₂ = 0.03².
//! The mean is over all windows that lie inside the picture, then over the three colors.

use super::check_pictures;
use crate::Result;
use far_data::Picture;

/// Side of the window.
const SIDE: usize = 11;
/// Deviation of the Gaussian, in pixels.
const DEVIATION: f64 = 1.5;
/// C₁ and C₂.
const STABILIZERS: [f64; 2] = [0.01 * 0.01, 0.03 * 0.03];

/// SSIM of two pictures: 1 where they are equal, less the less they are alike.
///
/// There is no smaller window for small pictures: a value would not mean the same.
///
/// ```
/// use far_data::Picture;
/// let picture = Picture::filled(16, 12, [10, 20, 30]);
/// assert_eq!(far_model::ssim(&picture, &picture)?, 1.0);
/// # Ok::<(), far_model::Error>(())
/// ```
///
/// # Errors
/// If the sizes differ or a side has fewer than 11 pixels.
pub fn ssim(a: &Picture, b: &Picture) -> Result<f64> {
    check_pictures("ssim", a, b, SIDE as u32)?;
    let width = a.width as usize;
    let window = gaussian();
    let of_color = |color: usize| {
        let [a, b] = [a, b].map(|picture| plane(picture, color));
        let blurred = |value: &dyn Fn(f64, f64) -> f64| {
            let products: Vec<f64> = a.iter().zip(&b).map(|(a, b)| value(*a, *b)).collect();
            blur(&products, width, &window)
        };
        let means = [blurred(&|a, _| a), blurred(&|_, b| b)];
        let squares = [blurred(&|a, _| a * a), blurred(&|_, b| b * b), blurred(&|a, b| a * b)];
        let windows = means[0].len();
        let total: f64 = (0..windows)
            .map(|place| {
                let moments = squares.each_ref().map(|square| square[place]);
                similarity([means[0][place], means[1][place]], moments)
            })
            .sum();
        total / windows as f64
    };
    Ok((0..3).map(of_color).sum::<f64>() / 3.0)
}

/// The index of one window from the means of a and b and of a², b² and a·b.
fn similarity([a, b]: [f64; 2], [aa, bb, ab]: [f64; 3]) -> f64 {
    let [light, contrast] = STABILIZERS;
    let (variances, covariance) = ((aa - a * a) + (bb - b * b), ab - a * b);
    (2.0 * a * b + light) * (2.0 * covariance + contrast)
        / ((a * a + b * b + light) * (variances + contrast))
}

/// One color in [0, 1].
fn plane(picture: &Picture, color: usize) -> Vec<f64> {
    picture.pixels.iter().skip(color).step_by(3).map(|value| f64::from(*value) / 255.0).collect()
}

/// The window along one axis: it sums to 1.
fn gaussian() -> [f64; SIDE] {
    let middle = (SIDE / 2) as f64;
    let window: [f64; SIDE] =
        std::array::from_fn(|place| (-0.5 * ((place as f64 - middle) / DEVIATION).powi(2)).exp());
    let total: f64 = window.iter().sum();
    window.map(|weight| weight / total)
}

/// Weighted means over all windows that lie inside, rows first and then columns.
fn blur(plane: &[f64], width: usize, window: &[f64; SIDE]) -> Vec<f64> {
    let along: Vec<f64> = plane
        .chunks_exact(width)
        .flat_map(|row| row.windows(SIDE))
        .map(|part| part.iter().zip(window).map(|(value, weight)| value * weight).sum())
        .collect();
    let narrow = width - SIDE + 1;
    let rows = along.len() / narrow - SIDE + 1;
    let mut result = vec![0.0; rows * narrow];
    for (row, line) in result.chunks_exact_mut(narrow).enumerate() {
        for (offset, weight) in window.iter().enumerate() {
            let source = &along[(row + offset) * narrow..][..narrow];
            line.iter_mut().zip(source).for_each(|(mean, value)| *mean += weight * value);
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use far_tensor::Random;
    use proptest::prelude::*;

    /// Window by window, weight by weight, with central moments.
    fn reference(a: &Picture, b: &Picture) -> f64 {
        let middle = (SIDE / 2) as f64;
        let weight = |x: usize, y: usize| {
            let square = (x as f64 - middle).powi(2) + (y as f64 - middle).powi(2);
            (-square / (2.0 * DEVIATION * DEVIATION)).exp()
        };
        let (mut total, mut windows) = (0.0, 0);
        for color in 0..3 {
            for top in 0..=a.height as usize - SIDE {
                for left in 0..=a.width as usize - SIDE {
                    let mean = |value: &dyn Fn(f64, f64) -> f64| {
                        let (mut sum, mut weights) = (0.0, 0.0);
                        for place in 0..SIDE * SIDE {
                            let (x, y) = (place % SIDE, place / SIDE);
                            let level = |picture: &Picture| {
                                let pixel = picture.pixel((left + x) as u32, (top + y) as u32);
                                f64::from(pixel[color]) / 255.0
                            };
                            sum += weight(x, y) * value(level(a), level(b));
                            weights += weight(x, y);
                        }
                        sum / weights
                    };
                    let (of_a, of_b) = (mean(&|a, _| a), mean(&|_, b| b));
                    let spread = mean(&|a, b| (a - of_a).powi(2) + (b - of_b).powi(2));
                    let along = mean(&|a, b| (a - of_a) * (b - of_b));
                    let light = (2.0 * of_a * of_b + 1e-4) / (of_a * of_a + of_b * of_b + 1e-4);
                    total += light * (2.0 * along + 9e-4) / (spread + 9e-4);
                    windows += 1;
                }
            }
        }
        total / f64::from(windows)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]
        #[test]
        fn values_match_the_reference(width in 11u32..16, height in 11u32..16, seed in 0u64..99) {
            let mut random = Random::stream(seed, "pixels", 0);
            let mut noise = || {
                let pixels = (0..width * height * 3).map(|_| random.bits() as u8).collect();
                Picture { width, height, pixels }
            };
            let (a, b) = (noise(), noise());
            prop_assert!((ssim(&a, &b).unwrap() - reference(&a, &b)).abs() < 1e-9);
            prop_assert_eq!(ssim(&a, &b).unwrap(), ssim(&b, &a).unwrap());
        }
    }
}
