//! How close generated frames come to the truth.

use crate::probe::CropDistance;
use crate::{EncodedClip, Result};
use far_data::{Dataset, Episode, ImageEncoding, Picture};
use far_model::{EncodedDataset, Tokenizer, area_resize, psnr, ssim};
use rayon::prelude::*;

/// Names of the metrics of one frame in results, in the order of [`FrameValues`].
pub const FRAME_METRICS: [&str; 5] = ["psnr", "psnr_raw", "ssim", "lpips", "dreamsim"];

/// The smallest side of a picture that SSIM is defined for.
const SSIM_SIDE: u32 = 11;

/// Values of one frame; `None` where a metric was not measured.
///
/// All but `psnr_raw` compare with the truth after the tokenizer, which is the best that any world
/// model behind it can do; `psnr_raw` compares with the frame as it was recorded.
pub type FrameValues = [Option<f64>; 5];

/// A perceptual distance of two pictures of the same size, less is better.
pub type Distance<'a> = dyn Fn(&Picture, &Picture) -> far_model::Result<f64> + Sync + 'a;

/// Perceptual distances whose weights are present.
#[derive(Clone, Copy, Default)]
pub struct Perceptual<'a> {
    /// LPIPS.
    pub lpips: Option<&'a Distance<'a>>,
    /// The smallest side of a picture that it is defined for; smaller frames are judged without it.
    pub lpips_side: u32,
    /// DreamSim.
    pub dreamsim: Option<&'a Distance<'a>>,
}

/// One true frame.
#[derive(Clone, Debug)]
pub struct Truth {
    /// As it was recorded, at the tokenizer's size; `None` in a dataset of latents.
    pub raw: Option<Picture>,
    /// After the tokenizer.
    pub decoded: Picture,
}

/// Decodes latents and compares pictures.
pub struct FrameQuality<'a> {
    dataset: &'a Dataset,
    tokenizer: &'a dyn Tokenizer,
    perceptual: Perceptual<'a>,
}

impl<'a> FrameQuality<'a> {
    /// Compares frames of a dataset, by these perceptual distances too.
    pub fn new(dataset: &'a EncodedDataset, perceptual: Perceptual<'a>) -> Self {
        let tokenizer = dataset.tokenizer().as_ref();
        let lpips = perceptual.lpips.filter(|_| {
            // All frames have one size, and only a decoded one tells it.
            let frame = tokenizer.decode(&vec![0.0; tokenizer.shape().elements()]);
            frame.is_some_and(|frame| frame.width.min(frame.height) >= perceptual.lpips_side)
        });
        Self {
            dataset: dataset.dataset(),
            tokenizer,
            perceptual: Perceptual { lpips, ..perceptual },
        }
    }

    /// How far apart crops of frames are.
    pub(crate) fn crop_distance(&self) -> CropDistance<'a> {
        CropDistance::new(self.perceptual.lpips)
    }

    /// Pictures of latents, in order; `None` if the tokenizer cannot decode.
    pub fn pictures(&self, latents: &[&[f32]]) -> Option<Vec<Picture>> {
        self.tokenizer.decode_all(latents)
    }

    /// The truth of frames of a clip; `None` if the tokenizer cannot decode.
    ///
    /// # Errors
    /// If a recorded frame cannot be read.
    pub fn truths(&self, clip: &EncodedClip, frames: &[usize]) -> Result<Option<Vec<Truth>>> {
        let latents: Vec<&[f32]> = frames.iter().map(|f| clip.episode().latent(*f)).collect();
        let Some(decoded) = self.pictures(&latents) else { return Ok(None) };
        let episode = self.dataset.episode(clip.episode().id())?;
        let truths = frames.par_iter().zip(decoded).map(|(frame, decoded)| {
            let raw = recorded(&episode, *frame, [decoded.width, decoded.height])?;
            Ok(Truth { raw, decoded })
        });
        truths.collect::<Result<_>>().map(Some)
    }

    /// Recorded pictures of explore frames, or decoded ones in a dataset of latents.
    ///
    /// # Errors
    /// If a recorded frame cannot be read.
    pub fn memories(&self, clip: &EncodedClip, frames: &[usize]) -> Result<Vec<Picture>> {
        let truths = self.truths(clip, frames)?.unwrap_or_default();
        Ok(truths.into_iter().map(|truth| truth.raw.unwrap_or(truth.decoded)).collect())
    }

    /// The values of generated frames against their truths.
    ///
    /// # Errors
    /// If the sizes differ.
    pub fn compare(&self, pictures: &[Picture], truths: &[Truth]) -> Result<Vec<FrameValues>> {
        let pairs = pictures.par_iter().zip(truths);
        let values = pairs.map(|(picture, Truth { raw, decoded })| {
            let large = picture.width.min(picture.height) >= SSIM_SIDE;
            Ok([
                Some(psnr(picture, decoded)?),
                raw.as_ref().map(|raw| psnr(picture, raw)).transpose()?,
                large.then(|| ssim(picture, decoded)).transpose()?,
                self.perceptual.lpips.map(|distance| distance(picture, decoded)).transpose()?,
                self.perceptual.dreamsim.map(|distance| distance(picture, decoded)).transpose()?,
            ])
        });
        values.collect()
    }
}

/// A frame as it was recorded, at `size`; `None` where the dataset holds no picture of it.
fn recorded(episode: &Episode, frame: usize, size: [u32; 2]) -> Result<Option<Picture>> {
    let images = episode.description().images;
    if matches!(images, ImageEncoding::None | ImageEncoding::Video) {
        return Ok(None);
    }
    let picture = episode.picture(frame)?;
    Ok(Some(if [picture.width, picture.height] == size {
        picture
    } else {
        resized(&picture, size)
    }))
}

fn resized(picture: &Picture, [width, height]: [u32; 2]) -> Picture {
    let planes = area_resize(picture, [width as usize, height as usize]);
    let plane = planes.len() / 3;
    let mut resized = Picture::filled(width, height, [0; 3]);
    for (place, value) in resized.pixels.iter_mut().enumerate() {
        *value = (255.0 * planes[place % 3 * plane + place / 3]).round() as u8;
    }
    resized
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{clips, road};

    #[test]
    fn frames_are_compared_with_both_truths() {
        let (_folder, dataset) = road(&[5], None);
        let clip = &clips(&dataset)[0];
        let distance = |a: &Picture, b: &Picture| Ok(f64::from(a.pixels[0].abs_diff(b.pixels[0])));
        let perceptual = Perceptual { lpips: Some(&distance), ..Perceptual::default() };
        let quality = FrameQuality::new(&dataset, perceptual);
        let truths = quality.truths(clip, &[40, 42]).unwrap().unwrap();
        // This tokenizer loses nothing on frames of one color.
        assert!(truths.iter().all(|truth| truth.raw.as_ref() == Some(&truth.decoded)));
        let black = vec![Picture::filled(12, 12, [0; 3]), truths[1].decoded.clone()];
        let values = quality.compare(&black, &truths).unwrap();
        let color = truths[0].decoded.pixel(0, 0).map(|value| f64::from(value) / 255.0);
        let square = color.iter().map(|value| value * value).sum::<f64>() / 3.0;
        let expected = -10.0 * square.log10();
        assert!((values[0][0].unwrap() - expected).abs() < 1e-9);
        assert_eq!(values[0][0], values[0][1]);
        assert!(values[0][2].unwrap() < 0.5);
        assert_eq!(values[0][3], Some((255.0 * color[0]).round()));
        assert_eq!(values[1], [Some(100.0), Some(100.0), Some(1.0), Some(0.0), None]);
        let perceptual = Perceptual { dreamsim: Some(&distance), ..Perceptual::default() };
        let values = FrameQuality::new(&dataset, perceptual).compare(&black, &truths).unwrap();
        assert_eq!(values[1][3..], [None, Some(0.0)]);
    }

    #[test]
    fn frames_that_are_too_small_for_lpips_are_judged_without_it() {
        let (_folder, dataset) = road(&[5], None);
        let truths = FrameQuality::new(&dataset, Perceptual::default());
        let truths = truths.truths(&clips(&dataset)[0], &[40]).unwrap().unwrap();
        let pictures = [truths[0].decoded.clone()];
        let side = pictures[0].width.min(pictures[0].height);
        let distance = |_: &Picture, _: &Picture| Ok(0.5);
        for (lpips_side, expected) in [(side, Some(0.5)), (side + 1, None)] {
            let perceptual = Perceptual { lpips: Some(&distance), lpips_side, dreamsim: None };
            let quality = FrameQuality::new(&dataset, perceptual);
            assert_eq!(quality.compare(&pictures, &truths).unwrap()[0][3], expected);
        }
    }

    #[test]
    fn a_recorded_frame_takes_the_size_of_the_decoded_one() {
        let mut picture = Picture::filled(4, 2, [10, 20, 30]);
        picture.set_pixel(0, 0, [50, 20, 30]);
        let small = resized(&picture, [2, 1]);
        assert_eq!((small.pixel(0, 0), small.pixel(1, 0)), ([20, 20, 30], [10, 20, 30]));
    }
}
