//! Statistics over the valid elements of an axis on a GPU.

use super::softmax::mask_pointer;
use super::team::Team;
use crate::cuda::{Cuda, CudaBuffer, Kernel, Program, arguments, programs};
use crate::gradient::GradientStore;
use crate::operation::Statistic;
use crate::tape::CudaBackward;
use crate::{Result, Shape, Tape, Tensor};

programs! {
    /// Statistics and standardization.
    MASKED = "masked": "team.cuh", "masked.cu";
}

fn kernel(name: &'static str) -> Kernel {
    Kernel { program: &MASKED, name }
}

/// The number of groups along an axis, their extent, and how far apart their elements lie.
fn groups(x: &Tensor, axis: usize) -> [usize; 3] {
    let (outer, extent, inner) = x.shape().around(axis);
    [outer * inner, extent, inner]
}

impl Tape {
    /// See [`Tape::statistic`]; `shape` is that of the result.
    pub(crate) fn statistic_cuda(
        &mut self,
        cuda: &Cuda,
        shape: Shape,
        x: &Tensor,
        mask: Option<&Tensor>,
        axis: usize,
        statistic: Statistic,
    ) -> Result<Tensor> {
        let element = x.element(cuda);
        let [count, extent, inner] = groups(x, axis);
        let output = cuda.buffer(element, count)?;
        let team = Team::of_groups(count, extent, inner);
        let (source, chosen) = (x.pointer(cuda, element)?, mask_pointer(cuda, mask, element)?);
        let (target, which) = (output.pointer(), statistic as i32);
        let arguments = arguments![source, chosen, target, count, extent, inner, which, team.size];
        cuda.launch(kernel("statistic"), element, team.launch, arguments)?;
        Ok(self.record_cuda("statistic", shape, output, &[x], |_| StatisticBackward {
            x: x.clone(),
            mask: mask.cloned(),
            axis,
            statistic,
        }))
    }

    /// See [`Tape::standardize`].
    pub(crate) fn standardize_cuda(
        &mut self,
        cuda: &Cuda,
        x: &Tensor,
        mask: Option<&Tensor>,
        axis: usize,
    ) -> Result<Tensor> {
        let element = x.element(cuda);
        let [count, extent, inner] = groups(x, axis);
        let output = cuda.buffer(element, count * extent)?;
        let team = Team::of_groups(count, extent, inner);
        let (source, chosen) = (x.pointer(cuda, element)?, mask_pointer(cuda, mask, element)?);
        let arguments =
            arguments![source, chosen, output.pointer(), count, extent, inner, team.size];
        cuda.launch(kernel("standardize"), element, team.launch, arguments)?;
        Ok(self.record_cuda("standardize", *x.shape(), output, &[x], |_| StandardizeBackward {
            x: x.clone(),
            mask: mask.cloned(),
            axis,
        }))
    }
}

struct StatisticBackward {
    x: Tensor,
    mask: Option<Tensor>,
    axis: usize,
    statistic: Statistic,
}

impl CudaBackward for StatisticBackward {
    fn backward(
        &self,
        cuda: &Cuda,
        upstream: CudaBuffer,
        gradients: &mut GradientStore<'_>,
    ) -> Result<()> {
        let (element, d, which) = (upstream.element(), upstream.pointer(), self.statistic as i32);
        let [count, extent, inner] = groups(&self.x, self.axis);
        let x = self.x.pointer(cuda, element)?;
        let mask = mask_pointer(cuda, self.mask.as_ref(), element)?;
        let team = Team::of_groups(count, extent, inner);
        gradients.with_cuda(&self.x, element, |target, accumulate| {
            let arguments =
                arguments![d, x, mask, target, count, extent, inner, which, team.size, accumulate];
            cuda.launch(kernel("statistic_backward"), element, team.launch, arguments)
        })
    }
}

struct StandardizeBackward {
    x: Tensor,
    mask: Option<Tensor>,
    axis: usize,
}

impl CudaBackward for StandardizeBackward {
    fn backward(
        &self,
        cuda: &Cuda,
        upstream: CudaBuffer,
        gradients: &mut GradientStore<'_>,
    ) -> Result<()> {
        let (element, d) = (upstream.element(), upstream.pointer());
        let [count, extent, inner] = groups(&self.x, self.axis);
        let x = self.x.pointer(cuda, element)?;
        let mask = mask_pointer(cuda, self.mask.as_ref(), element)?;
        let team = Team::of_groups(count, extent, inner);
        gradients.with_cuda(&self.x, element, |target, accumulate| {
            let arguments =
                arguments![d, x, mask, target, count, extent, inner, team.size, accumulate];
            cuda.launch(kernel("standardize_backward"), element, team.launch, arguments)
        })
    }
}
