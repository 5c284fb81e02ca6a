//! Pictures at another size, in whole numbers, so that every machine makes the same bytes.

use crate::Picture;

impl Picture {
    /// The picture at [width, height]: each new pixel is the mean of the area it covers, rounded. A
    /// smaller picture has its pixels repeated, with means where a new pixel spans two.
    ///
    /// # Panics
    /// If either picture has no pixels.
    ///
    /// ```
    /// use far_data::Picture;
    /// let mut picture = Picture::filled(2, 1, [0, 50, 255]);
    /// picture.set_pixel(1, 0, [100, 50, 255]);
    /// assert_eq!(picture.resized([1, 1]).pixels, [50, 50, 255]);
    /// ```
    pub fn resized(&self, [width, height]: [u32; 2]) -> Self {
        if [self.width, self.height] == [width, height] {
            return self.clone();
        }
        let (columns, rows) = (shares(self.width, width), shares(self.height, height));
        let row_bytes = 3 * self.width as usize;
        let mut pixels = Vec::with_capacity(3 * width as usize * height as usize);
        // Sums of one new row: all shares together are the area of the old picture, which times 255
        // fits into 64 bits by far.
        let mut sums = vec![0u64; 3 * width as usize];
        let area = u64::from(self.width) * u64::from(self.height);
        for rows in &rows {
            sums.fill(0);
            for &(row, row_share) in rows {
                let line = &self.pixels[row * row_bytes..][..row_bytes];
                for (sum, columns) in sums.chunks_exact_mut(3).zip(&columns) {
                    for &(column, column_share) in columns {
                        let share = row_share * column_share;
                        for (color, sum) in sum.iter_mut().enumerate() {
                            *sum += share * u64::from(line[3 * column + color]);
                        }
                    }
                }
            }
            pixels.extend(sums.iter().map(|sum| ((sum + area / 2) / area) as u8));
        }
        Self { width, height, pixels }
    }

    /// The largest square in the middle.
    pub fn square(&self) -> Self {
        let side = self.width.min(self.height);
        let (left, top) = ((self.width - side) / 2, (self.height - side) / 2);
        self.cropped([left, top, left + side, top + side])
    }
}

/// For each new place of an axis, the old places it covers with their lengths, in units where an old
/// place is `to` long and a new one `from`: all borders are whole numbers then.
fn shares(from: u32, to: u32) -> Vec<Vec<(usize, u64)>> {
    assert!(from > 0 && to > 0, "a picture has pixels");
    let (from, to) = (u64::from(from), u64::from(to));
    let of_place = |place: u64| {
        let (start, end) = (place * from, (place + 1) * from);
        let covered = |old: u64| end.min((old + 1) * to) - start.max(old * to);
        (start / to..=(end - 1) / to).map(|old| (old as usize, covered(old))).collect()
    };
    (0..to).map(of_place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same by repeating every pixel until both sizes divide it evenly.
    fn reference(picture: &Picture, [width, height]: [u32; 2]) -> Vec<u8> {
        let mut pixels = Vec::new();
        for y in 0..height {
            for x in 0..width {
                let mut sums = [0u64; 3];
                for fine_y in y * picture.height..(y + 1) * picture.height {
                    for fine_x in x * picture.width..(x + 1) * picture.width {
                        let color = picture.pixel(fine_x / width, fine_y / height);
                        (0..3).for_each(|at| sums[at] += u64::from(color[at]));
                    }
                }
                let count = u64::from(picture.width) * u64::from(picture.height);
                pixels.extend(sums.map(|sum| ((sum + count / 2) / count) as u8));
            }
        }
        pixels
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn means_are_those_of_the_plain_loop(
            width in 1u32..9, height in 1u32..9, new in prop::array::uniform2(1u32..12), seed: u8,
        ) {
            let pixels: Vec<u8> =
                (0..width * height * 3).map(|i| (i as u8).wrapping_mul(83) ^ seed).collect();
            let picture = Picture { width, height, pixels };
            prop_assert_eq!(picture.resized(new).pixels, reference(&picture, new));
        }
    }

    #[test]
    fn a_square_is_cut_from_the_middle() {
        let mut picture = Picture::filled(5, 3, [0; 3]);
        picture.set_pixel(2, 1, [9; 3]);
        let square = picture.square();
        assert_eq!((square.width, square.height, square.pixel(1, 1)), (3, 3, [9; 3]));
    }
}
