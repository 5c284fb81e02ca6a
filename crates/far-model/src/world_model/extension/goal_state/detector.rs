//! Who is in a latent: a small network that tells in which cells of a frame a second agent shows.
//!
//! 3×3 convolution, ReLU, 3×3 convolution, ReLU, 1×1 convolution: a logit per cell of the latent. A frame
//! shows the agent when enough cells fire.

use crate::layer::Pass;
use crate::weight_file::{self, WeightFile};
use crate::{Error, LatentDetectorConfig, LatentShape, Result};
use far_tensor::{
    Activation, ArenaBuilder, Device, Initialization, Padding, ParameterId, Parameters, Tape,
    Tensor,
};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What files call it.
pub(crate) const KIND: &str = "agent-detector";
/// Channels between the convolutions.
const WIDTH: usize = 32;
/// Frames looked at together.
pub(crate) const FRAMES_AT_A_TIME: usize = 64;

/// When a frame counts as showing the agent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Firing {
    /// A cell fires above this logit.
    pub logit: f32,
    /// So many firing cells make a frame show the agent.
    pub cells: usize,
}

/// Everything about a detector but its weights.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Description {
    pub(crate) config: LatentDetectorConfig,
    pub(crate) latent: LatentShape,
    pub(crate) input: String,
    pub(crate) firing: Firing,
    pub(crate) recall: f64,
    pub(crate) false_positive: f64,
}

/// Weight and bias of the three convolutions.
pub(crate) struct Network([[ParameterId; 2]; 3]);

impl Network {
    pub(crate) fn new(latent: LatentShape, builder: &mut ArenaBuilder) -> Self {
        let sizes = [(latent.channels, WIDTH, 3), (WIDTH, WIDTH, 3), (WIDTH, 1, 1)];
        let mut number = 0;
        Self(sizes.map(|(inputs, outputs, side)| {
            let name = format!("conv{number}");
            number += 1;
            let deviation = (2.0 / (inputs * side * side) as f32).sqrt();
            let weight = Initialization::Normal(deviation);
            [
                builder.parameter(format!("{name}.weight"), [outputs, inputs, side, side], weight),
                builder.parameter(format!("{name}.bias"), [outputs], Initialization::Zero),
            ]
        }))
    }

    /// Frames [n, C, H, W] to logits [n, 1, H, W].
    pub(crate) fn forward(
        &self,
        pass: &mut Pass<'_>,
        frames: &Tensor,
    ) -> far_tensor::Result<Tensor> {
        let mut x = frames.clone();
        for (place, layer) in self.0.iter().enumerate() {
            let [weight, bias] = layer.map(|id| pass.parameters.tensor(id));
            let padding = Padding::even(weight.shape().last() / 2);
            x = pass.convolution(&x, &weight, Some(&bias), [1; 2], padding)?;
            if place + 1 < self.0.len() {
                x = pass.activate(&x, Activation::Relu)?;
            }
        }
        Ok(x)
    }
}

/// A trained and calibrated detector.
pub struct LatentDetector {
    pub(crate) description: Description,
    pub(crate) network: Network,
    pub(crate) parameters: Parameters,
    pub(crate) device: Device,
}

impl LatentDetector {
    /// Logits of the cells of frames [n, C, H, W], frame by frame.
    pub(crate) fn image_logits(&self, images: &Tensor) -> Result<Vec<Vec<f32>>> {
        let mut tape = Tape::inference(&self.device);
        let logits = self.network.forward(&mut Pass::new(&mut tape, &self.parameters), images)?;
        let LatentShape { height, width, .. } = self.description.latent;
        Ok(logits.values().chunks(height * width).map(<[f32]>::to_vec).collect())
    }

    /// Whether each of these latents, [n, E] as tokens, shows the agent.
    ///
    /// # Errors
    /// If they are not whole latents.
    pub fn fires(&self, latents: &[f32]) -> Result<Vec<bool>> {
        let shape = self.description.latent;
        let (elements, firing) = (shape.elements(), self.description.firing);
        let count = latents.len() / elements;
        Error::check_length("the latents to look at", latents.len(), count * elements)?;
        let mut fires = Vec::with_capacity(count);
        for part in latents.chunks(FRAMES_AT_A_TIME * elements) {
            let logits = self.image_logits(&shape.images(part.chunks_exact(elements))?)?;
            fires.extend(
                logits.iter().map(|cells| firing_cells(cells, firing.logit) >= firing.cells),
            );
        }
        Ok(fires)
    }

    /// When a frame counts as showing the agent.
    pub fn firing(&self) -> Firing {
        self.description.firing
    }

    /// The shares of frames with and of frames without the agent that it says to show one, in the
    /// episodes it was calibrated on.
    pub fn calibrated(&self) -> [f64; 2] {
        [self.description.recall, self.description.false_positive]
    }

    /// Checks that it was taught by latents of this recipe.
    ///
    /// # Errors
    /// If they are others.
    pub fn check_input(&self, recipe: &str) -> Result<()> {
        if self.description.input == recipe {
            return Ok(());
        }
        let reason = format!("it was taught with other latents, {}", self.description.input);
        Err(Error::Setting { setting: "detector", reason })
    }

    /// Writes the detector to a file.
    ///
    /// # Errors
    /// If a weight is not finite or the system refuses.
    pub fn save(&self, path: &Path) -> Result<()> {
        weight_file::save(path, KIND, &self.description, &self.parameters)
    }

    /// Reads what [`LatentDetector::save`] wrote.
    ///
    /// # Errors
    /// If the file cannot be read or does not hold a detector.
    pub fn load(path: &Path, device: &Device) -> Result<Self> {
        let build = |description: &Description, builder: &mut ArenaBuilder| {
            let latent = description.latent;
            description.config.check()?;
            if !latent.is_valid() || latent.channels > 1 << 14 {
                let reason = format!("{latent:?} is no latent");
                return Err(Error::Setting { setting: "detector", reason });
            }
            Ok(Network::new(latent, builder))
        };
        let (description, network, parameters) = WeightFile::open(path)?.network(KIND, build)?;
        Ok(Self { description, network, parameters, device: device.clone() })
    }
}

/// How many cells fire.
pub(crate) fn firing_cells(logits: &[f32], above: f32) -> usize {
    logits.iter().filter(|logit| **logit > above).count()
}
