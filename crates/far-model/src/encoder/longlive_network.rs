//! The layers of the LongLive-RAG autoencoder.

use crate::convolution_stack::{Downsampling, NormalizedActivation, Upsampling, are_sound};
use crate::layer::Linear;
use crate::layer::Pass;
use crate::{Error, LatentShape, Result};
use far_tensor::{Activation, ArenaBuilder, Initialization, Tensor};
use serde::{Deserialize, Serialize};

/// What decides the encoder's weights and their meaning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LongLiveShape {
    pub latent: LatentShape,
    pub widths: Vec<usize>,
    pub embedding: usize,
}

impl LongLiveShape {
    fn check(&self) -> Result<()> {
        let Self { latent, widths, embedding } = self;
        let LatentShape { channels, height, width, .. } = *latent;
        if latent.is_valid() && are_sound(widths, &[channels, *embedding], [width, height]) {
            return Ok(());
        }
        let reason = format!("a size is zero or too large, or the patch does not fit, in {self:?}");
        Err(Error::Setting { setting: "longlive", reason })
    }

    /// The stride of each stage, and the [height, width] that is left.
    fn strides(&self) -> (Vec<usize>, [usize; 2]) {
        let mut left = [self.latent.height, self.latent.width];
        let strides = self.widths.iter().map(|_| {
            let stride = if left == [1, 1] { 1 } else { 2 };
            left = left.map(|extent| extent.div_ceil(stride));
            stride
        });
        (strides.collect(), left)
    }

    fn widest(&self) -> usize {
        self.widths[self.widths.len() - 1]
    }
}

/// A linear map that begins normal with variance 2/(inputs + outputs).
fn linear(builder: &mut ArenaBuilder, name: &str, sizes: [usize; 2]) -> Linear {
    let deviation = (2.0 / (sizes[0] + sizes[1]) as f32).sqrt();
    Linear::new(builder, name, sizes, Initialization::Normal(deviation), Initialization::Zero)
}

/// Images to embeddings.
pub(crate) struct EncoderNetwork {
    down: Downsampling,
    norm: NormalizedActivation,
    embed: Linear,
}

impl EncoderNetwork {
    pub(crate) fn new(shape: &LongLiveShape, builder: &mut ArenaBuilder) -> Result<Self> {
        shape.check()?;
        let (widths, channels) = (&shape.widths, shape.latent.channels);
        let widest = shape.widest();
        Ok(Self {
            down: Downsampling::new(builder, "encoder", channels, widths, &shape.strides().0),
            norm: NormalizedActivation::new(builder, "encoder.norm", widest),
            embed: linear(builder, "encoder.fc", [widest, shape.embedding]),
        })
    }

    /// Images [n, C, H, W] to embeddings [n, D].
    pub(crate) fn forward(
        &self,
        pass: &mut Pass<'_>,
        images: &Tensor,
    ) -> far_tensor::Result<Tensor> {
        let x = self.down.forward(pass, images)?;
        let x = self.norm.forward(pass, &x)?;
        let &[count, channels, height, width] = x.shape().extents() else {
            unreachable!("a convolution gives four axes")
        };
        let x = pass.mean_axis(&x.reshape([count, channels, height * width])?, 2)?;
        self.embed.forward(pass, &x)
    }
}

/// Embeddings to images.
pub(crate) struct DecoderNetwork {
    expand: Linear,
    up: Upsampling,
    /// Channels, height and width of the smallest map.
    bottom: [usize; 3],
    /// Height and width of the latent.
    size: [usize; 2],
}

impl DecoderNetwork {
    pub(crate) fn new(shape: &LongLiveShape, builder: &mut ArenaBuilder) -> Self {
        let (strides, [height, width]) = shape.strides();
        let bottom = [shape.widest(), height, width];
        let sizes = [shape.embedding, bottom.iter().product()];
        let LatentShape { channels, height, width, .. } = shape.latent;
        Self {
            expand: linear(builder, "decoder.fc", sizes),
            up: Upsampling::new(builder, "decoder", &shape.widths, &strides, channels),
            bottom,
            size: [height, width],
        }
    }

    /// Embeddings [n, D] to images [n, C, H, W].
    pub(crate) fn forward(
        &self,
        pass: &mut Pass<'_>,
        embeddings: &Tensor,
    ) -> far_tensor::Result<Tensor> {
        let count = embeddings.shape().rows();
        let [channels, height, width] = self.bottom;
        let x = self.expand.forward(pass, embeddings)?;
        let x = pass.activate(&x, Activation::Silu)?;
        let x = x.reshape([count, channels, height, width])?;
        let mut x = self.up.forward(pass, &x)?;
        // Sizes that were odd came back one larger.
        for (axis, extent) in [2, 3].into_iter().zip(self.size) {
            if x.shape().extents()[axis] > extent {
                x = pass.slice(&x, axis, 0..extent)?;
            }
        }
        Ok(x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use far_tensor::{Device, Tape};

    fn shape(height: usize, width: usize) -> LongLiveShape {
        let latent = LatentShape { channels: 2, height, width, patch: 1 };
        LongLiveShape { latent, widths: vec![4, 4, 8], embedding: 5 }
    }

    #[test]
    fn maps_never_shrink_below_one_place() {
        assert_eq!(shape(18, 32).strides(), (vec![2, 2, 2], [3, 4]));
        assert_eq!(shape(4, 4).strides(), (vec![2, 2, 1], [1, 1]));
        assert_eq!(shape(1, 3).strides(), (vec![2, 2, 1], [1, 1]));
        assert_eq!(shape(1, 1).strides(), (vec![1, 1, 1], [1, 1]));
    }

    #[test]
    fn images_of_any_size_come_back_with_their_size() {
        for (height, width) in [(18, 32), (4, 4), (1, 3), (1, 1), (7, 5)] {
            let shape = shape(height, width);
            let mut builder = ArenaBuilder::new("longlive");
            let encoder = EncoderNetwork::new(&shape, &mut builder).unwrap();
            let decoder = DecoderNetwork::new(&shape, &mut builder);
            let parameters = builder.build(0);
            let mut tape = Tape::inference(&Device::cpu());
            let images = Tensor::zeros([3, 2, height, width]);
            let embeddings =
                encoder.forward(&mut Pass::new(&mut tape, &parameters), &images).unwrap();
            assert_eq!(embeddings.shape().extents(), [3, 5]);
            let decoded =
                decoder.forward(&mut Pass::new(&mut tape, &parameters), &embeddings).unwrap();
            assert_eq!(decoded.shape(), images.shape());
        }
    }

    #[test]
    fn absurd_sizes_are_refused() {
        let mut builder = ArenaBuilder::new("longlive");
        let without = LongLiveShape { widths: Vec::new(), ..shape(4, 4) };
        let endless = LongLiveShape { embedding: usize::MAX, ..shape(4, 4) };
        for shape in [without, endless, shape(0, 4)] {
            assert!(EncoderNetwork::new(&shape, &mut builder).is_err());
        }
    }
}
