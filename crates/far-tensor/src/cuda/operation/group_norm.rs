//! GroupNorm on a GPU.

use super::team::Team;
use crate::cuda::{Cuda, CudaBuffer, Element, Kernel, Launch, Program, arguments, programs};
use crate::gradient::GradientStore;
use crate::tape::CudaBackward;
use crate::{Result, Tape, Tensor};

programs! {
    /// GroupNorm.
    GROUP_NORM = "group_norm": "run.cuh", "team.cuh", "group_norm.cu";
}

fn kernel(name: &'static str) -> Kernel {
    Kernel { program: &GROUP_NORM, name }
}

/// What is standardized together.
#[derive(Clone, Copy)]
pub(crate) struct ChannelGroups {
    pub batch: usize,
    pub channels: usize,
    pub groups: usize,
    /// Elements of one channel of one sample.
    pub space: usize,
    /// Whether the channels of a place lie side by side.
    pub last: bool,
}

impl ChannelGroups {
    fn rows(&self) -> usize {
        self.batch * self.channels
    }

    /// Channels of a group.
    fn members(&self) -> usize {
        self.channels / self.groups
    }
}

impl Tape {
    /// See [`Tape::group_norm`].
    pub(crate) fn group_norm_cuda(
        &mut self,
        cuda: &Cuda,
        sizes: ChannelGroups,
        [x, scale, shift]: [&Tensor; 3],
        epsilon: f32,
    ) -> Result<Tensor> {
        let element = x.element(cuda);
        let ChannelGroups { batch, channels, groups, space, last } = sizes;
        let (rows, members) = (sizes.rows(), sizes.members());
        let (count, block) = (batch * groups, members * space);
        let moments = cuda.buffer(Element::F32, 2 * count)?;
        let source = x.pointer(cuda, element)?;
        let team = Team::of_rows(count, block);
        let kept = moments.pointer();
        let arguments =
            arguments![source, kept, count, space, channels, members, last, epsilon, team.size];
        cuda.launch(kernel("group_moments"), element, team.launch, arguments)?;

        let output = cuda.buffer(element, rows * space)?;
        let [gamma, beta] =
            [scale.pointer(cuda, Element::F32)?, shift.pointer(cuda, Element::F32)?];
        let target = output.pointer();
        let arguments =
            arguments![source, kept, gamma, beta, target, rows, space, channels, members, last];
        cuda.launch(kernel("group_norm"), element, Launch::elements(rows * space), arguments)?;
        let inputs = [x, scale, shift];
        Ok(self.record_cuda("group_norm", *x.shape(), output, &inputs, |_| GroupNormBackward {
            x: x.clone(),
            scale: scale.clone(),
            shift: shift.clone(),
            moments,
            sizes,
        }))
    }
}

struct GroupNormBackward {
    x: Tensor,
    scale: Tensor,
    shift: Tensor,
    /// μ and 1/√(variance + ε) of each group of each sample.
    moments: CudaBuffer,
    sizes: ChannelGroups,
}

impl CudaBackward for GroupNormBackward {
    fn backward(
        &self,
        cuda: &Cuda,
        upstream: CudaBuffer,
        gradients: &mut GradientStore<'_>,
    ) -> Result<()> {
        let (element, d) = (upstream.element(), upstream.pointer());
        let ChannelGroups { batch, channels, groups, space, last } = self.sizes;
        let (rows, members) = (self.sizes.rows(), self.sizes.members());
        let (x, moments) = (self.x.pointer(cuda, element)?, self.moments.pointer());
        // Σ d and Σ d·x̂ of each row, from which everything else follows.
        let sums = cuda.buffer(Element::F32, 2 * rows)?;
        let team = Team::of_rows(rows, space);
        let arguments = arguments![
            d,
            x,
            moments,
            sums.pointer(),
            rows,
            space,
            channels,
            members,
            last,
            team.size
        ];
        cuda.launch(kernel("group_norm_sums"), element, team.launch, arguments)?;
        for (parameter, which) in [(&self.shift, 0), (&self.scale, 1)] {
            gradients.with_cuda(parameter, Element::F32, |target, accumulate| {
                let arguments =
                    arguments![sums.pointer(), target, batch, channels, which, accumulate];
                let launch = Launch::elements(channels);
                cuda.launch_plain(kernel("group_norm_parameter"), launch, arguments)
            })?;
        }
        gradients.with_cuda(&self.x, element, |target, accumulate| {
            let (count, block) = (batch * groups, members * space);
            let means = cuda.buffer(Element::F32, 2 * count)?;
            let (gamma, middle) = (self.scale.pointer(cuda, Element::F32)?, means.pointer());
            let arguments =
                arguments![sums.pointer(), gamma, middle, count, channels, members, block];
            let launch = Launch::elements(count);
            cuda.launch_plain(kernel("group_norm_means"), launch, arguments)?;
            let arguments = arguments![
                d, x, moments, middle, gamma, target, rows, space, channels, members, last,
                accumulate
            ];
            let launch = Launch::elements(rows * space);
            cuda.launch(kernel("group_norm_backward"), element, launch, arguments)
        })
    }
}
