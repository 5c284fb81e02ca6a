//! Pictures of several datasets, drawn at random, to train a tokenizer on.

use crate::{Error, Result};
use far_data::{Dataset, Split};
use far_tensor::{Random, Tensor};
use rayon::prelude::*;

/// Sides of what is drawn are multiples of this, and at most as long: larger frames are cropped.
const MULTIPLE: usize = 16;
const LONGEST: usize = 128;

/// Draws crops of frames of the training split, each dataset as often as any other. A batch is a pure
/// function of seed and number.
pub struct PictureSampler {
    datasets: Vec<Source>,
    /// Pixels of a batch, so that small frames come in larger batches.
    pixels: usize,
    seed: u64,
}

struct Source {
    dataset: Dataset,
    episodes: Vec<u32>,
    /// Width and height of a crop.
    crop: [usize; 2],
}

impl PictureSampler {
    /// Batches of about `batch` pictures of 128 × 128 pixels.
    ///
    /// # Errors
    /// If a dataset has no frames to learn from, or they are smaller than 16 pixels.
    pub fn new(datasets: Vec<Dataset>, batch: usize, seed: u64) -> Result<Self> {
        let wrong = |dataset: &Dataset, reason: String| {
            Err(Error::setting("data", format!("{} {reason}", dataset.folder().display())))
        };
        let mut sources = Vec::new();
        for dataset in datasets {
            let description = dataset.description();
            let episodes = dataset.select(description.splits[0], Split::Train)?;
            let sides = description.resolution.map(|side| side as usize);
            if sides.iter().any(|side| *side < MULTIPLE) {
                return wrong(&dataset, format!("has frames of {sides:?} pixels"));
            }
            let Some(first) = episodes.first() else {
                return wrong(&dataset, "has no training split".to_owned());
            };
            // A dataset without pictures is refused before anything is trained.
            dataset.episode(*first)?.picture(0)?;
            let crop = sides.map(|side| side.min(LONGEST) / MULTIPLE * MULTIPLE);
            sources.push(Source { dataset, episodes, crop });
        }
        if sources.is_empty() || batch == 0 {
            return Err(Error::setting("data", "there is nothing to learn from".to_owned()));
        }
        Ok(Self { datasets: sources, pixels: batch * LONGEST * LONGEST, seed })
    }

    /// The pictures [N, H, W, 3] in [0, 1] of a batch.
    ///
    /// # Errors
    /// If a frame cannot be read.
    pub fn draw(&self, number: u64) -> Result<Tensor> {
        let mut random = Random::stream(self.seed, "pictures", number);
        let source = &self.datasets[random.below(self.datasets.len())];
        let [width, height] = source.crop;
        let count = (self.pixels / (width * height)).max(1);
        let size = width * height * 3;
        let draws: Vec<[u32; 5]> = (0..count).map(|_| [(); 5].map(|()| random.bits())).collect();
        let mut values = vec![0.0; count * size];
        values
            .par_chunks_exact_mut(size)
            .zip(draws)
            .try_for_each(|(values, draw)| source.fill(values, draw))?;
        Ok(Tensor::from_slice(&values, [count, height, width, 3])?)
    }
}

impl Source {
    /// Writes one crop, turned around or not.
    fn fill(&self, values: &mut [f32], [episode, frame, x, y, turned]: [u32; 5]) -> Result<()> {
        let below = |bits: u32, bound: usize| ((u64::from(bits) * bound as u64) >> 32) as usize;
        let episode = self.episodes[below(episode, self.episodes.len())];
        let episode = self.dataset.episode(episode)?;
        let picture = episode.picture(below(frame, episode.len()))?;
        let [width, height] = self.crop;
        let left = below(x, picture.width as usize - width + 1);
        let top = below(y, picture.height as usize - height + 1);
        for (row, line) in values.chunks_exact_mut(3 * width).enumerate() {
            let from = 3 * ((top + row) * picture.width as usize + left);
            let pixels = &picture.pixels[from..from + 3 * width];
            for (column, target) in line.chunks_exact_mut(3).enumerate() {
                let column = if turned & 1 == 1 { width - 1 - column } else { column };
                let source = &pixels[3 * column..3 * column + 3];
                target.iter_mut().zip(source).for_each(|(to, from)| *to = f32::from(*from) / 255.0);
            }
        }
        Ok(())
    }
}
