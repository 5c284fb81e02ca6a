//! The autoencoder of LongLive-RAG: embeddings of frames that can be turned back into them.
//!
//! Down: stages of convolutions over the latent as an image, GroupNorm and SiLU, the mean over
//! places, a linear map to the embedding. Up: a linear map with SiLU, the stages in reverse, cut to
//! the size of the latent. Over windows of consecutive frames with embeddings e, the loss is the sum
//! of
//! - the mean squared error of the latents,
//! - max(0, cos(e_t, e_{t−k}) − margin), the mean over frames, then over lags k: neighbors must differ,
//! - ‖e_{t+1} − 2e_t + e_{t−1}‖, the mean over frames: but they must change evenly.

use crate::encoder::longlive_network::{DecoderNetwork, EncoderNetwork, LongLiveShape};
use crate::layer::Pass;
use crate::{Error, LatentShape, LongLiveEncoder, Result};
use far_tensor::{Activation, AdamWConfig, ArenaBuilder, Device, Tape, Tensor, Trained};

/// What is added to a squared length, so that its root has a slope at zero.
const LEAST_SQUARE: f32 = 1e-8;

/// The cosine up to which neighbors may be alike; this and the next five are the authors'.
const MARGIN: f32 = 0.85;
/// How far apart neighbors may be, in frames of a window.
const LAGS: usize = 3;
/// Weight of the neighbors' term.
const DIFFERENCE_WEIGHT: f32 = 1.0;
/// Learning rate, without warm-up.
const LEARNING_RATE: f32 = 3e-4;
/// Decoupled weight decay.
const WEIGHT_DECAY: f32 = 1e-4;
/// Largest global gradient norm.
const CLIP: f32 = 1.0;

far_memory::settings! {
    /// The settings of the autoencoder and of its training; the defaults are its authors'.
    pub struct LongLiveConfig {
        /// Channels of the stages. A stage halves the map until one place is left; later ones keep it.
        pub widths: Vec<usize> = vec![64, 128, 256],
        /// Numbers of an embedding.
        pub embedding: usize = 1024,
        /// Weight of the evenness of change.
        pub smoothness_weight: f32 = 1.0,
        /// Windows per update.
        pub batch: usize = 128,
        /// Updates. The authors train for 400 passes over their data.
        pub steps: u64 = 20_000,
    }
}

/// The terms of the loss, before their weights, and the weighted sum.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LongLiveLosses {
    /// The weighted sum.
    pub total: f32,
    /// Mean squared error of the latents.
    pub reconstruction: f32,
    /// How much neighbors are alike above the margin.
    pub difference: f32,
    /// How unevenly embeddings change.
    pub smoothness: f32,
}

/// The autoencoder with its optimizer.
pub struct LongLiveAutoencoder {
    config: LongLiveConfig,
    shape: LongLiveShape,
    network: Network,
    trained: Trained,
    device: Device,
}

/// Both halves.
struct Network {
    encoder: EncoderNetwork,
    decoder: DecoderNetwork,
}

impl LongLiveAutoencoder {
    /// Begins a training on latents of this shape.
    ///
    /// # Errors
    /// If a setting makes no network.
    pub fn new(
        config: LongLiveConfig,
        latent: LatentShape,
        seed: u64,
        device: &Device,
    ) -> Result<Self> {
        let (widths, embedding) = (config.widths.clone(), config.embedding);
        let shape = LongLiveShape { latent, widths, embedding };
        let mut builder = ArenaBuilder::new("longlive autoencoder");
        let encoder = EncoderNetwork::new(&shape, &mut builder)?;
        let decoder = DecoderNetwork::new(&shape, &mut builder);
        let optimizer = AdamWConfig {
            learning_rate: LEARNING_RATE,
            weight_decay: WEIGHT_DECAY,
            clip: Some(CLIP),
            epsilon: 1e-8,
            warm_up: 0,
            average_decay: None,
            ..AdamWConfig::default()
        };
        let trained = Trained::new(builder.build(seed), optimizer);
        let network = Network { encoder, decoder };
        Ok(Self { config, shape, network, trained, device: device.clone() })
    }

    /// One update from windows of as many consecutive frames each: [windows, frames, E] as tokens.
    ///
    /// # Errors
    /// If the frames cannot be shared out evenly, or the loss is not finite; nothing has changed
    /// then.
    pub fn step(&mut self, frames: &[f32], windows: usize) -> Result<LongLiveLosses> {
        let images = self.images(frames, windows)?;
        let Self { config, network, trained, device, .. } = self;
        let mut losses = LongLiveLosses::default();
        device.clone().run(|| {
            trained.step(device, 1, |tape, parameters, _| {
                let (total, terms) =
                    network.losses(&mut Pass::new(tape, parameters), &images, windows, config)?;
                losses = terms;
                Ok(total)
            })
        })?;
        Ok(losses)
    }

    /// The loss of windows, without an update.
    ///
    /// # Errors
    /// If the frames cannot be shared out evenly.
    pub fn losses(&self, frames: &[f32], windows: usize) -> Result<LongLiveLosses> {
        let images = self.images(frames, windows)?;
        let mut tape = Tape::inference(&self.device);
        let pass = &mut Pass::new(&mut tape, &self.trained.parameters);
        Ok(self.network.losses(pass, &images, windows, &self.config)?.1)
    }

    fn images(&self, frames: &[f32], windows: usize) -> Result<Tensor> {
        let latent = self.shape.latent;
        let window = windows.max(1) * latent.elements();
        let expected = (frames.len() / window).max(1) * window;
        Error::check_length("the windows", frames.len(), expected)?;
        Ok(latent.images(frames.chunks_exact(latent.elements()))?)
    }

    /// The encoder as it is now, frozen.
    ///
    /// # Errors
    /// If the engine refuses.
    pub fn encoder(&self) -> Result<LongLiveEncoder> {
        LongLiveEncoder::new(self.shape.clone(), &self.trained.parameters, &self.device)
    }
}

impl Network {
    /// The weighted loss of images [windows · frames, C, H, W], and its terms.
    fn losses(
        &self,
        pass: &mut Pass<'_>,
        images: &Tensor,
        windows: usize,
        config: &LongLiveConfig,
    ) -> far_tensor::Result<(Tensor, LongLiveLosses)> {
        let embeddings = self.encoder.forward(pass, images)?;
        let decoded = self.decoder.forward(pass, &embeddings)?;
        let reconstruction = pass.squared_error(&decoded, images, None)?;
        let sizes = [windows, embeddings.shape().rows() / windows, embeddings.shape().last()];
        let embeddings = embeddings.reshape(sizes)?;
        let difference = neighbor_likeness(pass, &embeddings)?;
        let smoothness = unevenness(pass, &embeddings)?;
        let total = pass.weighted_sum(&reconstruction, 1.0, &difference, DIFFERENCE_WEIGHT)?;
        let total = pass.weighted_sum(&total, 1.0, &smoothness, config.smoothness_weight)?;
        let losses = LongLiveLosses {
            total: total.item()?,
            reconstruction: reconstruction.item()?,
            difference: difference.item()?,
            smoothness: smoothness.item()?,
        };
        Ok((total, losses))
    }
}

/// max(0, cos(e_t, e_{t−k}) − margin) of embeddings [B, S, D]: the mean over frames for each lag k,
/// then over lags; 0 where a window has one frame.
fn neighbor_likeness(tape: &mut Tape, embeddings: &Tensor) -> far_tensor::Result<Tensor> {
    let [frames, width] = [embeddings.shape().extents()[1], embeddings.shape().last()];
    let lags = LAGS.min(frames - 1);
    let mut mean = Tensor::zeros([0usize; 0]);
    for lag in 1..=lags {
        let later = tape.slice(embeddings, 1, lag..frames)?;
        let earlier = tape.slice(embeddings, 1, 0..frames - lag)?;
        let pairs = later.shape().rows();
        let (later, earlier) =
            (later.reshape([pairs, width])?, earlier.reshape([pairs, 1, width])?);
        let cosine = tape.cosine(&later, &earlier, 1e-8)?;
        let above = tape.affine(&cosine, 1.0, -MARGIN)?;
        let above = tape.activate(&above, Activation::Relu)?;
        let penalty = tape.mean(&above)?;
        mean = tape.weighted_sum(&mean, 1.0, &penalty, 1.0 / lags as f32)?;
    }
    Ok(mean)
}

/// ‖e_{t+1} − 2e_t + e_{t−1}‖ of embeddings [B, S, D], the mean over frames; 0 where a window has
/// fewer than three.
fn unevenness(tape: &mut Tape, embeddings: &Tensor) -> far_tensor::Result<Tensor> {
    let frames = embeddings.shape().extents()[1];
    if frames < 3 {
        return Ok(Tensor::zeros([0usize; 0]));
    }
    let after = tape.slice(embeddings, 1, 2..frames)?;
    let middle = tape.slice(embeddings, 1, 1..frames - 1)?;
    let before = tape.slice(embeddings, 1, 0..frames - 2)?;
    let ends = tape.add(&after, &before)?;
    let change = tape.weighted_sum(&ends, 1.0, &middle, -2.0)?;
    let squares = tape.multiply(&change, &change)?;
    let squares = tape.sum_axis(&squares, 2)?;
    // The root as exp(½·log x).
    let logarithm = tape.affine(&squares, 1.0, LEAST_SQUARE)?;
    let logarithm = tape.activate(&logarithm, Activation::Log)?;
    let half = tape.affine(&logarithm, 0.5, 0.0)?;
    let lengths = tape.activate(&half, Activation::Exp)?;
    tape.mean(&lengths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use far_tensor::{Checkpoint, Initialization, Matching, Random};

    /// Both terms of embeddings [1, 3, 2].
    fn temporal(values: &[f32]) -> [f32; 2] {
        let mut tape = Tape::inference(&Device::cpu());
        let embeddings = Tensor::from_slice(values, [1, 3, 2]).unwrap();
        let likeness = neighbor_likeness(&mut tape, &embeddings).unwrap();
        [likeness.item().unwrap(), unevenness(&mut tape, &embeddings).unwrap().item().unwrap()]
    }

    #[test]
    fn terms_are_as_computed_by_hand() {
        // Lag 1: cosines 1 and 0, so (0.15 + 0)/2; lag 2: cosine 0. No window has lag 3.
        let [likeness, unevenness] = temporal(&[1.0, 0.0, 2.0, 0.0, 0.0, 3.0]);
        assert!((likeness - 0.0375).abs() < 1e-6, "{likeness}");
        // (0, 3) − 2·(2, 0) + (1, 0) = (−3, 3).
        assert!((unevenness - 18f32.sqrt()).abs() < 1e-5, "{unevenness}");
        assert!(temporal(&[1.0, 0.0, 2.0, 0.0, 3.0, 0.0])[1] < 2e-4, "even change costs nothing");
    }

    #[test]
    fn windows_too_short_for_a_term_have_none() {
        let mut tape = Tape::inference(&Device::cpu());
        let one = Tensor::from_slice(&[1.0, 2.0], [1, 1, 2]).unwrap();
        assert_eq!(neighbor_likeness(&mut tape, &one).unwrap().item().unwrap(), 0.0);
        assert_eq!(unevenness(&mut tape, &one).unwrap().item().unwrap(), 0.0);
    }

    #[test]
    fn gradients_of_the_terms_match_differences() {
        let mut values = [0.0; 12];
        Random::stream(4, "embeddings", 0).fill_normal(&mut values);
        // The first two of each window lie close, so that the hinge is open.
        for start in [0, 6] {
            values[start + 2] = values[start] + 0.1;
            values[start + 3] = values[start + 1] - 0.1;
        }
        let total = |tape: &mut Tape, embeddings: &Tensor| {
            let likeness = neighbor_likeness(tape, embeddings).unwrap();
            let unevenness = unevenness(tape, embeddings).unwrap();
            tape.weighted_sum(&likeness, 3.0, &unevenness, 0.5).unwrap()
        };
        let mut tape = Tape::recording(&Device::cpu());
        let embeddings = tape.variable(&Tensor::from_slice(&values, [2, 3, 2]).unwrap());
        let loss = total(&mut tape, &embeddings);
        let gradients = tape.backward(&loss, 1.0, &mut []).unwrap();
        let found = gradients.of(&embeddings).unwrap();
        for place in 0..12 {
            let [more, less] = [1e-3, -1e-3].map(|change| {
                let mut moved = values;
                moved[place] += change;
                let mut tape = Tape::inference(&Device::cpu());
                let embeddings = Tensor::from_slice(&moved, [2, 3, 2]).unwrap();
                total(&mut tape, &embeddings).item().unwrap()
            });
            let slope = (more - less) / 2e-3;
            assert!((slope - found[place]).abs() < 5e-3, "{place}: {slope} {}", found[place]);
        }
    }
    /// Against `scripts/make_longlive_fixtures.py`: two windows of five frames of an odd size.
    #[test]
    fn losses_and_gradients_agree_with_pytorch() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/longlive.safetensors");
        let mut file = Checkpoint::open(path.as_ref()).unwrap();
        let mut stored = |name: &str, shape: &[usize]| {
            let mut builder = ArenaBuilder::new("stored");
            let id = builder.parameter(name, shape, Initialization::Zero);
            let mut parameters = builder.build(0);
            file.load_parameters("", &mut parameters, Matching::Strict).unwrap();
            parameters.tensor(id).detach()
        };
        let [images, embeddings, losses] =
            [("images", &[10, 3, 5, 6][..]), ("embeddings", &[10, 7]), ("losses", &[4])]
                .map(|(name, shape)| stored(name, shape));
        let config =
            LongLiveConfig { widths: vec![4, 8, 12], embedding: 7, ..LongLiveConfig::default() };
        let latent = LatentShape { channels: 3, height: 5, width: 6, patch: 1 };
        let [learner, expected] = ["weight.", "gradient."].map(|prefix| {
            let config = config.clone();
            let mut learner = LongLiveAutoencoder::new(config, latent, 0, &Device::cpu()).unwrap();
            let parameters = &mut learner.trained.parameters;
            file.load_parameters(prefix, parameters, Matching::Strict).unwrap();
            learner
        });
        let (network, parameters) = (&learner.network, &learner.trained.parameters);
        let near = |name: &str, found: &[f32], expected: &[f32], tolerance: f32| {
            for (place, (a, b)) in found.iter().zip(expected).enumerate() {
                assert!((a - b).abs() <= tolerance, "{name} {place}: {a}, not {b}");
            }
        };
        let mut tape = Tape::recording(&Device::cpu());
        let found =
            network.encoder.forward(&mut Pass::new(&mut tape, parameters), &images).unwrap();
        near("embeddings", found.values(), embeddings.values(), 2e-5);

        let mut tape = Tape::recording(&Device::cpu());
        let (total, found) =
            network.losses(&mut Pass::new(&mut tape, parameters), &images, 2, &config).unwrap();
        let found = [found.total, found.reconstruction, found.difference, found.smoothness];
        near("losses", &found, losses.values(), 2e-5);
        let mut gradients = parameters.gradients();
        tape.backward(&total, 1.0, &mut [&mut gradients]).unwrap();
        let flat = gradients.completed();
        let largest = flat.iter().fold(0f32, |largest, value| largest.max(value.abs()));
        near("gradients", flat, expected.trained.parameters.values(), 2e-4 * largest);
    }
}
