//! DreamSim: a perceptual distance that was tuned to people's judgments of mid-level similarity.
//!
//! Each picture is resized to the networks' square and embedded by one vision transformer or by three,
//! whose embeddings are put one after the other: e. With ē = e − mean(e), the distance of two pictures is
//! 1 − ē_a·ē_b/(‖ē_a‖‖ē_b‖). The networks are DINO, CLIP and OpenCLIP with the authors' low-rank adapters merged
//! into their attention.

mod bicubic;
mod transformer;

pub use transformer::DreamSimBranch;

use super::check_pictures;
use crate::layer::Pass;
use crate::{Error, Result, weight_cache};
use far_data::Picture;
use far_tensor::{ArenaBuilder, Checkpoint, Device, Matching, Parameters, Tape, Tensor};
use std::path::{Path, PathBuf};
use transformer::{Sizes, Transformer};

/// The note in a file that lists the networks.
const BRANCHES: &str = "branches";
/// The note with the number of attention heads.
const HEADS: &str = "heads";
/// Largest side of the networks' pictures, many times the published one.
const LARGEST_SIDE: usize = 1024;

/// The metric with its weights.
///
/// Weights are a safetensors file, made once from the authors' files by
/// `scripts/make_dreamsim_weights.py`; nothing is downloaded. Its place is `dreamsim.safetensors` in the
/// folder that the environment variable `FAR_CACHE` names, or else in `~/.cache/far`.
pub struct DreamSim {
    networks: Vec<Transformer>,
    parameters: Parameters,
    device: Device,
}

impl DreamSim {
    /// Reads weights: notes `branches` (`dino,clip,open_clip`, or one of them) and `heads`, and tensors
    /// under the names of the branches.
    ///
    /// # Errors
    /// If the file cannot be read, names no known network, misses a tensor, or holds one of another
    /// shape or with a value that is not finite.
    pub fn load(path: &Path) -> Result<Self> {
        Self::of(path, Checkpoint::open(path)?)
    }

    /// The same from a file's bytes; `path` is for messages.
    ///
    /// # Errors
    /// As [`DreamSim::load`].
    pub fn from_bytes(path: &Path, bytes: Vec<u8>) -> Result<Self> {
        Self::of(path, Checkpoint::from_bytes(path, bytes)?)
    }

    fn of(path: &Path, mut checkpoint: Checkpoint) -> Result<Self> {
        let wrong = |reason: String| Error::File { path: path.into(), reason };
        let note = |key: &str| {
            let note = checkpoint.notes().get(key).cloned();
            note.ok_or_else(|| wrong(format!("it has no note `{key}`")))
        };
        let heads = note(HEADS)?;
        let heads = heads.parse().map_err(|_| wrong(format!("`{heads}` heads are no number")))?;
        let mut builder = ArenaBuilder::new("dreamsim");
        let mut networks: Vec<Transformer> = Vec::new();
        for name in note(BRANCHES)?.split(',') {
            let branch = DreamSimBranch::from_name(name)
                .ok_or_else(|| wrong(format!("its note `{BRANCHES}` has `{name}`")))?;
            let sizes = Sizes::of(&checkpoint, branch, heads).map_err(wrong)?;
            let twice = networks.iter().any(|network| network.branch == branch);
            let other = networks.iter().any(|network| network.sizes.side() != sizes.side());
            if twice || other || sizes.side() > LARGEST_SIDE {
                return Err(wrong(format!(
                    "`{name}` stands twice or has pictures of another size"
                )));
            }
            networks.push(Transformer::new(&mut builder, branch, sizes));
        }
        let mut parameters = builder.build(0);
        checkpoint.load_parameters("", &mut parameters, Matching::Strict)?;
        checkpoint.expect_all_used()?;
        parameters.freeze();
        Ok(Self { networks, parameters, device: Device::cpu() })
    }

    /// The weights of an explicit file, or else of the place in the cache; `None` where no file was
    /// named and there is none.
    ///
    /// # Errors
    /// As [`DreamSim::load`]; a file that was named must be there.
    pub fn find(explicit: Option<&Path>) -> Result<Option<Self>> {
        let cached = || Self::cache_path().filter(|path| path.exists());
        let path = explicit.map(Path::to_owned).or_else(cached);
        path.map(|path| Self::load(&path)).transpose()
    }

    /// Where the weights are looked for; `None` where there is no home folder.
    pub fn cache_path() -> Option<PathBuf> {
        weight_cache::place("dreamsim.safetensors")
    }

    /// The networks, in the order of their embeddings.
    pub fn branches(&self) -> impl Iterator<Item = DreamSimBranch> + '_ {
        self.networks.iter().map(|network| network.branch)
    }

    /// The embeddings of pictures, one after the other, each centered and of length one.
    ///
    /// # Errors
    /// If a picture is torn.
    pub fn embed(&self, pictures: &[&Picture]) -> Result<Vec<Vec<f32>>> {
        let side = self.networks.first().map_or(1, |network| network.sizes.side());
        let mut embeddings = vec![Vec::new(); pictures.len()];
        let planes = pictures.iter().map(|picture| {
            check_pictures("dreamsim", picture, picture, 1)?;
            Ok(bicubic::resize(picture, side))
        });
        let planes: Vec<Vec<f32>> = planes.collect::<Result<_>>()?;
        for network in &self.networks {
            let Sizes { patch, grid, .. } = network.sizes;
            let [mean, deviation] = network.branch.colors();
            let mut tokens = Vec::with_capacity(pictures.len() * 3 * side * side);
            for planes in &planes {
                for (row, column) in (0..grid * grid).map(|place| (place / grid, place % grid)) {
                    for color in 0..3 {
                        let plane = &planes[color * side * side..];
                        for line in 0..patch {
                            let start = (row * patch + line) * side + column * patch;
                            let scaled = |value: &f32| (value - mean[color]) / deviation[color];
                            tokens.extend(plane[start..start + patch].iter().map(scaled));
                        }
                    }
                }
            }
            let shape = [pictures.len(), grid * grid, 3 * patch * patch];
            let tokens = Tensor::from_slice(&tokens, shape)?;
            let mut tape = Tape::inference(&self.device);
            let found = network.forward(&mut Pass::new(&mut tape, &self.parameters), &tokens)?;
            let width = found.shape().last();
            for (embedding, row) in embeddings.iter_mut().zip(found.values().chunks(width)) {
                embedding.extend_from_slice(row);
            }
        }
        embeddings.iter_mut().for_each(|embedding| center(embedding));
        Ok(embeddings)
    }

    /// The distance of two pictures: 0 where they are equal.
    ///
    /// # Errors
    /// If the sizes differ or a picture is torn.
    pub fn distance(&self, a: &Picture, b: &Picture) -> Result<f64> {
        check_pictures("dreamsim", a, b, 1)?;
        let embeddings = self.embed(&[a, b])?;
        let products = embeddings[0].iter().zip(&embeddings[1]);
        Ok(1.0 - products.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>())
    }
}

/// Subtracts the mean and divides by the length.
fn center(embedding: &mut [f32]) {
    let mean =
        embedding.iter().map(|value| f64::from(*value)).sum::<f64>() / embedding.len() as f64;
    let squares = embedding.iter().map(|value| (f64::from(*value) - mean).powi(2)).sum::<f64>();
    let length = squares.sqrt().max(1e-12);
    embedding.iter_mut().for_each(|value| *value = ((f64::from(*value) - mean) / length) as f32);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embeddings_are_centered_and_of_length_one() {
        let mut embedding = [1.0, 2.0, 6.0];
        center(&mut embedding);
        assert!(embedding.iter().sum::<f32>().abs() < 1e-6);
        assert!((embedding.iter().map(|value| value * value).sum::<f32>() - 1.0).abs() < 1e-6);
    }

    #[test]
    fn a_file_that_was_named_must_be_there() {
        let error = DreamSim::find(Some(Path::new("/no/such.safetensors"))).err().unwrap();
        assert!(error.to_string().contains("/no/such.safetensors"), "{error}");
    }
}
