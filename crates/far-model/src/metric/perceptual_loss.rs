//! A perceptual loss: how differently two pictures look to VGG16.
//!
//! L = Σ over stages of the mean over places of ‖f̂_a − f̂_b‖², with features f̂ of unit length over
//! channels. Tokenizers are trained with it. They are judged by LPIPS, which looks through AlexNet and
//! weighs channels by what people said; neither is used here.

use super::lpips::{SCALE, SHIFT};
use super::lpips_net::{LpipsNet, Trunk};
use crate::{Error, Lpips, Result};
use far_tensor::{Checkpoint, Device, Filter, Tape, Tensor};
use std::path::Path;

/// The least length of a feature vector.
const EPSILON: f32 = 1e-6;

/// The loss with its network.
pub struct PerceptualLoss {
    trunk: Trunk,
    /// Weight and bias that make colors in [0, 1] what the network reads.
    scaling: [Tensor; 2],
    device: Device,
}

impl PerceptualLoss {
    /// The loss through the VGG16 that `scripts/make_lpips_weights.py` puts into the cache; `None` where
    /// it is not there.
    ///
    /// # Errors
    /// If the file holds something else.
    pub fn find(device: &Device) -> Result<Option<Self>> {
        let cached = Lpips::cache_path(LpipsNet::Vgg).filter(|path| path.exists());
        cached.map(|path| Self::load(&path, device)).transpose()
    }

    /// The loss through the network in a file, for pictures on a device.
    ///
    /// # Errors
    /// If the file cannot be read or holds something else.
    pub fn load(path: &Path, device: &Device) -> Result<Self> {
        let checkpoint = Checkpoint::open(path)?;
        if Lpips::net_of(&checkpoint) != Some(LpipsNet::Vgg) {
            let reason = "it does not hold the network `vgg`".to_owned();
            return Err(Error::File { path: path.to_owned(), reason });
        }
        let trunk = Trunk::load(checkpoint, LpipsNet::Vgg)?;
        let weight: Vec<f32> =
            (0..9).map(|place| if place % 4 == 0 { 2.0 / SCALE[place / 4] } else { 0.0 }).collect();
        let bias = [0, 1, 2].map(|color| (-1.0 - SHIFT[color]) / SCALE[color]);
        let scaling = [Tensor::from_slice(&weight, [3, 3, 1, 1])?, Tensor::from_slice(&bias, [3])?];
        Ok(Self { trunk, scaling, device: device.clone() })
    }

    /// The loss of pictures [N, H, W, 3] about [0, 1], beside what they should be; gradients flow to
    /// the pictures.
    ///
    /// # Errors
    /// If a side is less than 16 pixels, or the engine refuses.
    pub fn loss(
        &self,
        tape: &mut Tape,
        pictures: &Tensor,
        targets: &Tensor,
    ) -> far_tensor::Result<Tensor> {
        let expected = self.features(&mut Tape::inference(&self.device), targets)?;
        let found = self.features(tape, pictures)?;
        let mut loss = Tensor::zeros([0usize; 0]);
        for (found, expected) in found.iter().zip(&expected) {
            let error = tape.squared_error(found, expected, None)?;
            loss = tape.weighted_sum(&loss, 1.0, &error, found.shape().last() as f32)?;
        }
        Ok(loss)
    }

    /// Features of unit length after each stage.
    fn features(&self, tape: &mut Tape, pictures: &Tensor) -> far_tensor::Result<Vec<Tensor>> {
        let [weight, bias] = &self.scaling;
        let scaling = Filter { bias: Some(bias), ..Filter::same(weight) };
        let scaled = tape.convolution_channels_last(pictures, &scaling)?;
        let features = self.trunk.features(tape, &scaled)?;
        features.iter().map(|features| tape.normalize_rows(features, EPSILON)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use far_tensor::{ArenaBuilder, Initialization, Random};

    /// Random weights in the place of trained ones.
    fn made_up() -> PerceptualLoss {
        let mut trunk = Trunk::new(LpipsNet::Vgg);
        let mut values = vec![0.0; trunk.parameters.values().len()];
        Random::stream(3, "weights", 0).fill_normal(&mut values);
        let slope = 0.03;
        values.iter_mut().for_each(|value| *value *= slope);
        trunk.parameters.values_mut().unwrap().copy_from_slice(&values);
        trunk.parameters.freeze();
        let mut ends = ArenaBuilder::new("scaling");
        let weight = ends.parameter("weight", [3, 3, 1, 1], Initialization::Constant(0.7));
        let bias = ends.parameter("bias", [3], Initialization::Constant(0.1));
        let ends = ends.build(0);
        let scaling = [weight, bias].map(|id| ends.tensor(id).detach());
        PerceptualLoss { trunk, scaling, device: Device::cpu() }
    }

    #[test]
    fn the_loss_is_zero_for_equal_pictures_and_its_gradient_matches_differences() {
        let loss = made_up();
        let mut values = vec![0.0; 2 * 16 * 16 * 3];
        Random::stream(4, "pictures", 0).fill_uniform(&mut values, 0.0, 1.0);
        let (a, b) = values.split_at(16 * 16 * 3);
        let shape = [1usize, 16, 16, 3];
        let target = Tensor::from_slice(b, shape).unwrap();
        let of = |values: &[f32]| {
            let pictures = Tensor::from_slice(values, shape).unwrap();
            let mut tape = Tape::inference(&Device::cpu());
            loss.loss(&mut tape, &pictures, &target).unwrap().item().unwrap()
        };
        assert!(of(b).abs() < 1e-9 && of(a) > 1e-4, "{} {}", of(b), of(a));
        let mut tape = Tape::recording(&Device::cpu());
        let pictures = tape.variable(&Tensor::from_slice(a, shape).unwrap());
        let value = loss.loss(&mut tape, &pictures, &target).unwrap();
        let gradients = tape.backward(&value, 1.0, &mut []).unwrap();
        let found = gradients.of(&pictures).unwrap();
        // Along the gradient itself, where differences are large beside rounding.
        let length = found.iter().map(|g| g * g).sum::<f32>().sqrt();
        let moved = |step: f32| {
            let values: Vec<f32> =
                a.iter().zip(found).map(|(x, g)| x + step * g / length).collect();
            of(&values)
        };
        let slope = (moved(1e-2) - moved(-1e-2)) / 2e-2;
        assert!((slope - length).abs() < 0.03 * length, "{slope} {length}");
    }
}
