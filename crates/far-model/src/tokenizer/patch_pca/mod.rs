//! Patches by their principal components: the tokenizer that is fitted in seconds.
//!
//! A picture is averaged down to a small resolution and cut into patches; each patch is a sum of the
//! C components that vary most over the training frames. All components share one scale, so that the
//! latent has unit variance on the whole and the strong components keep their weight.

mod config;
#[cfg(test)]
mod tests;

pub use config::PatchPcaConfig;

use super::spread::spread_frames;
use super::{Tokenizer, area_resize};
use crate::{Error, LatentShape, LinearPatches, Result, weight_file};
use far_data::{Dataset, Episode, Picture, hash_bytes};
use far_tensor::{
    ArenaBuilder, Checkpoint, Initialization, Matching, ParameterId, Parameters, PatchGrid, Shape,
    Tensor,
};
use nalgebra::{DMatrix, SymmetricEigen};
use rayon::prelude::*;
use std::path::Path;

/// The note that holds the settings in a file.
const NOTE: &str = "patch-pca";
/// Rows of a covariance that are summed together.
const ROWS: usize = 16;

/// A fitted tokenizer.
pub struct PatchPca {
    config: PatchPcaConfig,
    parameters: Parameters,
    mean: ParameterId,
    basis: ParameterId,
    scale: ParameterId,
}

impl PatchPca {
    /// Fits the components to frames of these episodes.
    ///
    /// # Errors
    /// If the settings do not fit together, or a frame has no picture.
    pub fn fit(dataset: &Dataset, episodes: &[u32], config: PatchPcaConfig) -> Result<Self> {
        config.check()?;
        let patches = spread_frames(dataset, episodes, config.frames, |picture| {
            patches_of(picture, &config)
        })?
        .concat();
        let mut pca = Self::empty(config)?;
        pca.learn(&patches)?;
        Ok(pca)
    }

    fn empty(config: PatchPcaConfig) -> Result<Self> {
        config.check()?;
        let (values, channels) = (config.values(), config.channels);
        let mut builder = ArenaBuilder::new("tokenizer");
        let mut add = |name: &str, sizes: &[usize]| {
            builder.parameter(name, Shape::new(sizes), Initialization::Zero)
        };
        let mean = add("mean", &[values]);
        let basis = add("basis", &[channels, values]);
        let scale = add("scale", &[1]);
        let parameters = builder.build(0);
        Ok(Self { config, parameters, mean, basis, scale })
    }

    /// Mean, components and scale from patches; returns the share of their variance that is kept.
    fn learn(&mut self, patches: &[f32]) -> Result<f64> {
        let (values, channels) = (self.config.values(), self.config.channels);
        let count = (patches.len() / values) as f64;
        let mut mean = vec![0.0f64; values];
        for patch in patches.chunks_exact(values) {
            mean.iter_mut().zip(patch).for_each(|(sum, value)| *sum += f64::from(*value));
        }
        mean.iter_mut().for_each(|sum| *sum /= count);
        // Some rows of the upper triangle are one task, so the order of sums is fixed, and the patches
        // are read from memory once for all of them.
        let rows: Vec<Vec<f64>> = (0..values.div_ceil(ROWS))
            .into_par_iter()
            .flat_map_iter(|block| {
                let own = block * ROWS..values.min((block + 1) * ROWS);
                let mut sums = vec![vec![0.0; values]; own.len()];
                let mut centered = vec![0.0; values];
                for patch in patches.chunks_exact(values) {
                    for ((centered, value), mean) in centered.iter_mut().zip(patch).zip(&mean) {
                        *centered = f64::from(*value) - mean;
                    }
                    for (row, sums) in own.clone().zip(&mut sums) {
                        let value = centered[row];
                        let sums = sums[row..].iter_mut().zip(&centered[row..]);
                        sums.for_each(|(sum, other)| *sum += value * other);
                    }
                }
                sums
            })
            .collect();
        let covariance = DMatrix::from_fn(values, values, |row, column| {
            rows[row.min(column)][row.max(column)] / count
        });
        let total = covariance.trace();
        let eigen = SymmetricEigen::new(covariance);
        let mut order: Vec<usize> = (0..values).collect();
        order.sort_by(|a, b| eigen.eigenvalues[*b].total_cmp(&eigen.eigenvalues[*a]));
        order.truncate(channels);
        let kept: f64 = order.iter().map(|place| eigen.eigenvalues[*place].max(0.0)).sum();
        // A world of one color has no variance; any scale will do.
        let scale = (kept / channels as f64).sqrt().max(1e-6);
        let mut flat = Vec::with_capacity(values * (channels + 1) + 1);
        flat.extend(mean.iter().map(|value| *value as f32));
        for place in order {
            let column = eigen.eigenvectors.column(place);
            // Either sign is a component; the largest number is made positive so that one is chosen.
            let largest =
                column.iter().copied().fold(0.0, |a: f64, b| if b.abs() > a.abs() { b } else { a });
            flat.extend(column.iter().map(|value| (value * largest.signum()) as f32));
        }
        flat.push(scale as f32);
        let names = [self.mean, self.basis, self.scale];
        let mut start = 0;
        for id in names {
            let length = self.parameters.tensor(id).shape().elements();
            self.parameters.set(id, &flat[start..start + length])?;
            start += length;
        }
        Ok(if total > 0.0 { kept / total } else { 1.0 })
    }

    /// The settings.
    pub fn config(&self) -> &PatchPcaConfig {
        &self.config
    }

    /// Reads a tokenizer from a file.
    ///
    /// # Errors
    /// If the file does not hold one.
    pub fn load(path: &Path) -> Result<Self> {
        let mut checkpoint = Checkpoint::open(path)?;
        let wrong = |reason: String| Error::File { path: path.to_owned(), reason };
        let settings = checkpoint.notes().get(NOTE);
        let settings = settings.ok_or_else(|| wrong("it holds no patch-pca tokenizer".into()))?;
        let config = serde_json::from_str(settings).map_err(|error| wrong(error.to_string()))?;
        let mut pca = Self::empty(config)?;
        checkpoint.load_parameters("", &mut pca.parameters, Matching::Strict)?;
        Ok(pca)
    }

    /// The components, [values, channels].
    fn turned_basis(&self) -> Vec<f32> {
        let (basis, values) = (self.parameters.tensor(self.basis), self.config.values());
        let column = |value| basis.values().iter().skip(value).step_by(values).copied();
        (0..values).flat_map(column).collect()
    }

    /// All channels of a patch grow together, so that the compiler adds several at once; each sum has the
    /// order of the definition.
    fn encode_picture(&self, turned_basis: &[f32], picture: &Picture, latent: &mut Vec<f32>) {
        let [mean, scale] = [self.mean, self.scale].map(|id| self.parameters.tensor(id));
        let PatchPcaConfig { channels, .. } = self.config;
        let (values, scale) = (self.config.values(), 1.0 / scale.values()[0]);
        let patches = patches_of(picture, &self.config);
        let mut sums = vec![0.0f32; channels];
        for place in self.config.order() {
            let patch = patches[place * values..(place + 1) * values].iter().zip(mean.values());
            sums.fill(0.0);
            for ((value, mean), parts) in patch.zip(turned_basis.chunks_exact(channels)) {
                let value = value - mean;
                sums.iter_mut().zip(parts).for_each(|(sum, part)| *sum += value * part);
            }
            latent.extend(sums.iter().map(|sum| scale * sum));
        }
    }
}

impl Tokenizer for PatchPca {
    fn shape(&self) -> LatentShape {
        self.config.shape()
    }

    fn recipe(&self) -> String {
        let bytes: Vec<u8> =
            self.parameters.values().iter().flat_map(|value| value.to_le_bytes()).collect();
        let PatchPcaConfig { resolution, patch, channels, frames, group } = self.config;
        // Latents made before there were groups are still good.
        let group = if group == 1 { String::new() } else { format!(" group {group}") };
        let hash = hash_bytes(&bytes);
        format!(
            "patch-pca PatchPcaConfig {{ resolution: {resolution:?}, patch: {patch}, channels: \
             {channels}, frames: {frames} }}{group} {hash}"
        )
    }

    fn encode(&self, episode: &Episode, frames: &[usize]) -> Result<Vec<f32>> {
        let mut latents = Vec::with_capacity(frames.len() * self.shape().elements());
        let turned_basis = self.turned_basis();
        for frame in frames {
            self.encode_picture(&turned_basis, &episode.picture(*frame)?, &mut latents);
        }
        Ok(latents)
    }

    fn save(&self, path: &Path) -> Result<()> {
        weight_file::save(path, NOTE, &self.config, &self.parameters)
    }

    fn decode(&self, latent: &[f32]) -> Option<Picture> {
        let PatchPcaConfig { resolution: [width, height], patch, channels, .. } = self.config;
        let [mean, basis, scale] =
            [self.mean, self.basis, self.scale].map(|id| self.parameters.tensor(id));
        let (values, scale) = (self.config.values(), scale.values()[0]);
        let mut picture = Picture::filled(width as u32, height as u32, [0; 3]);
        let columns = width / patch;
        for (place, numbers) in self.config.order().into_iter().zip(latent.chunks_exact(channels)) {
            let mut pixels = mean.values().to_vec();
            for (number, component) in numbers.iter().zip(basis.values().chunks_exact(values)) {
                let number = number * scale;
                pixels.iter_mut().zip(component).for_each(|(pixel, part)| *pixel += number * part);
            }
            let corner = [place % columns * patch, place / columns * patch];
            for cell in 0..patch * patch {
                let color = [0, 1, 2].map(|plane| {
                    let value = pixels[plane * patch * patch + cell];
                    (255.0 * value.clamp(0.0, 1.0)).round() as u8
                });
                let (x, y) = (corner[0] + cell % patch, corner[1] + cell / patch);
                picture.set_pixel(x as u32, y as u32, color);
            }
        }
        Some(picture)
    }

    fn linear_patches(&self) -> Option<LinearPatches> {
        let PatchPcaConfig { patch, channels, group, .. } = self.config;
        let [mean, basis, scale] =
            [self.mean, self.basis, self.scale].map(|id| self.parameters.tensor(id));
        let (values, scale) = (self.config.values(), scale.values()[0]);
        let [columns, rows] = self.config.resolution.map(|side| side / patch);
        let scaled = |numbers: &[f32], factor: f32, sizes: &[usize]| {
            let numbers: Vec<f32> = numbers.iter().map(|number| factor * number).collect();
            Tensor::from_slice(&numbers, Shape::new(sizes)).ok()
        };
        let offsets = basis.values().chunks_exact(values).map(|component| {
            component.iter().zip(mean.values()).map(|(part, mean)| part * mean).sum()
        });
        let offsets: Vec<f32> = offsets.collect();
        let decode = [
            scaled(basis.values(), scale, &[channels, values])?,
            scaled(mean.values(), 1.0, &[values])?,
        ];
        let encode = [
            scaled(&self.turned_basis(), 1.0 / scale, &[values, channels])?,
            scaled(&offsets, -1.0 / scale, &[channels])?,
        ];
        let grid = PatchGrid { rows, columns, colors: 3, side: patch };
        // A token of several patches has them one behind another, and none is linear in its own alone.
        (group == 1).then_some(LinearPatches { grid, decode, encode })
    }
}

/// The patches of a picture, row-major, each as planes (color, row, column).
fn patches_of(picture: &Picture, config: &PatchPcaConfig) -> Vec<f32> {
    let PatchPcaConfig { resolution: [width, height], patch, .. } = *config;
    let planes = area_resize(picture, [width, height]);
    let mut patches = Vec::with_capacity(planes.len());
    for top in (0..height).step_by(patch) {
        for left in (0..width).step_by(patch) {
            for plane in planes.chunks_exact(width * height) {
                for row in top..top + patch {
                    patches
                        .extend_from_slice(&plane[row * width + left..row * width + left + patch]);
                }
            }
        }
    }
    patches
}
