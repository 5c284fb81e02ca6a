//! How a window slides over images that lie channels last.

use super::Filter;
use super::fold::Placement;
use crate::operation::{Padding, Window};
use crate::{Error, Result, Tensor};

/// Which pixels of the source each pixel of the result reaches; pairs are [rows, columns].
///
/// Where the window stands at `place`, its element i is at the position place·stride + i − before.
/// There it meets a pixel of the source if the position is a multiple of `gap`, and it meets each
/// pixel `repeat` times in a row. A convolution has no gaps; the gradient of one that moves by its
/// stride has gaps as wide, and repeats nothing. A phase of a convolution ([`Sliding::phases`]) writes
/// some of the result's pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sliding {
    pub batch: usize,
    /// Channels of the source.
    pub channels: usize,
    /// Channels of the result.
    pub outputs: usize,
    /// The extent of a stored image.
    pub image: [usize; 2],
    /// The extent of the result, or of what is written of it.
    pub fit: [usize; 2],
    pub kernel: [usize; 2],
    pub stride: [usize; 2],
    /// Negative where even the first window begins inside the image.
    pub before: [isize; 2],
    pub gap: [usize; 2],
    pub repeat: usize,
    pub placement: Placement,
}

impl Sliding {
    /// That of a filter over x [batch, height, width, channels].
    pub(super) fn new(x: &Tensor, filter: &Filter<'_>) -> Result<Self> {
        let &Filter { weight, bias, stride, padding, repeat, .. } = filter;
        let misfit = || {
            let requirement = "images have four axes, a weight is [outputs, channels, kernel height, \
                               kernel width], and the channels are as many";
            Error::mismatch("convolution", [x.shape(), weight.shape()], requirement)
        };
        let (&[batch, height, width, channels], &[outputs, inputs, rows, columns]) =
            (x.shape().extents(), weight.shape().extents())
        else {
            return Err(misfit());
        };
        if channels != inputs {
            return Err(misfit());
        }
        if let Some(bias) = bias {
            let requirement = "a bias has one element per output channel";
            bias.expect_elements("convolution", outputs, weight, requirement)?;
        }
        x.expect("convolution", repeat > 0, || "pixels are repeated at least once".to_owned())?;
        let window = Window { kernel: [rows, columns], stride, padding };
        let image = [height, width];
        let fit = window.fit("convolution", x, image.map(|extent| extent * repeat))?;
        let Padding { top, left, .. } = padding;
        let (kernel, before) = ([rows, columns], [top as isize, left as isize]);
        Ok(Self {
            batch,
            channels,
            outputs,
            image,
            fit,
            kernel,
            stride,
            before,
            gap: [1; 2],
            repeat,
            placement: Placement::whole(fit),
        })
    }

    /// The way back: from the gradient of the result to that of the source, with every pixel as often
    /// as it was repeated. The window is turned around.
    pub(crate) fn back(&self) -> Self {
        let fit = self.image.map(|extent| extent * self.repeat);
        Self {
            channels: self.outputs,
            outputs: self.channels,
            image: self.fit,
            fit,
            stride: [1; 2],
            before: [0, 1].map(|axis| self.kernel[axis] as isize - 1 - self.before[axis]),
            gap: self.stride,
            repeat: 1,
            placement: Placement::whole(fit),
            ..*self
        }
    }

    /// Elements of the window.
    pub(crate) fn taps(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }

    /// Pixels that are written, in all images.
    pub(crate) fn pixels(&self) -> usize {
        self.batch * self.fit[0] * self.fit[1]
    }

    /// The place in the source, along an axis, that is met at a position counted from the first
    /// window's first element.
    pub(super) fn meets(&self, axis: usize, position: usize) -> Option<usize> {
        let position = usize::try_from(position as isize - self.before[axis]).ok()?;
        let place = position / self.gap[axis] / self.repeat;
        (position.is_multiple_of(self.gap[axis]) && place < self.image[axis]).then_some(place)
    }

    /// Positions that the windows of one line reach.
    pub(super) fn reached(&self) -> usize {
        (self.fit[1] - 1) * self.stride[1] + self.kernel[1]
    }
}
