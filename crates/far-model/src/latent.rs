//! The shape of a latent frame, and its two layouts.
//!
//! A tokenizer gives a frame as channels of a small image, [C, H, W]. The world model reads patches
//! of p × p of it as tokens: T = (H/p)·(W/p) tokens, row-major, of p²·C numbers each, ordered
//! (patch row, patch column, channel). Everything in the project holds frames as tokens; the other
//! layout exists at the border, in files that other programs wrote.

use far_data::Mask;
use far_tensor::Tensor;
use serde::{Deserialize, Serialize};

/// The size of a latent frame and of the patches it is cut into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatentShape {
    /// Channels C.
    pub channels: usize,
    /// Rows H.
    pub height: usize,
    /// Columns W.
    pub width: usize,
    /// Side p of a patch, which divides both.
    pub patch: usize,
}

impl LatentShape {
    /// Rows and columns of tokens.
    pub fn grid(&self) -> [usize; 2] {
        [self.height / self.patch, self.width / self.patch]
    }

    /// Tokens T of a frame.
    pub fn tokens(&self) -> usize {
        let [rows, columns] = self.grid();
        rows * columns
    }

    /// Numbers of a token, p²·C.
    pub fn token_width(&self) -> usize {
        self.patch * self.patch * self.channels
    }

    /// Numbers E of a frame.
    pub fn elements(&self) -> usize {
        self.channels * self.height * self.width
    }

    /// Whether every size is positive and the patches fill the image.
    pub fn is_valid(&self) -> bool {
        let Self { channels, height, width, patch } = *self;
        let divides = |size: usize| patch > 0 && size > 0 && size.is_multiple_of(patch);
        channels > 0 && divides(height) && divides(width)
    }

    /// For every number of the tokens, its place in [C, H, W].
    fn places(&self) -> impl Iterator<Item = usize> + '_ {
        let [rows, columns] = self.grid();
        let Self { channels, height, width, patch } = *self;
        (0..rows * columns).flat_map(move |token| {
            let corner = [token / columns * patch, token % columns * patch];
            (0..patch * patch * channels).map(move |number| {
                let (cell, channel) = (number / channels, number % channels);
                let (row, column) = (corner[0] + cell / patch, corner[1] + cell % patch);
                (channel * height + row) * width + column
            })
        })
    }

    /// The share of each of the H × W cells that the mask covers. A pixel counts for the cell that its
    /// center lies in.
    pub fn cover(&self, mask: &Mask) -> Vec<f32> {
        let Self { height, width, .. } = *self;
        let mut cells = vec![[0.0f32; 2]; height * width];
        for (index, set) in mask.pixels.iter().enumerate() {
            let (x, y) = (index % mask.width as usize, index / mask.width as usize);
            let column = (2 * x + 1) * width / (2 * mask.width as usize);
            let row = (2 * y + 1) * height / (2 * mask.height as usize);
            let [covered, all] = &mut cells[row * width + column];
            *covered += f32::from(u8::from(*set));
            *all += 1.0;
        }
        // A latent finer than the picture has cells without a pixel; they are not covered.
        cells.into_iter().map(|[covered, all]| covered / all.max(1.0)).collect()
    }

    /// Tokens [T, p²·C] from an image [C, H, W].
    ///
    /// # Panics
    /// If the image does not have [`Self::elements`] numbers.
    pub fn to_tokens(&self, image: &[f32]) -> Vec<f32> {
        assert_eq!(image.len(), self.elements());
        self.places().map(|place| image[place]).collect()
    }

    /// The image [C, H, W] of tokens [T, p²·C].
    ///
    /// # Panics
    /// If there are not [`Self::elements`] numbers.
    pub fn to_image(&self, tokens: &[f32]) -> Vec<f32> {
        assert_eq!(tokens.len(), self.elements());
        let mut image = vec![0.0; tokens.len()];
        self.places().zip(tokens).for_each(|(place, value)| image[place] = *value);
        image
    }

    /// The images [n, C, H, W] of n frames, each [T, p²·C].
    pub(crate) fn images<'a>(
        &self,
        frames: impl IntoIterator<Item = &'a [f32]>,
    ) -> far_tensor::Result<Tensor> {
        let images: Vec<f32> =
            frames.into_iter().flat_map(|tokens| self.to_image(tokens)).collect();
        let count = images.len() / self.elements();
        Tensor::from_slice(&images, [count, self.channels, self.height, self.width])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_patches_with_channels_fastest() {
        let shape = LatentShape { channels: 2, height: 2, width: 4, patch: 2 };
        let image: Vec<f32> = (0..16).map(|n| n as f32).collect();
        let tokens = shape.to_tokens(&image);
        // The first token: pixel (0,0) of both channels, then (0,1), (1,0), (1,1).
        assert_eq!(tokens[..8], [0.0, 8.0, 1.0, 9.0, 4.0, 12.0, 5.0, 13.0]);
        assert_eq!(shape.to_image(&tokens), image);
        assert_eq!((shape.tokens(), shape.token_width()), (2, 8));
        assert!(!LatentShape { height: 3, ..shape }.is_valid());
    }
}
