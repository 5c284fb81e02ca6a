//! Pictures at another size by cubic interpolation, as DreamSim's authors prepare them.

use far_data::Picture;

/// The parameter of the cubic kernel, as in Pillow.
const SHARPNESS: f64 = -0.5;

/// Planes [3, side, side] of colors in [0, 1], rounded to the 8 bits of a picture: each axis is weighted by the cubic
/// kernel, widened where the picture shrinks so that nothing is skipped; the aspect ratio is not kept.
pub(super) fn resize(picture: &Picture, side: usize) -> Vec<f32> {
    let (width, height) = (picture.width as usize, picture.height as usize);
    let [columns, rows] = [width, height].map(|extent| weights(extent, side));
    let mut planes = Vec::with_capacity(3 * side * side);
    for color in 0..3 {
        // Narrowed first: [height, side].
        let mut narrow = vec![0.0; height * side];
        for row in 0..height {
            for (column, (start, weights)) in columns.iter().enumerate() {
                let value = |(place, weight): (usize, &f64)| {
                    weight * f64::from(picture.pixels[3 * (row * width + start + place) + color])
                };
                narrow[row * side + column] = weights.iter().enumerate().map(value).sum();
            }
        }
        for (start, weights) in &rows {
            for column in 0..side {
                let value = |(place, weight): (usize, &f64)| {
                    weight * narrow[(start + place) * side + column]
                };
                let value: f64 = weights.iter().enumerate().map(value).sum();
                planes.push(value.round().clamp(0.0, 255.0) as f32 / 255.0);
            }
        }
    }
    planes
}

/// For each place of an axis of `to` pixels: the first of `from` pixels that it sees, and their weights.
fn weights(from: usize, to: usize) -> Vec<(usize, Vec<f64>)> {
    let scale = from as f64 / to as f64;
    let stretch = scale.max(1.0);
    let reach = 2.0 * stretch;
    let places = (0..to).map(|place| {
        let center = (place as f64 + 0.5) * scale;
        let start = (center - reach + 0.5).max(0.0) as usize;
        let end = ((center + reach + 0.5) as usize).min(from);
        let weight = |pixel: usize| kernel((pixel as f64 - center + 0.5) / stretch);
        let weights: Vec<f64> = (start..end).map(weight).collect();
        let sum: f64 = weights.iter().sum();
        (start, weights.into_iter().map(|weight| weight / sum).collect())
    });
    places.collect()
}

/// The cubic kernel.
fn kernel(distance: f64) -> f64 {
    let x = distance.abs();
    if x < 1.0 {
        ((SHARPNESS + 2.0) * x - (SHARPNESS + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        (((x - 5.0) * x + 8.0) * x - 4.0) * SHARPNESS
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_of_one_color_and_one_of_the_same_size_stay_as_they_are() {
        let plain = Picture::filled(5, 9, [10, 20, 250]);
        let planes = resize(&plain, 7);
        for (color, plane) in [10.0, 20.0, 250.0].into_iter().zip(planes.chunks(49)) {
            assert!(plane.iter().all(|value| (255.0 * value - color).abs() < 1e-4));
        }
        let mut picture = Picture::filled(6, 6, [0; 3]);
        picture.pixels.iter_mut().enumerate().for_each(|(place, value)| *value = (7 * place) as u8);
        let planes = resize(&picture, 6);
        let back = (0..108).map(|place| (255.0 * planes[place % 3 * 36 + place / 3]).round() as u8);
        assert!(back.eq(picture.pixels.iter().copied()));
    }

    /// A ramp keeps its mean when it shrinks, and no pixel is skipped.
    #[test]
    fn nothing_is_skipped_where_a_picture_shrinks() {
        let mut dots = Picture::filled(40, 40, [0; 3]);
        dots.pixels.iter_mut().skip(3 * 20 * 40).for_each(|value| *value = 200);
        let planes = resize(&dots, 4);
        let mean = planes.iter().sum::<f32>() / planes.len() as f32;
        assert!((255.0 * mean - 100.0).abs() < 2.0, "{mean}");
        for (from, to) in [(5, 7), (64, 224), (224, 5), (3, 1)] {
            for (start, weights) in weights(from, to) {
                assert!(start + weights.len() <= from && !weights.is_empty());
                assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            }
        }
    }
}
