//! Pictures of several datasets, drawn at random, to train a tokenizer on.

use crate::{Error, Result};
use far_data::{Dataset, Split};
use far_tensor::{Random, Tensor};
use rayon::prelude::*;

/// Sides of a crop are multiples of this, and at most so long.
const MULTIPLE: usize = 16;
const LONGEST: usize = 128;

/// Draws crops of frames of the training split, each dataset as often as any other. A batch is a pure
/// function of seed and number.
///
/// A crop is as large as its frame, up to 128 pixels: a network that was only shown small crops has seen
/// nothing further from an edge than half their side. All crops of a batch have one size, of datasets
/// that share it, and each is of a frame of its own.
pub struct PictureSampler {
    sources: Vec<Source>,
    /// Pixels of a batch.
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
    /// Batches of as many pixels as `batch` pictures of 128 × 128 have.
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
            let crop = sides.map(|side| LONGEST.min(side / MULTIPLE * MULTIPLE));
            sources.push(Source { dataset, episodes, crop });
        }
        if sources.is_empty() || batch == 0 {
            return Err(Error::setting("data", "there is nothing to learn from".to_owned()));
        }
        Ok(Self { sources, pixels: batch * LONGEST * LONGEST, seed })
    }

    /// The pictures [N, H, W, 3] in [0, 1] of a batch.
    ///
    /// # Errors
    /// If a frame cannot be read.
    pub fn draw(&self, number: u64) -> Result<Tensor> {
        let mut random = Random::stream(self.seed, "pictures", number);
        let crop = self.sources[random.below(self.sources.len())].crop;
        let alike: Vec<&Source> =
            self.sources.iter().filter(|source| source.crop == crop).collect();
        let [width, height] = crop;
        let count = self.pixels / (width * height);
        let frames: Vec<(&Source, Drawn)> = (0..count)
            .map(|_| {
                let source = alike[random.below(alike.len())];
                let [episode, frame, left, top, turned] = [(); 5].map(|()| random.bits());
                (source, Drawn { episode, frame, left, top, turned })
            })
            .collect();
        let size = width * height * 3;
        let mut values = vec![0.0; count * size];
        values
            .par_chunks_mut(size)
            .zip(frames)
            .try_for_each(|(values, (source, drawn))| source.fill(values, &drawn))?;
        Ok(Tensor::from_slice(&values, [count, height, width, 3])?)
    }
}

/// Bits that choose a frame, the corner of its crop, and whether it is turned around.
struct Drawn {
    episode: u32,
    frame: u32,
    left: u32,
    top: u32,
    turned: u32,
}

impl Source {
    /// Writes a crop of a frame.
    fn fill(&self, values: &mut [f32], drawn: &Drawn) -> Result<()> {
        let below = |bits: u32, bound: usize| ((u64::from(bits) * bound as u64) >> 32) as usize;
        let episode = self.episodes[below(drawn.episode, self.episodes.len())];
        let episode = self.dataset.episode(episode)?;
        let picture = episode.picture(below(drawn.frame, episode.len()))?;
        let [width, height] = self.crop;
        let across = picture.width as usize;
        let left = below(drawn.left, across - width + 1);
        let top = below(drawn.top, picture.height as usize - height + 1);
        for (row, line) in values.chunks_exact_mut(3 * width).enumerate() {
            let from = 3 * ((top + row) * across + left);
            let pixels = &picture.pixels[from..from + 3 * width];
            for (column, target) in line.chunks_exact_mut(3).enumerate() {
                let column = if drawn.turned & 1 == 1 { width - 1 - column } else { column };
                let source = &pixels[3 * column..3 * column + 3];
                target.iter_mut().zip(source).for_each(|(to, from)| *to = f32::from(*from) / 255.0);
            }
        }
        Ok(())
    }
}
