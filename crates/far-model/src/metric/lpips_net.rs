//! The two convolutional trunks that LPIPS looks through.
//!
//! Five stages each; a stage is an optional maximum pool and one or more convolutions with ReLU, and
//! its result is one layer of the distance. Parameters carry the names of the metric's authors,
//! `net.slice{stage}.{index}`, where the index counts the modules of the original classifier.

use crate::layer::Pass;
use far_tensor::{
    ArenaBuilder, Filter, Initialization, Padding, ParameterId, Parameters, Result, Tensor, Window,
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

/// A trunk and the head of each stage; the numbers are in the arena it was built into.
pub(super) struct Trunk {
    net: LpipsNet,
    /// Weight and bias by stage and convolution.
    convolutions: Vec<Vec<[ParameterId; 2]>>,
    /// Weights of channels by stage.
    heads: Vec<ParameterId>,
}

impl Trunk {
    pub(super) fn new(builder: &mut ArenaBuilder, net: LpipsNet) -> Self {
        // All values come from a file: how they begin does not matter.
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
        Self { net, convolutions, heads }
    }

    /// Features of scaled images [B, H, W, 3] after each of the first `stages`, [B, H′, W′, C].
    pub(super) fn features(
        &self,
        pass: &mut Pass<'_>,
        images: &Tensor,
        stages: usize,
    ) -> Result<Vec<Tensor>> {
        let mut x = images.clone();
        let mut features = Vec::new();
        for (stage, ids) in self.net.stages().iter().zip(&self.convolutions).take(stages) {
            if stage.pool > 0 {
                x = pass.permute(&x, &[0, 3, 1, 2])?;
                x = pass.maximum_pool(&x, Window::square(stage.pool, 2, 0))?;
                x = pass.permute(&x, &[0, 2, 3, 1])?;
            }
            for (layer, ids) in stage.layers.iter().zip(ids) {
                let [weight, bias] = ids.map(|id| pass.parameters.tensor(id));
                let filter = Filter {
                    bias: Some(&bias),
                    stride: [layer.stride; 2],
                    padding: Padding::even(layer.padding),
                    relu: true,
                    ..Filter::same(&weight)
                };
                x = pass.convolution_channels_last(&x, &filter)?;
            }
            features.push(x.clone());
        }
        Ok(features)
    }

    /// The head of a stage: one weight per channel.
    pub(super) fn head(&self, parameters: &Parameters, stage: usize) -> Tensor {
        parameters.tensor(self.heads[stage])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use far_tensor::{Device, Tape};

    #[test]
    fn the_least_side_is_the_least() {
        for net in LpipsNet::ALL {
            let mut builder = ArenaBuilder::new("lpips");
            let trunk = Trunk::new(&mut builder, net);
            let parameters = builder.build(0);
            let features = |side: usize| {
                let mut tape = Tape::inference(&Device::cpu());
                let images = Tensor::zeros([1, side, side, 3]);
                trunk.features(&mut Pass::new(&mut tape, &parameters), &images, STAGES)
            };
            let least = net.least_side() as usize;
            assert_eq!(features(least).unwrap()[4].shape().extents()[1..3], [1, 1], "{net:?}");
            assert!(features(least - 1).is_err(), "{net:?}");
            assert_eq!(LpipsNet::from_name(net.name()), Some(net));
        }
    }
}
