//! `[tokenizer.patch_pca]`: into which patches a picture is cut, and how many components each keeps.

use crate::{Error, LatentShape, Result};

far_memory::settings! {
    /// The settings of a [`PatchPca`](crate::PatchPca).
    #[derive(Copy, Eq)]
    pub struct PatchPcaConfig {
        /// Width and height that pictures are averaged down to.
        pub resolution: [usize; 2] = [32, 32],
        /// Side of a square patch, which divides both.
        pub patch: usize = 8,
        /// Components kept per patch.
        pub channels: usize = 16,
        /// Training frames that it is fitted to, evenly spread.
        pub frames: usize = 2_000,
        /// Side, in patches, of the squares that a world model reads as one token.
        pub group: usize = 1,
    }
}

impl PatchPcaConfig {
    /// Refuses settings that do not fit together.
    pub(super) fn check(&self) -> Result<()> {
        let Self { resolution: [width, height], patch, channels, frames, group } = *self;
        let wrong = |reason: &str| {
            Err(Error::Setting { setting: "tokenizer", reason: format!("{reason} in {self:?}") })
        };
        if patch == 0 || width == 0 || height == 0 {
            return wrong("a size is zero");
        }
        if !width.is_multiple_of(patch) || !height.is_multiple_of(patch) {
            return wrong("the patch does not divide the resolution");
        }
        if !self.shape().is_valid() {
            return wrong(&format!("squares of {group} do not fill the grid of patches"));
        }
        if channels == 0 || channels > self.values() {
            return wrong("there are not that many components");
        }
        if frames == 0 {
            return wrong("no frame to fit to");
        }
        Ok(())
    }

    /// Numbers of a patch of pixels.
    pub(super) fn values(&self) -> usize {
        3 * self.patch * self.patch
    }

    /// The shape of a latent.
    pub fn shape(&self) -> LatentShape {
        let [width, height] = self.resolution.map(|side| side / self.patch);
        LatentShape { channels: self.channels, height, width, patch: self.group }
    }

    /// Patches, counted row by row, in the order in which tokens have them.
    pub(super) fn order(&self) -> Vec<usize> {
        let LatentShape { height, width, patch, .. } = self.shape();
        let numbers: Vec<f32> = (0..height * width).map(|place| place as f32).collect();
        let cells = LatentShape { channels: 1, height, width, patch };
        cells.to_tokens(&numbers).into_iter().map(|place| place as usize).collect()
    }
}
