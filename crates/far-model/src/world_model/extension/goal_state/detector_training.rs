//! How a detector of a second agent learns, and when it fires.
//!
//! It is taught by silhouettes, averaged over cells and taken as there from a share on, with more weight
//! for the few cells where they are. From which logit a cell fires, and how many are enough, is chosen on
//! episodes that taught it nothing.

use crate::layer::Pass;
use crate::world_model::extension::goal_state::detector::{
    Description, FRAMES_AT_A_TIME, KIND, Network, firing_cells,
};
use crate::{EncodedDataset, Error, Firing, LatentDetector, Result};
use far_data::Episode;
use far_tensor::{AdamWConfig, ArenaBuilder, Device, Random, Tensor, Trained};
use std::ops::Range;
use std::sync::Arc;

/// Of so many consecutive episodes the last one calibrates and does not teach.
const HELD_OUT: usize = 5;
/// Frames per update: as many with the agent as without, as many of the return as before it.
const BATCH: usize = 32;
/// Learning rate.
const LEARNING_RATE: f32 = 2e-3;
/// How much more a cell with the agent counts.
const POSITIVE_WEIGHT: f32 = 10.0;
/// Logits from which a cell may fire.
const LOGITS: [f32; 13] = [-2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0];

far_memory::settings! {
    /// The settings of an [`LatentDetector`].
    #[derive(Copy)]
    pub struct LatentDetectorConfig {
        /// Updates.
        pub steps: u64 = 1000,
        /// The share of a cell that the silhouette must cover to be in it.
        pub cover: f32 = 0.5,
    }
}

impl LatentDetectorConfig {
    /// Checks the settings.
    ///
    /// # Errors
    /// [`Error::Setting`] with the one that is out of range.
    pub fn check(&self) -> Result<()> {
        if self.cover > 0.0 && self.cover <= 1.0 {
            return Ok(());
        }
        let reason = "it must be a share of a cell".to_owned();
        Err(Error::Setting { setting: "detector.cover", reason })
    }
}

/// A frame to learn from or to calibrate by.
#[derive(Clone)]
struct Example {
    /// Open as long as frames are drawn from it.
    episode: Arc<Episode>,
    frame: usize,
}

/// Frames with the agent and frames without.
#[derive(Default)]
struct Examples {
    with: Vec<Example>,
    without: Vec<Example>,
}

/// Frames to learn from. What is generated are frames of the return, of which there are few: they are
/// drawn as often as those before it.
#[derive(Default)]
struct Lessons {
    explored: Examples,
    returned: Examples,
}

impl Lessons {
    fn draw(&self, place: usize, random: &mut Random) -> Example {
        let [first, second] = match place % 4 {
            0 => [&self.returned.with, &self.explored.with],
            1 => [&self.returned.without, &self.explored.without],
            2 => [&self.explored.with, &self.returned.with],
            _ => [&self.explored.without, &self.returned.without],
        };
        let from = if first.is_empty() { second } else { first };
        from[random.below(from.len())].clone()
    }

    fn with(&self) -> usize {
        self.explored.with.len() + self.returned.with.len()
    }

    fn without(&self) -> usize {
        self.explored.without.len() + self.returned.without.len()
    }
}

impl LatentDetector {
    /// Trains a detector on frames of these episodes and calibrates it on the return frames of every
    /// fifth of them; `progress` hears of every update.
    ///
    /// # Errors
    /// If a setting is out of range, an episode cannot be read, no frame shows an agent, or the loss is
    /// not finite.
    pub fn fit(
        data: &EncodedDataset,
        episodes: &[u32],
        config: LatentDetectorConfig,
        seed: u64,
        device: &Device,
        mut progress: impl FnMut(),
    ) -> Result<Self> {
        config.check()?;
        let latent = data.tokenizer().shape();
        let mut builder = ArenaBuilder::new(KIND);
        let network = Network::new(latent, &mut builder);
        let optimizer = AdamWConfig {
            learning_rate: LEARNING_RATE,
            warm_up: config.steps / 20,
            average_decay: None,
            ..AdamWConfig::default()
        };
        let mut trained = Trained::new(builder.build(seed), optimizer);
        let (mut taught, mut held_out) = (Lessons::default(), Examples::default());
        for (place, id) in episodes.iter().enumerate() {
            // A lone episode has to do for both.
            let is_held_out = place % HELD_OUT == HELD_OUT - 1 || episodes.len() < HELD_OUT;
            let is_taught = place % HELD_OUT < HELD_OUT - 1;
            let episode = Arc::new(data.dataset().episode(*id)?);
            let (frames, boundary) = (episode.len(), episode.boundary());
            if is_taught {
                taught.explored.gather(&episode, 0..boundary);
                taught.returned.gather(&episode, boundary..frames);
            }
            if is_held_out {
                held_out.gather(&episode, boundary..frames);
            }
        }
        let taught_counts = [taught.with(), taught.without()];
        let held_out_counts = [held_out.with.len(), held_out.without.len()];
        for (what, counts) in [("learn", taught_counts), ("be calibrated", held_out_counts)] {
            if counts.contains(&0) {
                let reason =
                    format!("there are no frames with and without an agent to {what} from");
                return Err(Error::Setting { setting: "detector", reason });
            }
        }
        for step in 0..config.steps {
            let mut random = Random::stream(seed, "detector: batch", step);
            let drawn: Vec<Example> =
                (0..BATCH).map(|place| taught.draw(place, &mut random)).collect();
            let (frames, cells) = (images(data, &drawn)?, covered(data, &drawn, config.cover)?);
            let weight = |cell: &f32| 1.0 + (POSITIVE_WEIGHT - 1.0) * cell;
            let weights: Vec<f32> = cells.iter().map(weight).collect();
            let sizes = [drawn.len(), 1, latent.height, latent.width];
            let [cells, weights] =
                [cells, weights].map(|values| Tensor::from_slice(&values, sizes));
            let (cells, weights) = (cells?, weights?);
            device.run(|| {
                trained.step(device, 1, |tape, parameters, _| {
                    let logits = network.forward(&mut Pass::new(tape, parameters), &frames)?;
                    tape.cross_entropy_with_logits(&logits, &cells, Some(&weights))
                })
            })?;
            progress();
        }
        let mut parameters = trained.parameters;
        parameters.freeze();
        let firing = Firing { logit: 0.0, cells: 1 };
        let input = data.tokenizer().recipe();
        let description =
            Description { config, latent, input, firing, recall: 0.0, false_positive: 0.0 };
        let mut detector = Self { description, network, parameters, device: device.clone() };
        detector.calibrate(data, &held_out)?;
        Ok(detector)
    }

    /// Chooses when a frame counts as showing the agent: where recall exceeds false alarms most.
    fn calibrate(&mut self, data: &EncodedDataset, examples: &Examples) -> Result<()> {
        let logits = |examples: &[Example]| -> Result<Vec<Vec<f32>>> {
            let mut frames = Vec::with_capacity(examples.len());
            for part in examples.chunks(FRAMES_AT_A_TIME) {
                let images = images(data, part)?;
                frames.extend(self.image_logits(&images)?);
            }
            Ok(frames)
        };
        let (with, without) = (logits(&examples.with)?, logits(&examples.without)?);
        let (firing, recall, false_positive) = best_firing(&with, &without);
        self.description =
            Description { firing, recall, false_positive, ..self.description.clone() };
        Ok(())
    }
}

impl Examples {
    /// Adds some frames of an episode.
    fn gather(&mut self, episode: &Arc<Episode>, frames: Range<usize>) {
        for frame in frames {
            let shown = episode.agent(frame).visible;
            let side = if shown { &mut self.with } else { &mut self.without };
            side.push(Example { episode: episode.clone(), frame });
        }
    }
}

/// Latents as images [n, C, H, W].
fn images(data: &EncodedDataset, examples: &[Example]) -> Result<Tensor> {
    let shape = data.tokenizer().shape();
    let mut values = Vec::with_capacity(examples.len() * shape.elements());
    for example in examples {
        values.extend(shape.to_image(data.episode(example.episode.id())?.latent(example.frame)));
    }
    let sizes = [examples.len(), shape.channels, shape.height, shape.width];
    Ok(Tensor::from_slice(&values, sizes)?)
}

/// Cells with the agent, [n, H·W] of zeros and ones.
fn covered(data: &EncodedDataset, examples: &[Example], least: f32) -> Result<Vec<f32>> {
    let shape = data.tokenizer().shape();
    let mut cells = Vec::with_capacity(examples.len() * shape.height * shape.width);
    for example in examples {
        let mask = example.episode.silhouette(example.frame)?;
        match mask {
            Some(mask) => {
                cells.extend(shape.cover(&mask).iter().map(|share| f32::from(*share >= least)));
            }
            None => cells.resize(cells.len() + shape.height * shape.width, 0.0),
        }
    }
    Ok(cells)
}

/// The firing with the largest recall − false positives, with both shares. Of equals the logit nearest
/// to 0 wins, then the middle number of cells: it leaves room on both sides.
fn best_firing(with: &[Vec<f32>], without: &[Vec<f32>]) -> (Firing, f64, f64) {
    let cells = with.first().map_or(1, Vec::len);
    let shares = |frames: &[Vec<f32>], logit: f32| -> Vec<f64> {
        let counts: Vec<usize> = frames.iter().map(|frame| firing_cells(frame, logit)).collect();
        let share = |least: usize| counts.iter().filter(|count| **count >= least).count();
        (1..=cells).map(|least| share(least) as f64 / counts.len().max(1) as f64).collect()
    };
    let mut best: Vec<(Firing, f64, f64)> = Vec::new();
    let mut order = LOGITS;
    order.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    for logit in order {
        let pairs = shares(with, logit).into_iter().zip(shares(without, logit));
        for (place, (recall, alarms)) in pairs.enumerate() {
            let gain = recall - alarms;
            let most = best.first().map_or(f64::NEG_INFINITY, |(_, r, a)| r - a);
            if gain > most + 1e-9 {
                best.clear();
            }
            let same = best.first().is_none_or(|(firing, r, a)| {
                firing.logit == logit && (gain - (r - a)).abs() <= 1e-9
            });
            if same {
                best.push((Firing { logit, cells: place + 1 }, recall, alarms));
            }
        }
    }
    best[(best.len() - 1) / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_firing_parts_frames_with_from_frames_without() {
        // With the agent two or three of four cells are loud, without it none or one.
        let with = vec![vec![3.0, 3.0, -3.0, -3.0], vec![3.0, 3.0, 3.0, -3.0]];
        let without = vec![vec![-3.0; 4], vec![3.0, -3.0, -3.0, -3.0]];
        let (firing, recall, alarms) = best_firing(&with, &without);
        assert_eq!((firing, recall, alarms), (Firing { logit: 0.0, cells: 2 }, 1.0, 0.0));
        // Where only faint cells tell, a lower logit is chosen.
        let faint: Vec<Vec<f32>> =
            with.iter().map(|f| f.iter().map(|x| x - 4.2).collect()).collect();
        let quiet = vec![vec![-3.0; 4]; 2];
        let (firing, recall, alarms) = best_firing(&faint, &quiet);
        assert_eq!((firing.logit, recall, alarms), (-1.5, 1.0, 0.0));
    }

    #[test]
    fn a_cover_is_a_share_of_a_cell() {
        LatentDetectorConfig::default().check().unwrap();
        for cover in [0.0, 2.0, f32::NAN] {
            let config = LatentDetectorConfig { cover, ..LatentDetectorConfig::default() };
            let error = config.check().unwrap_err().to_string();
            assert!(error.starts_with("detector.cover"), "{error}");
        }
    }
}
