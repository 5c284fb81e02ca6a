//! LPIPS: the learned perceptual distance, version 0.1.
//!
//! Both pictures, as RGB in [−1, 1] shifted and scaled per color, go through a trunk. At each of
//! five layers, with features f̂ = f/(‖f‖ + 1e-10) of unit length over channels and the weights w ≥ 0
//! of the layer's head: d = mean over places of Σ_c w_c·(f̂_a − f̂_b)². The distance is their sum.

use super::lpips_net::{LpipsNet, STAGES, Trunk};
use super::{check_pictures, check_sizes};
use crate::{Error, Result, area_resize, weight_cache};
use far_data::Picture;
use far_tensor::{Checkpoint, Device, Tape, Tensor};
use std::path::{Path, PathBuf};

/// What is subtracted from colors in [−1, 1].
pub(super) const SHIFT: [f32; 3] = [-0.030, -0.088, -0.188];
/// What they are divided by then.
pub(super) const SCALE: [f32; 3] = [0.458, 0.448, 0.450];
/// What is added to the length of a feature vector.
const EPSILON: f64 = 1e-10;
/// The note in a file that names the trunk.
const NET: &str = "net";

/// The metric with its weights.
///
/// Weights are a safetensors file, made once by `scripts/make_lpips_weights.py`; nothing is
/// downloaded. Its place is `lpips-alex.safetensors` or `lpips-vgg.safetensors` in the folder that
/// the environment variable `FAR_CACHE` names, or else in `~/.cache/far`.
pub struct Lpips {
    net: LpipsNet,
    trunk: Trunk,
    device: Device,
}

impl Lpips {
    /// Reads weights: names as in the state of the authors' own module, and a note `net` that says
    /// `alex` or `vgg`.
    ///
    /// # Errors
    /// If the file cannot be read, names no known network, misses a tensor, or holds one of another
    /// shape or with a value that is not finite.
    pub fn load(path: &Path) -> Result<Self> {
        let checkpoint = Checkpoint::open(path)?;
        let net = Self::net_of(&checkpoint).ok_or_else(|| Error::File {
            path: path.into(),
            reason: format!("it has no note `{NET}` that says `alex` or `vgg`"),
        })?;
        Ok(Self { net, trunk: Trunk::load(checkpoint, net)?, device: Device::cpu() })
    }

    /// The network that a file names.
    pub(super) fn net_of(checkpoint: &Checkpoint) -> Option<LpipsNet> {
        LpipsNet::from_name(checkpoint.notes().get(NET)?)
    }

    /// The weights of an explicit file, or else of AlexNet's place in the cache; `None` where no
    /// file was named and there is none.
    ///
    /// # Errors
    /// As [`Lpips::load`]; a file that was named must be there.
    pub fn find(explicit: Option<&Path>) -> Result<Option<Self>> {
        let path = explicit.map(Path::to_owned);
        let cached = || Self::cache_path(LpipsNet::Alex).filter(|path| path.exists());
        path.or_else(cached).map(|path| Self::load(&path)).transpose()
    }

    /// Where the weights of a network are looked for; `None` where there is no home folder.
    pub fn cache_path(net: LpipsNet) -> Option<PathBuf> {
        weight_cache::place(&format!("lpips-{}.safetensors", net.name()))
    }

    /// Which network it looks through.
    pub fn net(&self) -> LpipsNet {
        self.net
    }

    /// The distance of two pictures: 0 where they are equal.
    ///
    /// # Errors
    /// If the sizes differ or a side is less than [`LpipsNet::least_side`].
    pub fn distance(&self, a: &Picture, b: &Picture) -> Result<f64> {
        check_pictures("lpips", a, b, self.net.least_side())?;
        let size = [a.width as usize, a.height as usize];
        let [first, second] = [a, b].map(|picture| area_resize(picture, size));
        self.distance_of_planes([a.width, a.height], &first, &second)
    }

    /// The distance of two pictures of size [width, height], given as planes [3, height, width] of
    /// RGB in [0, 1].
    ///
    /// # Errors
    /// As [`Lpips::distance`]; also if there are not as many numbers or one is not finite.
    pub fn distance_of_planes(&self, size: [u32; 2], a: &[f32], b: &[f32]) -> Result<f64> {
        Ok(self.layers(size, a, b)?.iter().sum())
    }

    /// The share of each layer in the distance; arguments and errors as in
    /// [`Lpips::distance_of_planes`].
    ///
    /// # Errors
    /// As [`Lpips::distance_of_planes`].
    pub fn layers(&self, size: [u32; 2], a: &[f32], b: &[f32]) -> Result<[f64; STAGES]> {
        check_sizes("lpips", [size, size], self.net.least_side())?;
        let [width, height] = size.map(|extent| extent as usize);
        let pixels = width * height;
        let mut images = Vec::with_capacity(6 * pixels);
        for picture in [a, b] {
            Error::check_length("a picture", picture.len(), 3 * pixels)?;
            Error::check_finite("a picture", picture)?;
            let value = |place: usize| picture[place % 3 * pixels + place / 3];
            images.extend((0..3 * pixels).map(|place| {
                let color = place % 3;
                (2.0 * value(place) - 1.0 - SHIFT[color]) / SCALE[color]
            }));
        }
        let images = Tensor::from_slice(&images, [2, height, width, 3])?;
        let mut tape = Tape::inference(&self.device);
        let features = self.trunk.features(&mut tape, &images)?;
        let mut shares = [0.0; STAGES];
        for (stage, (share, features)) in shares.iter_mut().zip(&features).enumerate() {
            let head = self.trunk.head(stage);
            *share = layer_distance(features.values(), head.values());
        }
        Ok(shares)
    }
}

/// The mean over places of the weighted squared difference of unit features; `features` are two
/// [places, C], one after the other, `head` has C weights.
fn layer_distance(features: &[f32], head: &[f32]) -> f64 {
    let (a, b) = features.split_at(features.len() / 2);
    let unit = |features: &[f32]| {
        let squares = features.iter().map(|value| f64::from(*value).powi(2));
        1.0 / (squares.sum::<f64>().sqrt() + EPSILON)
    };
    let places = a.chunks_exact(head.len()).zip(b.chunks_exact(head.len()));
    let count = places.len() as f64;
    let total: f64 = places
        .map(|(a, b)| {
            let [of_a, of_b] = [a, b].map(unit);
            let channels = a.iter().zip(b).zip(head);
            let shares = channels.map(|((a, b), weight)| {
                let difference = f64::from(*a) * of_a - f64::from(*b) * of_b;
                f64::from(*weight) * difference * difference
            });
            shares.sum::<f64>()
        })
        .sum();
    total / count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_is_the_weighted_difference_of_directions() {
        // Two places of two channels: (3, 4) against (4, 3), and (1, 0) against (2, 0).
        let features = [3.0, 4.0, 1.0, 0.0, 4.0, 3.0, 2.0, 0.0];
        let expected = (0.5 * 0.04 + 2.0 * 0.04) / 2.0;
        assert!((layer_distance(&features, &[0.5, 2.0]) - expected).abs() < 1e-9);
    }

    #[test]
    fn a_file_that_was_named_must_be_there() {
        let error = Lpips::find(Some(Path::new("/no/such.safetensors"))).err().unwrap();
        assert!(error.to_string().contains("/no/such.safetensors"), "{error}");
    }
}
