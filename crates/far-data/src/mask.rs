//! Yes or no per pixel: change masks and silhouettes, stored as one-bit PNG files.
//!
//! A one-bit PNG of 64×64 pixels takes about a hundred bytes, and any image library opens it.

use crate::png_file;

/// One bit per pixel, rows from the top.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mask {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// height × width values.
    pub pixels: Vec<bool>,
}

impl Mask {
    /// A mask whose pixel (x, y) is `inside(x, y)`.
    pub fn from_fn(width: u32, height: u32, mut inside: impl FnMut(u32, u32) -> bool) -> Self {
        let pixels =
            (0..height).flat_map(|y| (0..width).map(move |x| (x, y))).map(|(x, y)| inside(x, y));
        Self { width, height, pixels: pixels.collect() }
    }

    /// Whether no pixel is set.
    pub fn is_empty(&self) -> bool {
        !self.pixels.contains(&true)
    }

    /// Share of the pixels that are set, 0 to 1.
    pub fn area(&self) -> f32 {
        let set = self.pixels.iter().filter(|&&pixel| pixel).count();
        set as f32 / self.pixels.len().max(1) as f32
    }

    /// Smallest box around the set pixels as [left, top, right, bottom], right and bottom exclusive.
    pub fn bounds(&self) -> Option<[u32; 4]> {
        let mut bounds: Option<[u32; 4]> = None;
        for (index, _) in self.pixels.iter().enumerate().filter(|&(_, &pixel)| pixel) {
            let (x, y) = (index as u32 % self.width, index as u32 / self.width);
            let [left, top, right, bottom] = bounds.unwrap_or([x, y, x + 1, y + 1]);
            bounds = Some([left.min(x), top.min(y), right.max(x + 1), bottom.max(y + 1)]);
        }
        bounds
    }

    /// The mask as a one-bit PNG file.
    pub fn to_png(&self) -> Vec<u8> {
        let stride = self.width.div_ceil(8) as usize;
        let mut rows = vec![0u8; stride * self.height as usize];
        for (index, _) in self.pixels.iter().enumerate().filter(|&(_, &pixel)| pixel) {
            let (x, y) = (index % self.width as usize, index / self.width as usize);
            rows[y * stride + x / 8] |= 0x80 >> (x % 8);
        }
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, self.width, self.height);
        encoder.set_color(png::ColorType::Grayscale);
        encoder.set_depth(png::BitDepth::One);
        encoder.set_compression(png::Compression::Balanced);
        let mut writer = encoder.write_header().expect("a mask has a valid PNG header");
        writer.write_image_data(&rows).expect("rows fill the mask");
        drop(writer);
        bytes
    }

    /// Decodes a gray PNG of `size` = [width, height]: set where it is brighter than half.
    pub fn from_png(bytes: &[u8], size: [u32; 2]) -> Result<Self, String> {
        let (color, data) = png_file::read(bytes, size)?;
        if color != png::ColorType::Grayscale {
            return Err("a mask must be a gray PNG".into());
        }
        let pixels = data.iter().map(|&value| value > 127).collect();
        Ok(Self { width: size[0], height: size[1], pixels })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn a_mask_survives_its_file(width in 1u32..40, height in 1u32..40, seed: u32) {
            let mask = Mask::from_fn(width, height, |x, y| (x * 7 + y * 13 + seed % 97) % 3 == 0);
            prop_assert_eq!(Mask::from_png(&mask.to_png(), [width, height]), Ok(mask));
        }

        #[test]
        fn bounds_hold_every_set_pixel_and_are_tight(x in 0u32..30, y in 0u32..20, w in 1u32..9, h in 1u32..9) {
            let mask = Mask::from_fn(40, 30, |px, py| (x..x + w).contains(&px) && (y..y + h).contains(&py));
            prop_assert_eq!(mask.bounds(), Some([x, y, x + w, y + h]));
            prop_assert!((mask.area() - (w * h) as f32 / 1200.0).abs() < 1e-6);
        }
    }

    #[test]
    fn an_empty_mask_has_no_bounds() {
        let mask = Mask::from_fn(8, 8, |_, _| false);
        assert!(mask.is_empty() && mask.bounds().is_none());
    }

    #[test]
    fn a_small_mask_is_stored_small() {
        let mask = Mask::from_fn(64, 64, |x, y| (20..30).contains(&x) && (12..40).contains(&y));
        assert!(mask.to_png().len() < 160, "{} bytes", mask.to_png().len());
    }
}
