//! Pictures at another size, by the mean over the area that each new pixel covers.

use far_data::Picture;

/// The picture at [width, height] as planes [3, height, width] in [0, 1]: each value is the mean of
/// the original over the rectangle that the new pixel covers, parts of pixels counted by their area.
///
/// A picture that already has this size keeps its values; one that is smaller has its pixels
/// repeated, with means where a new pixel spans two.
///
/// # Panics
/// If either picture has no pixels.
///
/// ```
/// use far_data::Picture;
/// let mut picture = Picture::filled(2, 1, [0, 51, 255]);
/// picture.set_pixel(1, 0, [255, 51, 255]);
/// assert_eq!(far_model::area_resize(&picture, [1, 1]), [0.5, 0.2, 1.0]);
/// ```
pub fn area_resize(picture: &Picture, [width, height]: [usize; 2]) -> Vec<f32> {
    let size = [picture.width as usize, picture.height as usize];
    let columns = shares(size[0], width);
    let rows = shares(size[1], height);
    // Columns first: every row of the original becomes `width` sums by color.
    let mut narrowed = Vec::with_capacity(size[1] * width * 3);
    for row in picture.pixels.chunks_exact(size[0] * 3) {
        for shares in &columns {
            let mut sums = [0.0; 3];
            for (column, share) in shares {
                for (color, sum) in sums.iter_mut().enumerate() {
                    *sum += share * f32::from(row[3 * column + color]);
                }
            }
            narrowed.extend(sums);
        }
    }
    let mut planes = vec![0.0; 3 * height * width];
    for (color, plane) in planes.chunks_exact_mut(height * width).enumerate() {
        for (shares, line) in rows.iter().zip(plane.chunks_exact_mut(width)) {
            for (row, share) in shares {
                let above = &narrowed[row * width * 3..(row + 1) * width * 3];
                for (value, original) in line.iter_mut().zip(above.iter().skip(color).step_by(3)) {
                    *value += share * original;
                }
            }
            line.iter_mut().for_each(|value| *value /= 255.0);
        }
    }
    planes
}

/// Of which originals, and with which shares, each new place of an axis is the mean.
fn shares(from: usize, to: usize) -> Vec<Vec<(usize, f32)>> {
    assert!(from > 0 && to > 0, "a picture has pixels");
    // In units where an original is `to` long and a new place `from` long, all borders are whole.
    let of_place = |place: usize| {
        let (start, end) = (place * from, (place + 1) * from);
        let share = |original: usize| {
            let covered = end.min((original + 1) * to) - start.max(original * to);
            (original, covered as f32 / from as f32)
        };
        (start / to..end.div_ceil(to)).map(share).collect()
    };
    (0..to).map(of_place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use far_tensor::Random;

    fn noise(width: u32, height: u32) -> Picture {
        let mut random = Random::stream(1, "pixels", 0);
        let pixels = (0..width * height * 3).map(|_| random.bits() as u8).collect();
        Picture { width, height, pixels }
    }

    /// Enlarge until both sizes divide, then average whole pixels.
    fn reference(picture: &Picture, [width, height]: [usize; 2]) -> Vec<f32> {
        let (from_width, from_height) = (picture.width as usize, picture.height as usize);
        let mut planes = vec![0.0f64; 3 * width * height];
        for y in 0..from_height * height {
            for x in 0..from_width * width {
                let color = picture.pixel((x / width) as u32, (y / height) as u32);
                for (channel, value) in color.into_iter().enumerate() {
                    let place = (channel * height + y / from_height) * width + x / from_width;
                    planes[place] += f64::from(value);
                }
            }
        }
        let area = (from_width * from_height) as f64 * 255.0;
        planes.into_iter().map(|sum| (sum / area) as f32).collect()
    }

    #[test]
    fn means_over_areas_match_the_reference() {
        let picture = noise(12, 7);
        for size in [[12, 7], [6, 7], [4, 1], [5, 3], [24, 9], [1, 1]] {
            let (found, expected) = (area_resize(&picture, size), reference(&picture, size));
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter().zip(&expected) {
                assert!((found - expected).abs() < 1e-5, "{size:?}: {found} {expected}");
            }
        }
    }

    #[test]
    fn the_same_size_keeps_every_value() {
        let picture = noise(5, 4);
        let planes = area_resize(&picture, [5, 4]);
        for (place, value) in planes.iter().enumerate() {
            let (color, x, y) = (place / 20, place % 5, place / 5 % 4);
            assert_eq!(*value, f32::from(picture.pixel(x as u32, y as u32)[color]) / 255.0);
        }
    }
}
