//! Pictures of several datasets, drawn at random, to train a tokenizer on.

use crate::{Error, Result};
use far_data::{Dataset, Split};
use far_tensor::{Random, Tensor};
use rayon::prelude::*;

/// Sides of a crop are multiples of this, and at most as long.
const MULTIPLE: usize = 16;
const LONGEST: usize = 128;

/// Draws crops of frames of the training split, each dataset as often as any other. A batch is a pure
/// function of seed and number.
///
/// All crops have the size of the smallest frames, whatever dataset they are from, so that every update
/// has the same shapes. Of a larger frame several are taken: decoding it costs more than they do.
pub struct PictureSampler {
    datasets: Vec<Source>,
    /// Width and height of a crop.
    crop: [usize; 2],
    /// Crops of a batch.
    count: usize,
    seed: u64,
}

struct Source {
    dataset: Dataset,
    episodes: Vec<u32>,
    /// Crops taken of a frame: as many as cover it.
    crops: usize,
}

impl PictureSampler {
    /// Batches of as many pixels as `batch` pictures of 128 × 128 have.
    ///
    /// # Errors
    /// If a dataset has no frames to learn from, or they are smaller than 16 pixels.
    pub fn new(datasets: Vec<Dataset>, batch: usize, seed: u64) -> Result<Self> {
        let wrong = |dataset: &Dataset, reason: String| {
            Err(Error::setting("data", format!("{} {reason}", dataset.folder().display())))
        };
        let mut sources = Vec::new();
        let mut crop = [LONGEST; 2];
        for dataset in datasets {
            let description = dataset.description();
            let episodes = dataset.select(None, Split::Train)?;
            let sides = description.resolution.map(|side| side as usize);
            if sides.iter().any(|side| *side < MULTIPLE) {
                return wrong(&dataset, format!("has frames of {sides:?} pixels"));
            }
            let Some(first) = episodes.first() else {
                return wrong(&dataset, "has no training split".to_owned());
            };
            // A dataset without pictures is refused before anything is trained.
            dataset.episode(*first)?.picture(0)?;
            crop = [0, 1].map(|axis| crop[axis].min(sides[axis] / MULTIPLE * MULTIPLE));
            sources.push((dataset, episodes, sides));
        }
        if sources.is_empty() || batch == 0 {
            return Err(Error::setting("data", "there is nothing to learn from".to_owned()));
        }
        let pixels = crop[0] * crop[1];
        let datasets = sources.into_iter().map(|(dataset, episodes, [width, height])| {
            let crops = width * height / pixels;
            Source { dataset, episodes, crops }
        });
        let count = (batch * LONGEST * LONGEST / pixels).max(1);
        Ok(Self { datasets: datasets.collect(), crop, count, seed })
    }

    /// The pictures [N, H, W, 3] in [0, 1] of a batch.
    ///
    /// # Errors
    /// If a frame cannot be read.
    pub fn draw(&self, number: u64) -> Result<Tensor> {
        let mut random = Random::stream(self.seed, "pictures", number);
        let source = &self.datasets[random.below(self.datasets.len())];
        let [width, height] = self.crop;
        let size = width * height * 3;
        let mut frames = Vec::new();
        for first in (0..self.count).step_by(source.crops) {
            let crops = source.crops.min(self.count - first);
            let places = (0..crops).map(|_| [(); 3].map(|()| random.bits())).collect();
            frames.push(Frame { episode: random.bits(), frame: random.bits(), places });
        }
        let mut values = vec![0.0; self.count * size];
        values
            .par_chunks_mut(source.crops * size)
            .zip(frames)
            .try_for_each(|(crops, frame)| source.fill(crops, self.crop, &frame))?;
        Ok(Tensor::from_slice(&values, [self.count, height, width, 3])?)
    }
}

/// A frame that was drawn, and its crops: bits that choose left, top and whether it is turned around.
struct Frame {
    episode: u32,
    frame: u32,
    places: Vec<[u32; 3]>,
}

impl Source {
    /// Writes the crops of one frame, each turned around or not.
    fn fill(&self, crops: &mut [f32], [width, height]: [usize; 2], drawn: &Frame) -> Result<()> {
        let below = |bits: u32, bound: usize| ((u64::from(bits) * bound as u64) >> 32) as usize;
        let episode = self.episodes[below(drawn.episode, self.episodes.len())];
        let episode = self.dataset.episode(episode)?;
        let picture = episode.picture(below(drawn.frame, episode.len()))?;
        let across = picture.width as usize;
        for (values, [x, y, turned]) in
            crops.chunks_exact_mut(3 * width * height).zip(&drawn.places)
        {
            let left = below(*x, across - width + 1);
            let top = below(*y, picture.height as usize - height + 1);
            for (row, line) in values.chunks_exact_mut(3 * width).enumerate() {
                let from = 3 * ((top + row) * across + left);
                let pixels = &picture.pixels[from..from + 3 * width];
                for (column, target) in line.chunks_exact_mut(3).enumerate() {
                    let column = if turned & 1 == 1 { width - 1 - column } else { column };
                    let source = &pixels[3 * column..3 * column + 3];
                    target
                        .iter_mut()
                        .zip(source)
                        .for_each(|(to, from)| *to = f32::from(*from) / 255.0);
                }
            }
        }
        Ok(())
    }
}
