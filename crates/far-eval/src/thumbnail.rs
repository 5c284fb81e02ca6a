//! A picture as a small grid of centered colors: a vision key that needs no training.

use far_data::Picture;

/// Cells along each side of the grid.
const CELLS: u32 = 8;
/// Numbers in a key.
pub const DIMENSION: usize = (CELLS * CELLS * 3) as usize;

/// The mean color of each cell, minus the mean of the picture, as [cell, channel].
pub fn thumbnail(picture: &Picture) -> Vec<f32> {
    let mut key = Vec::with_capacity(DIMENSION);
    let edge = |cell: u32, extent: u32| cell * extent / CELLS;
    for row in 0..CELLS {
        for column in 0..CELLS {
            let (left, right) = (edge(column, picture.width), edge(column + 1, picture.width));
            let (top, bottom) = (edge(row, picture.height), edge(row + 1, picture.height));
            let mut sum = [0.0; 3];
            for y in top..bottom {
                for x in left..right {
                    let pixel = picture.pixel(x, y);
                    sum.iter_mut().zip(pixel).for_each(|(sum, value)| *sum += f32::from(value));
                }
            }
            let pixels = ((right - left) * (bottom - top)).max(1) as f32;
            key.extend(sum.map(|sum| sum / pixels / 255.0));
        }
    }
    let mean = key.iter().sum::<f32>() / DIMENSION as f32;
    key.iter_mut().for_each(|value| *value -= mean);
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_follows_the_picture() {
        let mut picture = Picture::filled(64, 64, [0, 0, 0]);
        for y in 0..32 {
            for x in 0..64 {
                picture.set_pixel(x, y, [255, 255, 255]);
            }
        }
        let key = thumbnail(&picture);
        assert_eq!(key.len(), DIMENSION);
        assert!(key[..96].iter().all(|x| (*x - 0.5).abs() < 1e-5));
        assert!(key[96..].iter().all(|x| (*x + 0.5).abs() < 1e-5));
    }
}
