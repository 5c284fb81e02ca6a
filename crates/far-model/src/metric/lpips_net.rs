//! The two convolutional trunks that LPIPS looks through.
//!
//! Five stages each; a stage is an optional maximum pool and one or more convolutions with ReLU, and
//! its result is one layer of the distance. Parameters carry the names of the metric's authors,
//! `net.slice{stage}.{index}`, where the index counts the modules of the original classifier.

use far_tensor::{
    ArenaBuilder, Checkpoint, Filter, Initialization, Matching, Padding, ParameterId, Parameters,
    Result, Tape, Tensor, Window,
};

/// Stages of a trunk, and so layers of the distance.
pub(super) const STAGES: usize = 5;

far_memory::named! {
    /// Which network LPIPS looks through.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum LpipsNet {
        /// AlexNet: 2.5 M weights, the authors' choice for comparing results.
        #[default]
        Alex = "alex",
        /// VGG16: 14.7 M weights, the choice for a loss.
        Vgg = "vgg",
    }
}

/// A convolution with even padding, followed by ReLU.
struct Layer {
    index: usize,
    outputs: usize,
    kernel: usize,
    stride: usize,
    padding: usize,
}

/// A maximum pool with this window (0 for none) and stride 2, then convolutions.
struct Stage {
    pool: usize,
    layers: &'static [Layer],
}

const fn three(index: usize, outputs: usize) -> Layer {
    Layer { index, outputs, kernel: 3, stride: 1, padding: 1 }
}

const ALEX: [Stage; STAGES] = [
    Stage {
        pool: 0,
        layers: &[Layer { index: 0, outputs: 64, kernel: 11, stride: 4, padding: 2 }],
    },
    Stage {
        pool: 3,
        layers: &[Layer { index: 3, outputs: 192, kernel: 5, stride: 1, padding: 2 }],
    },
    Stage { pool: 3, layers: &[three(6, 384)] },
    Stage { pool: 0, layers: &[three(8, 256)] },
    Stage { pool: 0, layers: &[three(10, 256)] },
];

const VGG: [Stage; STAGES] = [
    Stage { pool: 0, layers: &[three(0, 64), three(2, 64)] },
    Stage { pool: 2, layers: &[three(5, 128), three(7, 128)] },
    Stage { pool: 2, layers: &[three(10, 256), three(12, 256), three(14, 256)] },
    Stage { pool: 2, layers: &[three(17, 512), three(19, 512), three(21, 512)] },
    Stage { pool: 2, layers: &[three(24, 512), three(26, 512), three(28, 512)] },
];

impl LpipsNet {
    /// The smallest side of a picture, in pixels, of which the last stage still sees something.
    pub fn least_side(self) -> u32 {
        match self {
            Self::Alex => 31,
            Self::Vgg => 16,
        }
    }

    fn stages(self) -> &'static [Stage; STAGES] {
        match self {
            Self::Alex => &ALEX,
            Self::Vgg => &VGG,
        }
    }
}

/// A trunk and the head of each stage.
pub(super) struct Trunk {
    net: LpipsNet,
    pub(super) parameters: Parameters,
    /// Weight and bias by stage and convolution.
    convolutions: Vec<Vec<[ParameterId; 2]>>,
    /// Weights of channels by stage.
    heads: Vec<ParameterId>,
}

impl Trunk {
    /// A trunk whose numbers are all zero.
    pub(super) fn new(net: LpipsNet) -> Self {
        let mut builder = ArenaBuilder::new("lpips");
        let mut parameter =
            |name: String, shape: &[usize]| builder.parameter(name, shape, Initialization::Zero);
        let (mut convolutions, mut heads) = (Vec::new(), Vec::new());
        let mut channels = 3;
        for (number, stage) in net.stages().iter().enumerate() {
            let mut ids = Vec::new();
            for &Layer { index, outputs, kernel, .. } in stage.layers {
                let name = format!("net.slice{}.{index}", number + 1);
                let weight =
                    parameter(format!("{name}.weight"), &[outputs, channels, kernel, kernel]);
                ids.push([weight, parameter(format!("{name}.bias"), &[outputs])]);
                channels = outputs;
            }
            convolutions.push(ids);
            heads.push(parameter(format!("lin{number}.model.1.weight"), &[1, channels, 1, 1]));
        }
        Self { net, parameters: builder.build(0), convolutions, heads }
    }

    /// A trunk with the numbers of a file.
    pub(super) fn load(mut checkpoint: Checkpoint, net: LpipsNet) -> Result<Self> {
        let mut trunk = Self::new(net);
        checkpoint.load_parameters("", &mut trunk.parameters, Matching::Strict)?;
        trunk.parameters.freeze();
        Ok(trunk)
    }

    /// Features of scaled images [B, H, W, 3] after each stage, [B, H′, W′, C].
    pub(super) fn features(&self, tape: &mut Tape, images: &Tensor) -> Result<Vec<Tensor>> {
        let mut x = images.clone();
        let mut features = Vec::new();
        for (stage, ids) in self.net.stages().iter().zip(&self.convolutions) {
            if stage.pool > 0 {
                x = tape.permute(&x, &[0, 3, 1, 2])?;
                x = tape.maximum_pool(&x, Window::square(stage.pool, 2, 0))?;
                x = tape.permute(&x, &[0, 2, 3, 1])?;
            }
            for (layer, ids) in stage.layers.iter().zip(ids) {
                let [weight, bias] = ids.map(|id| self.parameters.tensor(id));
                let filter = Filter {
                    bias: Some(&bias),
                    stride: [layer.stride; 2],
                    padding: Padding::even(layer.padding),
                    relu: true,
                    ..Filter::same(&weight)
                };
                x = tape.convolution_channels_last(&x, &filter)?;
            }
            features.push(x.clone());
        }
        Ok(features)
    }

    /// The head of a stage: one weight per channel.
    pub(super) fn head(&self, stage: usize) -> Tensor {
        self.parameters.tensor(self.heads[stage])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use far_tensor::Device;

    #[test]
    fn the_least_side_is_the_least() {
        for net in LpipsNet::ALL {
            let trunk = Trunk::new(net);
            let features = |side: usize| {
                let images = Tensor::zeros([1, side, side, 3]);
                trunk.features(&mut Tape::inference(&Device::cpu()), &images)
            };
            let least = net.least_side() as usize;
            assert_eq!(features(least).unwrap()[4].shape().extents()[1..3], [1, 1], "{net:?}");
            assert!(features(least - 1).is_err(), "{net:?}");
            assert_eq!(LpipsNet::from_name(net.name()), Some(net));
        }
    }
}
