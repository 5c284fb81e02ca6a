//! GroupNorm on a GPU.

use super::team::Team;
use crate::cuda::{Cuda, Element, Launch, Program, arguments, programs};
use crate::{Result, Tape, Tensor};

programs! {
    /// GroupNorm.
    GROUP_NORM = "group_norm": "run.cuh", "team.cuh", "group_norm.cu";
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
        cuda.launch(GROUP_NORM.kernel("group_moments"), element, team.launch, arguments)?;

        let output = cuda.buffer(element, rows * space)?;
        let [gamma, beta] =
            [scale.pointer(cuda, Element::F32)?, shift.pointer(cuda, Element::F32)?];
        let target = output.pointer();
        let arguments =
            arguments![source, kept, gamma, beta, target, rows, space, channels, members, last];
        cuda.launch(
            GROUP_NORM.kernel("group_norm"),
            element,
            Launch::elements(rows * space),
            arguments,
        )?;
        let inputs = [x, scale, shift];
        Ok(self.record_cuda("group_norm", *x.shape(), output, &inputs, |_| {
            let (x, scale, shift) = (x.clone(), scale.clone(), shift.clone());
            move |cuda, upstream, gradients| {
                let (element, d) = (upstream.element(), upstream.pointer());
                let (source, kept) = (x.pointer(cuda, element)?, moments.pointer());
                // Σ d and Σ d·x̂ of each row, from which everything else follows.
                let sums = cuda.buffer(Element::F32, 2 * rows)?;
                let team = Team::of_rows(rows, space);
                let (totals, threads) = (sums.pointer(), team.size);
                let arguments = arguments![
                    d, source, kept, totals, rows, space, channels, members, last, threads
                ];
                cuda.launch(GROUP_NORM.kernel("group_norm_sums"), element, team.launch, arguments)?;
                for (parameter, which) in [(&shift, 0), (&scale, 1)] {
                    gradients.with_cuda(parameter, Element::F32, |target, accumulate| {
                        let arguments =
                            arguments![totals, target, batch, channels, which, accumulate];
                        let launch = Launch::elements(channels);
                        cuda.launch_plain(
                            GROUP_NORM.kernel("group_norm_parameter"),
                            launch,
                            arguments,
                        )
                    })?;
                }
                gradients.with_cuda(&x, element, |target, accumulate| {
                    let means = cuda.buffer(Element::F32, 2 * count)?;
                    let (gamma, middle) = (scale.pointer(cuda, Element::F32)?, means.pointer());
                    let arguments =
                        arguments![totals, gamma, middle, count, channels, members, block];
                    let launch = Launch::elements(count);
                    cuda.launch_plain(GROUP_NORM.kernel("group_norm_means"), launch, arguments)?;
                    let arguments = arguments![
                        d, source, kept, middle, gamma, target, rows, space, channels, members,
                        last, accumulate
                    ];
                    let launch = Launch::elements(rows * space);
                    cuda.launch(
                        GROUP_NORM.kernel("group_norm_backward"),
                        element,
                        launch,
                        arguments,
                    )
                })
            }
        }))
    }
}
