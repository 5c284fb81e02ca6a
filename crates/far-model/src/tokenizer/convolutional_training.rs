//! Training of the convolutional tokenizer: mean squared error of pictures in [−1, 1], AdamW.

use super::convolutional::{ConvolutionalNetwork, picture_tensor};
use super::spread::spread_frames;
use super::{Convolutional, ConvolutionalConfig, area_resize};
use crate::{Error, Result};
use far_data::{Dataset, Picture};
use far_tensor::{
    AdamWConfig, ArenaBuilder, Checkpoint, CheckpointWriter, Device, Random, Step, Tape, Tensor,
    Trained,
};
use serde::{Deserialize, Serialize};

/// Names in checkpoints begin so.
const PREFIX: &str = "tokenizer.";
/// A deviation below this is that of a channel which says nothing; it is left as it is.
const LEAST_DEVIATION: f64 = 1e-6;

/// The settings of the training.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConvolutionalTrainingConfig {
    /// Training frames, evenly spread; they are held in memory at the tokenizer's resolution.
    pub frames: usize,
    /// Updates.
    pub steps: u64,
    /// Pictures per update.
    pub batch: usize,
    /// The learning rate, reached after the first twentieth of the updates.
    pub learning_rate: f32,
}

impl Default for ConvolutionalTrainingConfig {
    fn default() -> Self {
        Self { frames: 2_000, steps: 1_500, batch: 16, learning_rate: 2e-3 }
    }
}

/// A tokenizer that learns.
pub struct ConvolutionalTraining {
    config: ConvolutionalConfig,
    network: ConvolutionalNetwork,
    trained: Trained,
    device: Device,
}

impl ConvolutionalTraining {
    /// Begins a training.
    ///
    /// # Errors
    /// If the settings do not fit together.
    pub fn new(
        config: ConvolutionalConfig,
        training: &ConvolutionalTrainingConfig,
        seed: u64,
        device: &Device,
    ) -> Result<Self> {
        let mut builder = ArenaBuilder::new("tokenizer");
        let network = ConvolutionalNetwork::new(&config, &mut builder)?;
        let optimizer = AdamWConfig {
            learning_rate: training.learning_rate,
            warm_up: training.steps / 20,
            average_decay: None,
            ..AdamWConfig::default()
        };
        let trained = Trained::new(builder.build(seed), optimizer);
        Ok(Self { config, network, trained, device: device.clone() })
    }

    /// One update from pictures of any size. `weights`, if given, say how much each pixel counts, at
    /// the tokenizer's resolution: [pictures, height, width], best with a mean of 1.
    ///
    /// # Errors
    /// If there is no picture, the weights do not fit, or the loss is not finite; nothing has
    /// changed then.
    pub fn step(&mut self, pictures: &[Picture], weights: Option<&[f32]>) -> Result<Step> {
        let resolution = self.config.resolution;
        let planes: Vec<_> =
            pictures.iter().map(|picture| area_resize(picture, resolution)).collect();
        self.step_planes(&planes, weights)
    }

    fn step_planes(&mut self, planes: &[Vec<f32>], weights: Option<&[f32]>) -> Result<Step> {
        let target = picture_tensor(planes, self.config.resolution)?;
        let pixels: usize = self.config.resolution.iter().product();
        let weights = weights.map(|weights| -> Result<Tensor> {
            Error::check_length("the weights of pixels", weights.len(), planes.len() * pixels)?;
            let by_color: Vec<f32> =
                weights.chunks_exact(pixels).flat_map(|picture| picture.repeat(3)).collect();
            Ok(Tensor::from_slice(&by_color, *target.shape())?)
        });
        let weights = weights.transpose()?;
        let Self { network, trained, device, .. } = self;
        let step = device.clone().run(|| {
            trained.step(device, 1, |tape, parameters, _| {
                let latents = network.encode(tape, parameters, &target)?;
                let pictures = network.decode(tape, parameters, &latents)?;
                tape.squared_error(&pictures, &target, weights.as_ref())
            })
        })?;
        Ok(step)
    }

    /// Ends the training: measures the latents of a sample of pictures and gives the tokenizer.
    ///
    /// # Errors
    /// If there is no picture.
    pub fn finish(self, sample: &[Picture]) -> Result<Convolutional> {
        let resolution = self.config.resolution;
        let planes: Vec<_> =
            sample.iter().map(|picture| area_resize(picture, resolution)).collect();
        self.finish_planes(&planes)
    }

    fn finish_planes(self, sample: &[Vec<f32>]) -> Result<Convolutional> {
        let shape = self.config.shape()?;
        let places = shape.height * shape.width;
        // Count, sum and sum of squares by channel.
        let mut sums = vec![[0.0f64; 3]; shape.channels];
        for part in sample.chunks(32) {
            let mut tape = Tape::inference(&self.device);
            let pictures = picture_tensor(part, self.config.resolution)?;
            let latents = self.network.encode(&mut tape, &self.trained.parameters, &pictures)?;
            for (row, values) in latents.values().chunks_exact(places).enumerate() {
                let [count, sum, squares] = &mut sums[row % shape.channels];
                for value in values.iter().map(|value| f64::from(*value)) {
                    *count += 1.0;
                    *sum += value;
                    *squares += value * value;
                }
            }
        }
        if sample.is_empty() {
            let reason = "there are no frames to measure the latents of".to_owned();
            return Err(Error::Setting { setting: "data", reason });
        }
        let (mean, deviation): (Vec<f32>, Vec<f32>) = sums
            .iter()
            .map(|[count, sum, squares]| {
                let mean = sum / count;
                let deviation = (squares / count - mean * mean).max(0.0).sqrt();
                let deviation = if deviation < LEAST_DEVIATION { 1.0 } else { deviation };
                (mean as f32, deviation as f32)
            })
            .unzip();
        let mut parameters = self.trained.parameters;
        let [mean_id, deviation_id] = self.network.statistics;
        parameters.set(mean_id, &mean)?;
        parameters.set(deviation_id, &deviation)?;
        self.device.run(|| Convolutional::new(self.config, self.network, parameters, &self.device))
    }

    /// Adds everything that the training needs to go on to a checkpoint.
    pub fn save<'a>(&'a self, writer: CheckpointWriter<'a>) -> CheckpointWriter<'a> {
        self.trained.save(PREFIX, writer)
    }

    /// Takes everything back from a checkpoint.
    ///
    /// # Errors
    /// If it comes from another network.
    pub fn load(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        Ok(self.trained.load(PREFIX, checkpoint)?)
    }

    /// Updates made so far.
    pub fn updates(&self) -> u64 {
        self.trained.optimizer.updates()
    }
}

impl Convolutional {
    /// Trains a tokenizer on frames of these episodes; `progress` hears of every update.
    ///
    /// # Errors
    /// If the settings do not fit together, a frame has no picture, or the loss is not finite.
    pub fn fit(
        dataset: &Dataset,
        episodes: &[u32],
        config: ConvolutionalConfig,
        training: &ConvolutionalTrainingConfig,
        seed: u64,
        device: &Device,
        mut progress: impl FnMut(&Step),
    ) -> Result<Self> {
        let resolution = config.resolution;
        let mut learner = ConvolutionalTraining::new(config, training, seed, device)?;
        let resize = |picture: &Picture| area_resize(picture, resolution);
        let frames = spread_frames(dataset, episodes, training.frames, resize)?;
        for step in 0..training.steps {
            let mut random = Random::stream(seed, "tokenizer: batch", step);
            let batch: Vec<Vec<f32>> =
                (0..training.batch).map(|_| frames[random.below(frames.len())].clone()).collect();
            progress(&learner.step_planes(&batch, None)?);
        }
        learner.finish_planes(&frames)
    }
}
