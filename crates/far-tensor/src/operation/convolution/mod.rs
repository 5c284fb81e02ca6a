//! Two-dimensional convolution with stride and padding on each side, and what is fused with it.
//!
//! y[b, r, q, o] = f(bias[o] + residual[b, r, q, o] + Σ_{i,j,c} W[o, c, i, j] ·
//! x[b, ⌊(r·s₀ + i − top)/n⌋, ⌊(q·s₁ + j − left)/n⌋, c]), zeros around the image; n is how often
//! pixels are repeated each way (nearest-neighbor enlargement), f is ReLU or nothing. Over repeated
//! pixels smaller windows do the same where they can (`fold.rs`).
//!
//! Shapes: x [B, H, W, C], weight [O, C, K₀, K₁], bias [O], y and residual [B, ⌊(nH + top + bottom −
//! K₀)/s₀⌋ + 1, likewise for columns, O]. Images whose channels come before their rows are turned
//! around on the way in and out.
//!
//! Backward, with d = dL/dy where y is positive: dresidual = d; dbias = Σ d over images and pixels;
//! dW[o, c, i, j] = Σ d·x over what the window's element met; dx is the convolution of d, its pixels
//! the stride apart, with the window turned around, summed over what was repeated.

mod direct;
mod fold;
mod sliding;
#[cfg(test)]
mod tests;
mod tile;

use super::row::{for_rows, put};
use super::window::Padding;
use crate::buffer::Buffer;
use crate::gradient::GradientStore;
use crate::parallel::{reduce_ranges, row_grain};
use crate::vectorize::{add_rows, put_row};
use crate::{Device, Result, Tape, Tensor};
use direct::{Ending, PackedWeight};
pub(crate) use fold::Placement;
pub(crate) use sliding::Sliding;

/// A filter of [`Tape::convolution_channels_last`]; pairs are [rows, columns].
#[derive(Clone, Copy)]
pub struct Filter<'a> {
    /// [outputs, channels, kernel rows, kernel columns].
    pub weight: &'a Tensor,
    /// One element per output.
    pub bias: Option<&'a Tensor>,
    /// How far the window moves.
    pub stride: [usize; 2],
    /// Zeros around the image.
    pub padding: Padding,
    /// How often each pixel is repeated, each way, before the window slides over the image.
    pub repeat: usize,
    /// Added to the result, in whose shape it is.
    pub residual: Option<&'a Tensor>,
    /// Whether what is negative becomes zero in the end.
    pub relu: bool,
}

impl<'a> Filter<'a> {
    /// A filter that moves by one pixel and adds zeros so that images keep their size, if its window
    /// has odd sides.
    pub fn same(weight: &'a Tensor) -> Self {
        let [.., rows, columns] = weight.shape().extents() else { return Self::plain(weight) };
        let (rows, columns) = (rows / 2, columns / 2);
        let padding = Padding { top: rows, bottom: rows, left: columns, right: columns };
        Self { padding, ..Self::plain(weight) }
    }

    fn plain(weight: &'a Tensor) -> Self {
        let padding = Padding::default();
        Self { weight, bias: None, stride: [1; 2], padding, repeat: 1, residual: None, relu: false }
    }

    fn inputs(&self, x: &'a Tensor) -> [&'a Tensor; 4] {
        let weight = self.weight;
        [x, weight, self.bias.unwrap_or(weight), self.residual.unwrap_or(weight)]
    }
}

impl Tape {
    /// Convolution of images: x [B, C, H, W], weight [O, C, K₀, K₁], bias `[O]` →
    /// [B, O, H′, W′]; `stride` is [rows, columns].
    ///
    /// ```
    /// use far_tensor::{Device, Padding, Tape, Tensor};
    /// let x = Tensor::from_slice(&[1.0, 2.0, 3.0, 4.0], [1, 1, 2, 2])?;
    /// let weight = Tensor::from_slice(&[1.0, 10.0], [1, 1, 1, 2])?;
    /// let padding = Padding { right: 1, ..Padding::default() };
    /// let y = Tape::inference(&Device::cpu()).convolution(&x, &weight, None, [1, 1], padding)?;
    /// assert_eq!(y.values(), [21.0, 2.0, 43.0, 4.0]);
    /// # Ok::<(), far_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the shapes do not fit or the window does not fit the padded image.
    pub fn convolution(
        &mut self,
        x: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
        stride: [usize; 2],
        padding: Padding,
    ) -> Result<Tensor> {
        x.expect("convolution", x.shape().rank() == 4, || {
            "images are [batch, channels, height, width]".to_owned()
        })?;
        let filter = Filter { bias, stride, padding, ..Filter::plain(weight) };
        let x = self.permute(x, &[0, 2, 3, 1])?;
        let y = self.convolution_channels_last(&x, &filter)?;
        self.permute(&y, &[0, 3, 1, 2])
    }

    /// Convolution of images that lie channels last, x [B, H, W, C] → [B, H′, W′, O], with what the
    /// [`Filter`] fuses.
    ///
    /// ```
    /// use far_tensor::{Device, Filter, Tape, Tensor};
    /// let x = Tensor::from_slice(&[1.0, 2.0], [1, 1, 2, 1])?;
    /// let weight = Tensor::from_slice(&[1.0, 0.0, -1.0], [1, 1, 1, 3])?;
    /// let filter = Filter { relu: true, repeat: 2, ..Filter::same(&weight) };
    /// let y = Tape::inference(&Device::cpu()).convolution_channels_last(&x, &filter)?;
    /// assert_eq!(y.shape().extents(), [1, 2, 4, 1]);
    /// assert_eq!(y.values(), [0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 2.0]);
    /// # Ok::<(), far_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the shapes do not fit or the window does not fit the padded image.
    pub fn convolution_channels_last(&mut self, x: &Tensor, filter: &Filter<'_>) -> Result<Tensor> {
        let sliding = Sliding::new(x, filter)?;
        let [rows, columns] = sliding.fit;
        let shape = [sliding.batch, rows, columns, sliding.outputs].into();
        if let Some(residual) = filter.residual {
            let requirement = "a residual has an element for each of the result";
            let elements = sliding.pixels() * sliding.outputs;
            residual.expect_elements("convolution", elements, x, requirement)?;
        }
        if let Some(cuda) = self.cuda() {
            return self.convolution_cuda(&cuda, sliding, shape, x, filter);
        }
        let mut output = self.device().buffer(sliding.pixels() * sliding.outputs);
        let ending = Ending {
            bias: filter.bias.map(Tensor::values),
            residual: filter.residual.map(Tensor::values),
            relu: filter.relu,
            accumulate: false,
        };
        let mut convolve = |part: &Sliding, weight: &[f32]| {
            let weight = PackedWeight::new(self.device(), part, weight, false);
            part.convolve(&mut output, x.values(), &weight, ending);
        };
        let weight = filter.weight.values();
        match sliding.phases() {
            Some(phases) => phases.for_each(|phase| {
                convolve(&phase, &sliding.fold_weight(self.device(), weight, &phase));
            }),
            None => convolve(&sliding, weight),
        }
        let inputs = filter.inputs(x);
        Ok(self.record("convolution", shape, output, &inputs, |y| {
            let node = ConvolutionBackward {
                x: x.clone(),
                weight: filter.weight.clone(),
                bias: filter.bias.cloned(),
                residual: filter.residual.cloned(),
                y: filter.relu.then(|| y.clone()),
                sliding,
            };
            move |upstream, gradients| node.backward(upstream, gradients)
        }))
    }
}

struct ConvolutionBackward {
    x: Tensor,
    weight: Tensor,
    bias: Option<Tensor>,
    residual: Option<Tensor>,
    /// The result, where what was negative in it became zero.
    y: Option<Tensor>,
    sliding: Sliding,
}

impl ConvolutionBackward {
    fn add_image_gradient(
        &self,
        device: &Device,
        gradient: &mut [f32],
        accumulate: bool,
        upstream: &[f32],
    ) {
        let back = self.sliding.back();
        let weight = PackedWeight::new(device, &back, self.weight.values(), true);
        let repeat = self.sliding.repeat;
        if repeat == 1 {
            let ending = Ending { accumulate, ..Ending::default() };
            return back.convolve(gradient, upstream, &weight, ending);
        }
        let mut repeated = device.buffer(back.pixels() * back.outputs);
        back.convolve(&mut repeated, upstream, &weight, Ending::default());
        let channels = back.outputs;
        let width = self.sliding.image[1] * channels;
        for_rows(gradient, width, width * repeat * repeat, |line, part| {
            let lines = &repeated[line * repeat * width * repeat..][..repeat * width * repeat];
            for (place, gradient) in part.iter_mut().enumerate() {
                let (column, channel) = (place / channels, place % channels);
                let block = lines.chunks_exact(width * repeat).flat_map(|line| {
                    (0..repeat).map(move |n| line[(column * repeat + n) * channels + channel])
                });
                put(gradient, block.sum(), accumulate);
            }
        });
    }

    fn backward(&self, mut upstream: Buffer, gradients: &mut GradientStore<'_>) {
        let device = gradients.device().clone();
        if let Some(y) = &self.y {
            for_rows(&mut upstream, self.sliding.outputs, self.sliding.outputs, |row, part| {
                let y = &y.values()[row * part.len()..][..part.len()];
                part.iter_mut().zip(y).for_each(|(d, y)| *d = if *y > 0.0 { *d } else { 0.0 });
            });
        }
        if let Some(residual) = &self.residual {
            gradients.with(residual, |gradient, accumulate| {
                put_row(gradient, &upstream, accumulate);
            });
        }
        let (pixels, outputs) = (self.sliding.pixels(), self.sliding.outputs);
        if let Some(bias) = &self.bias {
            gradients.with(bias, |gradient, accumulate| {
                let grain = row_grain(outputs);
                reduce_ranges(&device, pixels, grain, gradient, accumulate, |rows, total| {
                    add_rows(total, &upstream[rows.start * outputs..rows.end * outputs]);
                });
            });
        }
        gradients.with(&self.weight, |gradient, accumulate| {
            let x = self.x.values();
            self.sliding.weight_gradient(&device, gradient, accumulate, x, &upstream);
        });
        gradients.with(&self.x, |gradient, accumulate| {
            self.add_image_gradient(&device, gradient, accumulate, &upstream);
        });
    }
}
