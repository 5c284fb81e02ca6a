//! Stacks of convolutions that make images smaller, and larger again.
//!
//! A stage is a 3×3 convolution, GroupNorm, SiLU and a residual block, which is twice GroupNorm, SiLU
//! and convolution, and begins as the identity. Going down, the convolution of a stage moves by its
//! stride; going up, pixels are repeated as often before it. Images are [N, C, H, W].

use crate::layer::{Pass, Scaling};
use far_tensor::{Activation, ArenaBuilder, Initialization, Padding, ParameterId, Result, Tensor};

/// Side of every window.
const KERNEL: usize = 3;
/// The largest size that a setting may have: no product of a few of them overflows.
const MOST: usize = 1 << 14;
/// The most stages; more would halve any image away.
const MOST_STAGES: usize = 10;

/// The most pixels of an image: settings in a file must not ask for memory beyond reason.
const MOST_PIXELS: usize = 1 << 22;

/// Whether there are stages but not too many, all sizes are positive and not absurd, and an image of
/// this [width, height] can be held.
pub(crate) fn are_sound(widths: &[usize], sizes: &[usize], image: [usize; 2]) -> bool {
    let stages = 1..=MOST_STAGES;
    let mut all = widths.iter().chain(sizes).chain(&image);
    stages.contains(&widths.len())
        && all.all(|size| (1..=MOST).contains(size))
        && image[0] * image[1] <= MOST_PIXELS
}

/// A 3×3 convolution that keeps the size of an image divided by its stride, rounded up.
pub(crate) struct Convolution {
    weight: ParameterId,
    bias: ParameterId,
    stride: usize,
}

impl Convolution {
    /// A convolution that begins as He proposed: normal with variance 2/inputs.
    pub(crate) fn new(
        builder: &mut ArenaBuilder,
        name: &str,
        [inputs, outputs]: [usize; 2],
        stride: usize,
    ) -> Self {
        let deviation = (2.0 / (inputs * KERNEL * KERNEL) as f32).sqrt();
        let weight = Initialization::Normal(deviation);
        Self::begin(builder, name, [inputs, outputs], stride, weight)
    }

    fn begin(
        builder: &mut ArenaBuilder,
        name: &str,
        [inputs, outputs]: [usize; 2],
        stride: usize,
        weight: Initialization,
    ) -> Self {
        let shape = [outputs, inputs, KERNEL, KERNEL];
        Self {
            weight: builder.parameter(format!("{name}.weight"), shape, weight),
            bias: builder.parameter(format!("{name}.bias"), [outputs], Initialization::Zero),
            stride,
        }
    }

    pub(crate) fn forward(&self, pass: &mut Pass<'_>, x: &Tensor) -> Result<Tensor> {
        let [weight, bias] = [self.weight, self.bias].map(|id| pass.parameters.tensor(id));
        pass.convolution(x, &weight, Some(&bias), [self.stride; 2], Padding::even(KERNEL / 2))
    }
}

/// GroupNorm and SiLU.
pub(crate) struct NormalizedActivation {
    scaling: Scaling,
    groups: usize,
}

impl NormalizedActivation {
    pub(crate) fn new(builder: &mut ArenaBuilder, name: &str, channels: usize) -> Self {
        Self { scaling: Scaling::new(builder, name, channels), groups: groups(channels) }
    }

    pub(crate) fn forward(&self, pass: &mut Pass<'_>, x: &Tensor) -> Result<Tensor> {
        let [scale, shift] = self.scaling.tensors(pass.parameters);
        let x = pass.group_norm(x, self.groups, &scale, &shift, 1e-5)?;
        pass.activate(&x, Activation::Silu)
    }
}

/// The largest of 32, 16, 8, 4, 2 and 1 groups that leaves at least two channels in each: of a group
/// of one channel in an image of one pixel nothing would remain.
fn groups(channels: usize) -> usize {
    let fits = |groups: &usize| channels.is_multiple_of(*groups) && channels / groups >= 2;
    [32, 16, 8, 4, 2].into_iter().find(fits).unwrap_or(1)
}

/// Convolution, norm, SiLU, residual block.
struct Stage {
    convolution: Convolution,
    norm: NormalizedActivation,
    residual: [(NormalizedActivation, Convolution); 2],
}

impl Stage {
    fn new(builder: &mut ArenaBuilder, name: &str, sizes: [usize; 2], stride: usize) -> Self {
        let channels = sizes[1];
        let mut half = |number: usize, begin: Option<Initialization>| {
            let (norm, convolution) =
                (format!("{name}.residual.norm{number}"), format!("{name}.residual.conv{number}"));
            let norm = NormalizedActivation::new(builder, &norm, channels);
            let sizes = [channels, channels];
            let convolution = match begin {
                Some(begin) => Convolution::begin(builder, &convolution, sizes, 1, begin),
                None => Convolution::new(builder, &convolution, sizes, 1),
            };
            (norm, convolution)
        };
        let residual = [half(1, None), half(2, Some(Initialization::Zero))];
        Self {
            convolution: Convolution::new(builder, &format!("{name}.conv"), sizes, stride),
            norm: NormalizedActivation::new(builder, &format!("{name}.norm"), channels),
            residual,
        }
    }

    fn forward(&self, pass: &mut Pass<'_>, x: &Tensor) -> Result<Tensor> {
        let x = self.convolution.forward(pass, x)?;
        let x = self.norm.forward(pass, &x)?;
        let mut y = x.clone();
        for (norm, convolution) in &self.residual {
            y = norm.forward(pass, &y)?;
            y = convolution.forward(pass, &y)?;
        }
        pass.add(&x, &y)
    }
}

/// Images to small maps of many channels: one stage per width.
pub(crate) struct Downsampling {
    stages: Vec<Stage>,
}

impl Downsampling {
    /// From `inputs` channels through `widths`, each with its stride.
    pub(crate) fn new(
        builder: &mut ArenaBuilder,
        name: &str,
        inputs: usize,
        widths: &[usize],
        strides: &[usize],
    ) -> Self {
        let mut channels = inputs;
        let stages = widths.iter().zip(strides).enumerate().map(|(number, (width, stride))| {
            let stage =
                Stage::new(builder, &format!("{name}.{number}"), [channels, *width], *stride);
            channels = *width;
            stage
        });
        Self { stages: stages.collect() }
    }

    pub(crate) fn forward(&self, pass: &mut Pass<'_>, x: &Tensor) -> Result<Tensor> {
        let first = x.clone();
        self.stages.iter().try_fold(first, |x, stage| stage.forward(pass, &x))
    }
}

/// The way back: small maps of many channels to images.
pub(crate) struct Upsampling {
    stages: Vec<(usize, Stage)>,
    last: (usize, Convolution),
}

impl Upsampling {
    /// Mirrors the [`Downsampling`] of the same widths and strides; its last convolution gives
    /// `outputs` channels without a norm, since their values have no bounds.
    ///
    /// # Panics
    /// If there is no width.
    pub(crate) fn new(
        builder: &mut ArenaBuilder,
        name: &str,
        widths: &[usize],
        strides: &[usize],
        outputs: usize,
    ) -> Self {
        let stages = (1..widths.len()).rev().map(|place| {
            let sizes = [widths[place], widths[place - 1]];
            let name = format!("{name}.{}", widths.len() - 1 - place);
            (strides[place], Stage::new(builder, &name, sizes, 1))
        });
        let stages = stages.collect();
        let last = Convolution::new(builder, &format!("{name}.last"), [widths[0], outputs], 1);
        Self { stages, last: (strides[0], last) }
    }

    pub(crate) fn forward(&self, pass: &mut Pass<'_>, x: &Tensor) -> Result<Tensor> {
        let mut x = x.clone();
        for (factor, stage) in &self.stages {
            x = pass.upsample(&x, *factor)?;
            x = stage.forward(pass, &x)?;
        }
        let (factor, convolution) = &self.last;
        x = pass.upsample(&x, *factor)?;
        convolution.forward(pass, &x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use far_tensor::{Device, Random, Tape};

    #[test]
    fn down_and_up_again_has_the_same_size() {
        let mut builder = ArenaBuilder::new("stack");
        let (widths, strides) = ([4, 8, 8], [2, 2, 1]);
        let down = Downsampling::new(&mut builder, "down", 3, &widths, &strides);
        let up = Upsampling::new(&mut builder, "up", &widths, &strides, 5);
        let parameters = builder.build(1);
        let mut values = vec![0.0; 2 * 3 * 8 * 4];
        Random::stream(1, "x", 0).fill_normal(&mut values);
        let x = Tensor::from_slice(&values, [2, 3, 8, 4]).unwrap();
        let mut tape = Tape::inference(&Device::cpu());
        let small = down.forward(&mut Pass::new(&mut tape, &parameters), &x).unwrap();
        assert_eq!(small.shape().extents(), [2, 8, 2, 1]);
        let large = up.forward(&mut Pass::new(&mut tape, &parameters), &small).unwrap();
        assert_eq!(large.shape().extents(), [2, 5, 8, 4]);
    }

    #[test]
    fn no_group_has_a_single_channel_where_two_are_to_be_had() {
        assert_eq!([64, 128, 256].map(groups), [32; 3]);
        assert_eq!([1, 2, 6, 12, 32, 48].map(groups), [1, 1, 2, 4, 16, 16]);
    }
}
