//! The pictures of a page: each once, and no more bytes than a page should have.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use color_quant::NeuQuant;
use far_data::Picture;
use rayon::prelude::*;
use std::collections::{BTreeMap, HashMap};

/// How faithfully pictures are kept, from the best to the smallest: a palette for each picture
/// (`None` keeps every color), then fewer pixels.
const FIDELITIES: [(u32, Option<usize>); 7] = [
    (1, None),
    (1, Some(256)),
    (1, Some(128)),
    (1, Some(64)),
    (2, Some(64)),
    (4, Some(64)),
    SMALLEST,
];
/// The last resort.
const SMALLEST: (u32, Option<usize>) = (8, Some(64));
/// One picture of so many is tried first.
const SPACING: usize = 32;

/// Distinct pictures in the order in which they were met.
#[derive(Default)]
pub struct PicturePack<'a> {
    numbers: HashMap<(u32, &'a [u8]), usize>,
    pictures: Vec<&'a Picture>,
}

impl<'a> PicturePack<'a> {
    /// The number of a picture; equal pictures have the same.
    pub fn add(&mut self, picture: &'a Picture) -> usize {
        let next = self.pictures.len();
        let number = *self.numbers.entry((picture.width, &picture.pixels)).or_insert(next);
        if number == next {
            self.pictures.push(picture);
        }
        number
    }

    /// The numbers of the pictures of some frames.
    pub fn add_frames(&mut self, pictures: &'a BTreeMap<usize, Picture>) -> BTreeMap<usize, usize> {
        pictures.iter().map(|(frame, picture)| (*frame, self.add(picture))).collect()
    }

    /// The pictures by number.
    pub fn pictures(&self) -> &[&'a Picture] {
        &self.pictures
    }

    /// All pictures as base64 PNG files, as faithful as `budget` characters allow in sum.
    pub fn encode(&self, budget: usize) -> Vec<String> {
        let mut encoded = Vec::new();
        for fidelity in FIDELITIES {
            // Evenly spaced pictures tell beforehand when all of them would be far too much.
            let few: Vec<&Picture> = self.pictures.iter().step_by(SPACING).copied().collect();
            let expected = length(&encode_all(&few, fidelity)) * self.pictures.len();
            let hopeless = expected / few.len().max(1) > budget + budget / 4;
            if hopeless && fidelity != SMALLEST {
                continue;
            }
            encoded = encode_all(&self.pictures, fidelity);
            if length(&encoded) <= budget {
                break;
            }
        }
        encoded
    }
}

fn encode_all(pictures: &[&Picture], (shrink, colors): (u32, Option<usize>)) -> Vec<String> {
    let texts = pictures.par_iter().map(|picture| {
        let picture = shrunk(picture, shrink);
        BASE64.encode(colors.map_or_else(|| picture.to_png(), |colors| indexed(&picture, colors)))
    });
    texts.collect()
}

fn length(texts: &[String]) -> usize {
    texts.iter().map(String::len).sum()
}

/// A picture with squares of `factor` pixels averaged; what does not fill a square is cut off.
fn shrunk(picture: &Picture, factor: u32) -> Picture {
    if factor == 1 || picture.width < factor || picture.height < factor {
        return picture.clone();
    }
    let (width, height) = (picture.width / factor, picture.height / factor);
    let mut small = Picture::filled(width, height, [0; 3]);
    for y in 0..height {
        for x in 0..width {
            let mut sum = [0u32; 3];
            for (dy, dx) in (0..factor).flat_map(|dy| (0..factor).map(move |dx| (dy, dx))) {
                let pixel = picture.pixel(factor * x + dx, factor * y + dy);
                sum.iter_mut().zip(pixel).for_each(|(sum, value)| *sum += u32::from(value));
            }
            small.set_pixel(x, y, sum.map(|sum| (sum / (factor * factor)) as u8));
        }
    }
    small
}

/// A PNG file with a palette of at most `colors` colors chosen for the picture.
fn indexed(picture: &Picture, colors: usize) -> Vec<u8> {
    let pixels = picture.pixels.chunks_exact(3).flat_map(|rgb| [rgb[0], rgb[1], rgb[2], 255]);
    let pixels: Vec<u8> = pixels.collect();
    let palette = NeuQuant::new(2, colors, &pixels);
    let samples: Vec<u8> =
        pixels.chunks_exact(4).map(|pixel| palette.index_of(pixel) as u8).collect();
    let mut bytes = Vec::with_capacity(pixels.len() / 4 + 1024);
    let mut encoder = png::Encoder::new(&mut bytes, picture.width, picture.height);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_palette(palette.color_map_rgb());
    encoder.set_compression(png::Compression::High);
    // Neighboring numbers of a palette are not neighboring colors: filters only harm.
    encoder.set_filter(png::Filter::NoFilter);
    let mut writer = encoder.write_header().expect("a picture has a valid PNG header");
    writer.write_image_data(&samples).expect("samples fill the picture");
    drop(writer);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A picture in which many colors meet.
    fn colorful(width: u32, height: u32, seed: u32) -> Picture {
        let mut picture = Picture::filled(width, height, [0; 3]);
        for y in 0..height {
            for x in 0..width {
                let noise = (x * 31 + y * 57 + seed * 101) % 23;
                let rgb = [x * 255 / width, y * 255 / height, 100 + noise];
                picture.set_pixel(x, y, rgb.map(|value| value as u8));
            }
        }
        picture
    }

    fn decoded(text: &str, size: [u32; 2]) -> Picture {
        Picture::from_png(&BASE64.decode(text).unwrap(), size).unwrap()
    }

    fn error(a: &Picture, b: &Picture) -> f64 {
        let squares = a.pixels.iter().zip(&b.pixels);
        let squares = squares.map(|(a, b)| f64::from(a.abs_diff(*b)).powi(2));
        (squares.sum::<f64>() / a.pixels.len() as f64).sqrt()
    }

    #[test]
    fn equal_pictures_are_packed_once_and_exactly_when_there_is_room() {
        let pictures = [colorful(16, 12, 0), colorful(16, 12, 1), colorful(16, 12, 0)];
        let mut pack = PicturePack::default();
        let numbers: Vec<usize> = pictures.iter().map(|picture| pack.add(picture)).collect();
        assert_eq!(numbers, [0, 1, 0]);
        let texts = pack.encode(usize::MAX);
        assert_eq!(texts.len(), 2);
        assert_eq!(decoded(&texts[1], [16, 12]), pictures[1]);
    }

    #[test]
    fn a_small_budget_costs_colors_before_pixels() {
        let picture = colorful(64, 64, 3);
        let mut pack = PicturePack::default();
        pack.add(&picture);
        let exact = pack.encode(usize::MAX)[0].len();
        let fewer = pack.encode(exact - 1);
        assert!(fewer[0].len() < exact);
        assert!(error(&decoded(&fewer[0], [64, 64]), &picture) < 12.0);
        let dot = Picture::filled(1, 1, [9, 8, 7]);
        pack.add(&dot);
        let least = pack.encode(0);
        assert_eq!(decoded(&least[1], [1, 1]).width, 1);
        assert_eq!(decoded(&least[0], [8, 8]).width, 8);
    }

    #[test]
    fn shrinking_averages() {
        let mut picture = Picture::filled(5, 2, [10, 20, 30]);
        picture.set_pixel(0, 0, [50, 20, 30]);
        let small = shrunk(&picture, 2);
        assert_eq!((small.width, small.height), (2, 1));
        assert_eq!((small.pixel(0, 0), small.pixel(1, 0)), ([20, 20, 30], [10, 20, 30]));
        assert_eq!(shrunk(&picture, 8), picture);
    }
}
