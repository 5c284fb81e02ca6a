//! Training a tokenizer of the TAESD family from scratch.
//!
//! The loss of pictures x with latents z = E(x) and x̂ = D(z + noise): the mean of |x̂ − x|, a perceptual
//! loss where its network is there, and Σ over channels of (mean z)² + (mean z² − 1)², which keeps latents
//! near unit variance. The noise makes the decoder forgive what a world model gets slightly wrong, and
//! keeps the encoder from hiding things in digits that no one can predict.

use super::autoencoder_network::AutoencoderNetwork;
use super::taesd_network::{TaesdNetwork, TaesdStructure};
use crate::layer::Pass;
use crate::{PerceptualLoss, Result};
use far_tensor::{
    AdamWConfig, ArenaBuilder, Checkpoint, CheckpointWriter, Device, Random, Tape, Tensor, Trained,
};
use std::path::Path;

/// Differences below this, one step of 8 bits, count quadratically.
const SMALLEST: f32 = 1.0 / 255.0;
/// Deviation of the noise that is added to latents.
const NOISE: f32 = 0.05;
/// Weights of the perceptual loss and of the variance. The first is quadratic in what is wrong, so that it would
/// not count beside the absolute difference once pictures are close.
const PERCEPTUAL_WEIGHT: f32 = 0.25;
const SPREAD_WEIGHT: f32 = 0.02;
/// Names in checkpoints begin so.
const PREFIX: &str = "tokenizer.";

/// The terms of the loss before their weights.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TaesdLosses {
    /// Mean absolute difference of colors in [0, 1].
    pub absolute: f32,
    /// How differently the pictures look, or 0 without a network that sees.
    pub perceptual: f32,
    /// How far latents are from unit variance.
    pub spread: f32,
}

/// A tokenizer in training.
pub struct TaesdTraining {
    network: TaesdNetwork,
    trained: Trained,
    perceptual: Option<PerceptualLoss>,
    seed: u64,
    device: Device,
}

impl TaesdTraining {
    /// Begins with random weights; the rate falls to zero over so many updates.
    pub fn new(
        structure: TaesdStructure,
        learning_rate: f32,
        updates: u64,
        seed: u64,
        perceptual: Option<PerceptualLoss>,
        device: &Device,
    ) -> Self {
        let mut builder = ArenaBuilder::new("tokenizer");
        let network = TaesdNetwork::new(structure, &mut builder);
        let optimizer = AdamWConfig {
            learning_rate,
            warm_up: 200,
            cosine_until: Some(updates),
            average_decay: Some(0.999),
            ..AdamWConfig::default()
        };
        let trained = Trained::new(builder.build(seed), optimizer);
        Self { network, trained, perceptual, seed, device: device.clone() }
    }

    /// Updates made so far.
    pub fn done(&self) -> u64 {
        self.trained.optimizer.updates()
    }

    /// One update from pictures [N, H, W, 3] in [0, 1], whose sides are multiples of 8.
    ///
    /// # Errors
    /// If the loss is not finite; nothing has changed then.
    pub fn step(&mut self, pictures: &Tensor) -> Result<TaesdLosses> {
        let (seed, number) = (self.seed, self.done());
        let Self { network, trained, perceptual, device, .. } = self;
        let mut terms = None;
        device.clone().run(|| {
            trained.step(device, 1, |tape, parameters, _| {
                let noise = Random::stream(seed, "latent noise", number);
                let perceptual = perceptual.as_ref();
                let pass = &mut Pass::new(tape, parameters);
                let losses = losses(network, pass, pictures, &noise, perceptual)?;
                let [absolute, seen, spread] = &losses;
                let total = tape.weighted_sum(absolute, 1.0, seen, PERCEPTUAL_WEIGHT)?;
                let total = tape.weighted_sum(&total, 1.0, spread, SPREAD_WEIGHT)?;
                terms = Some(losses.map(|term| term.detach()));
                Ok(total)
            })
        })?;
        let terms = terms.expect("a step that succeeded has computed its loss");
        let mut values = [0.0; 3];
        for (value, term) in values.iter_mut().zip(&terms) {
            *value = term.item()?;
        }
        let [absolute, perceptual, spread] = values;
        Ok(TaesdLosses { absolute, perceptual, spread })
    }

    /// Adds everything that the training needs to go on to a checkpoint.
    pub fn keep<'a>(&'a self, writer: CheckpointWriter<'a>) -> CheckpointWriter<'a> {
        self.trained.save(PREFIX, writer)
    }

    /// Takes everything back from a checkpoint.
    ///
    /// # Errors
    /// If it comes from another network.
    pub fn go_on(&mut self, checkpoint: &mut Checkpoint) -> Result<()> {
        Ok(self.trained.load(PREFIX, checkpoint)?)
    }

    /// Writes the moving average of the weights as a tokenizer, in 16 bits.
    ///
    /// # Errors
    /// If a weight is not finite or the system refuses.
    pub fn save(&self, path: &Path) -> Result<()> {
        let average = self.trained.optimizer.average().expect("it was asked for");
        let averaged = self.trained.parameters.with_values(average)?;
        Ok(CheckpointWriter::new().parameters("", &averaged).half().save(path)?)
    }
}

/// The terms of the loss, as scalars.
fn losses(
    network: &TaesdNetwork,
    pass: &mut Pass<'_>,
    pictures: &Tensor,
    noise: &Random,
    perceptual: Option<&PerceptualLoss>,
) -> far_tensor::Result<[Tensor; 3]> {
    let latents = network.encode(pass, pictures)?;
    let spread = spread(pass, &latents)?;
    let mut values = vec![0.0; latents.shape().elements()];
    noise.fill_normal(&mut values);
    let noise = Tensor::from_slice(&values, *latents.shape())?;
    let noisy = pass.weighted_sum(&latents, 1.0, &noise, NOISE)?;
    let decoded = network.decode(pass, &noisy)?;
    let absolute = pass.smooth_l1(&decoded, pictures, SMALLEST, None)?;
    let seen = match perceptual {
        Some(perceptual) => perceptual.loss(pass, &decoded, pictures)?,
        None => Tensor::zeros([0usize; 0]),
    };
    Ok([absolute, seen, spread])
}

/// Σ over channels of (mean z)² + (mean z² − 1)² of latents [N, h, w, C].
fn spread(tape: &mut Tape, latents: &Tensor) -> far_tensor::Result<Tensor> {
    let rows = latents.reshape([latents.shape().rows(), latents.shape().last()])?;
    let mean = tape.mean_axis(&rows, 0)?;
    let squares = tape.multiply(&rows, &rows)?;
    let power = tape.mean_axis(&squares, 0)?;
    let excess = tape.affine(&power, 1.0, -1.0)?;
    let mean = tape.multiply(&mean, &mean)?;
    let excess = tape.multiply(&excess, &excess)?;
    let both = tape.add(&mean, &excess)?;
    tape.sum(&both)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Autoencoder, AutoencoderConfig, AutoencoderStructure};

    const SMALL: TaesdStructure =
        TaesdStructure { channels: 4, width: 8, blocks: [1, 1], looks_at_all: false };

    fn pictures() -> Tensor {
        let values: Vec<f32> = (0..2 * 16 * 16 * 3)
            .map(|place| 0.5 + 0.4 * ((place / 3 % 16) as f32 * 0.4 + (place % 3) as f32).sin())
            .collect();
        Tensor::from_slice(&values, [2, 16, 16, 3]).unwrap()
    }

    #[test]
    fn the_spread_is_as_computed_by_hand() {
        let latents = Tensor::from_slice(&[1.0, 2.0, 3.0, -2.0], [1, 1, 2, 2]).unwrap();
        let mut tape = Tape::inference(&Device::cpu());
        let found = spread(&mut tape, &latents).unwrap().item().unwrap();
        // Means 2 and 0, mean squares 5 and 4.
        assert!((found - (4.0 + 16.0 + 0.0 + 9.0)).abs() < 1e-5, "{found}");
    }

    #[test]
    fn a_small_one_learns_and_its_file_opens() {
        let device = Device::cpu();
        let mut training = TaesdTraining::new(SMALL, 3e-3, 200, 1, None, &device);
        let first = training.step(&pictures()).unwrap();
        let mut last = first;
        for _ in 0..120 {
            last = training.step(&pictures()).unwrap();
        }
        assert!(last.absolute < 0.4 * first.absolute, "{first:?} {last:?}");
        assert!(last.spread < 2.0, "{last:?}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own.safetensors");
        training.save(&path).unwrap();
        let config =
            AutoencoderConfig { weights: path.display().to_string(), resolution: [16, 16] };
        let tokenizer = Autoencoder::load(config, &device).unwrap();
        assert_eq!(*tokenizer.structure(), AutoencoderStructure::Taesd(SMALL));
        let bytes = std::fs::metadata(&path).unwrap().len() as usize;
        assert!(bytes < 2 * training.trained.parameters.count() + 8192, "{bytes} for 16 bits each");
    }

    #[test]
    fn a_training_goes_on_where_it_stopped() {
        let device = Device::cpu();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let begin = || TaesdTraining::new(SMALL, 3e-3, 4, 1, None, &device);
        let steps = |training: &mut TaesdTraining, count: u64| {
            (0..count).map(|_| training.step(&pictures()).unwrap().absolute).sum::<f32>()
        };
        let mut whole = begin();
        steps(&mut whole, 4);
        let mut first = begin();
        steps(&mut first, 2);
        first.keep(CheckpointWriter::new()).save(&path).unwrap();
        let mut second = begin();
        second.go_on(&mut Checkpoint::open(&path).unwrap()).unwrap();
        steps(&mut second, 2);
        assert_eq!(whole.trained.parameters.values(), second.trained.parameters.values());
    }
}
