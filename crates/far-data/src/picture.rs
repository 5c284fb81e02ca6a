//! Pictures in memory and their encodings.

use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use crate::ImageEncoding;
use crate::png_file::{self, same_size};

/// Pixels that the header of a file may declare: a few bytes of PNG unpack to gigabytes.
const LARGEST_PICTURE: u64 = 1 << 26;

/// An 8-bit RGB picture, rows from the top.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// height × width × 3 bytes, red first.
    pub pixels: Vec<u8>,
}

impl Picture {
    /// A picture of one color.
    pub fn filled(width: u32, height: u32, color: [u8; 3]) -> Self {
        Self { width, height, pixels: color.repeat(width as usize * height as usize) }
    }

    /// The color at (x, y), counted from the upper left corner.
    pub fn pixel(&self, x: u32, y: u32) -> [u8; 3] {
        let at = self.offset(x, y);
        [self.pixels[at], self.pixels[at + 1], self.pixels[at + 2]]
    }

    /// Changes the color at (x, y); outside the picture nothing happens.
    pub fn set_pixel(&mut self, x: u32, y: u32, color: [u8; 3]) {
        if x < self.width && y < self.height {
            let at = self.offset(x, y);
            self.pixels[at..at + 3].copy_from_slice(&color);
        }
    }

    /// Copies `other` into this picture with its upper left corner at (x, y), cut at the edges.
    pub fn paste(&mut self, other: &Picture, x: u32, y: u32) {
        for row in 0..other.height {
            for column in 0..other.width {
                self.set_pixel(x + column, y + row, other.pixel(column, row));
            }
        }
    }

    /// The part between the edges [left, top, right, bottom], right and bottom exclusive.
    ///
    /// # Panics
    /// If the edges do not lie in the picture in this order.
    pub fn cropped(&self, [left, top, right, bottom]: [u32; 4]) -> Self {
        assert!(left <= right && right <= self.width && top <= bottom && bottom <= self.height);
        let row = |y| &self.pixels[self.offset(left, y)..][..3 * (right - left) as usize];
        let pixels = (top..bottom).flat_map(row).copied().collect();
        Self { width: right - left, height: bottom - top, pixels }
    }

    /// This picture with every pixel repeated `factor` times in both directions.
    pub fn enlarged(&self, factor: u32) -> Self {
        let mut large = Self::filled(self.width * factor, self.height * factor, [0; 3]);
        for y in 0..large.height {
            for x in 0..large.width {
                large.set_pixel(x, y, self.pixel(x / factor, y / factor));
            }
        }
        large
    }

    /// The PNG file of this picture. The same picture always gives the same bytes.
    pub fn to_png(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.pixels.len() / 2 + 128);
        let mut encoder = png::Encoder::new(&mut bytes, self.width, self.height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::Fast);
        let mut writer = encoder.write_header().expect("a picture has a valid PNG header");
        writer.write_image_data(&self.pixels).expect("pixels fill the picture");
        drop(writer);
        bytes
    }

    /// Decodes a PNG file to RGB; gray, palette and 16-bit files are converted, alpha is dropped.
    pub fn from_png(bytes: &[u8], size: [u32; 2]) -> Result<Self, String> {
        let (color, data) = png_file::read(bytes, size)?;
        let pixels = match color {
            png::ColorType::Rgb => data,
            png::ColorType::Rgba => data.chunks_exact(4).flat_map(|p| [p[0], p[1], p[2]]).collect(),
            png::ColorType::Grayscale => data.iter().flat_map(|&g| [g, g, g]).collect(),
            png::ColorType::GrayscaleAlpha => {
                data.chunks_exact(2).flat_map(|p| [p[0], p[0], p[0]]).collect()
            }
            png::ColorType::Indexed => return Err("the PNG palette was not expanded".into()),
        };
        Self::checked(size, pixels)
    }

    /// Decodes a JPEG file to RGB.
    pub fn from_jpeg(bytes: &[u8], size: [u32; 2]) -> Result<Self, String> {
        let options = DecoderOptions::default()
            .set_max_width(size[0] as usize)
            .set_max_height(size[1] as usize)
            .jpeg_set_out_colorspace(ColorSpace::RGB);
        let mut decoder = zune_jpeg::JpegDecoder::new_with_options(ZCursor::new(bytes), options);
        decoder.decode_headers().map_err(|error| error.to_string())?;
        let (width, height) = decoder.dimensions().ok_or("the JPEG has no size")?;
        same_size([width as u32, height as u32], size)?;
        let pixels = decoder.decode().map_err(|error| error.to_string())?;
        Self::checked(size, pixels)
    }

    /// The size [width, height] that the header of a PNG or JPEG file declares.
    pub fn declared_size(bytes: &[u8]) -> Result<[u32; 2], String> {
        let size = match file_encoding(bytes) {
            Some(ImageEncoding::Png) => png_file::declared_size(bytes)?,
            Some(_) => {
                let mut decoder = zune_jpeg::JpegDecoder::new(ZCursor::new(bytes));
                decoder.decode_headers().map_err(|error| error.to_string())?;
                let (width, height) = decoder.dimensions().ok_or("the JPEG has no size")?;
                [width as u32, height as u32]
            }
            None => return Err("it is neither a PNG nor a JPEG file".into()),
        };
        let pixels = u64::from(size[0]) * u64::from(size[1]);
        if !(1..=LARGEST_PICTURE).contains(&pixels) || size.iter().any(|side| *side > 16_384) {
            return Err(format!("{} x {} pixels", size[0], size[1]));
        }
        Ok(size)
    }

    /// Decodes a PNG or JPEG file that must have `size` = [width, height].
    pub fn from_file(bytes: &[u8], size: [u32; 2]) -> Result<Self, String> {
        match file_encoding(bytes) {
            Some(encoding) => Self::decode(bytes, encoding, size),
            None => Err("it is neither a PNG nor a JPEG file".into()),
        }
    }

    /// Decodes stored bytes of a picture that must have `size` = [width, height].
    pub fn decode(bytes: &[u8], encoding: ImageEncoding, size: [u32; 2]) -> Result<Self, String> {
        match encoding {
            ImageEncoding::Png => Self::from_png(bytes, size),
            ImageEncoding::Jpeg => Self::from_jpeg(bytes, size),
            ImageEncoding::Raw => Self::checked(size, bytes.to_vec()),
            ImageEncoding::Video => Err("frames lie in a video file".into()),
            ImageEncoding::None => Err("the dataset has no frames".into()),
        }
    }

    /// What about the stored bytes of a picture contradicts the `images` and `resolution` of a
    /// `dataset.json`; `None` when nothing does.
    pub(crate) fn contradiction(
        bytes: &[u8],
        encoding: ImageEncoding,
        [width, height]: [u32; 2],
    ) -> Option<String> {
        let name = |encoding: ImageEncoding| format!("{encoding:?}").to_uppercase();
        let due = width as usize * height as usize * 3;
        let found = file_encoding(bytes);
        match (encoding, found) {
            (ImageEncoding::Png | ImageEncoding::Jpeg, None) => Some(format!(
                "`images` says {}, but frames are no PNG or JPEG files",
                name(encoding)
            )),
            (ImageEncoding::Png | ImageEncoding::Jpeg, Some(found)) if found != encoding => {
                let (due, found) = (name(encoding), name(found));
                Some(format!("`images` says {due}, but frames are {found} files"))
            }
            (ImageEncoding::Png | ImageEncoding::Jpeg, Some(_)) => {
                let [across, down] = Self::declared_size(bytes).ok()?;
                ([across, down] != [width, height]).then(|| {
                    format!("`resolution` is [{width}, {height}], but frames are {across} x {down}")
                })
            }
            (ImageEncoding::Raw, _) if bytes.len() != due => Some(format!(
                "`resolution` is [{width}, {height}], which is {due} bytes a frame, but frames have {}",
                bytes.len()
            )),
            _ => None,
        }
    }

    fn checked([width, height]: [u32; 2], pixels: Vec<u8>) -> Result<Self, String> {
        let expected = width as usize * height as usize * 3;
        if pixels.len() != expected {
            return Err(format!("{} bytes of pixels where {expected} were due", pixels.len()));
        }
        Ok(Self { width, height, pixels })
    }

    fn offset(&self, x: u32, y: u32) -> usize {
        3 * (y as usize * self.width as usize + x as usize)
    }
}

/// What the first bytes of a file say it is.
pub(crate) fn file_encoding(bytes: &[u8]) -> Option<ImageEncoding> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some(ImageEncoding::Png),
        [0xff, 0xd8, ..] => Some(ImageEncoding::Jpeg),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn png_and_raw_keep_every_pixel(width in 1u32..20, height in 1u32..20, seed: u8) {
            let pixels: Vec<u8> =
                (0..width * height * 3).map(|i| (i as u8).wrapping_mul(31) ^ seed).collect();
            let picture = Picture { width, height, pixels };
            let size = [width, height];
            let png = Picture::decode(&picture.to_png(), ImageEncoding::Png, size);
            prop_assert_eq!(png.as_ref(), Ok(&picture));
            let raw = Picture::decode(&picture.pixels, ImageEncoding::Raw, size);
            prop_assert_eq!(raw, Ok(picture));
        }

        #[test]
        fn garbage_is_an_error_and_never_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for encoding in [ImageEncoding::Png, ImageEncoding::Jpeg, ImageEncoding::Raw] {
                prop_assert!(Picture::decode(&bytes, encoding, [64, 64]).is_err());
            }
        }
    }

    #[test]
    fn another_size_is_refused() {
        let png = Picture::filled(4, 3, [9, 8, 7]).to_png();
        let reason = Picture::from_png(&png, [3, 4]).unwrap_err();
        assert!(reason.contains("4x3") && reason.contains("3x4"));
    }

    #[test]
    fn pasting_is_cut_at_the_edges() {
        let mut sheet = Picture::filled(4, 4, [0; 3]);
        sheet.paste(&Picture::filled(2, 2, [1, 2, 3]).enlarged(2), 2, 3);
        assert_eq!(sheet.pixel(3, 3), [1, 2, 3]);
        assert_eq!(sheet.pixel(1, 3), [0; 3]);
    }
}
