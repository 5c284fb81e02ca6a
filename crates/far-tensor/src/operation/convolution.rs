//! Two-dimensional convolution with stride and padding on each side, bias optional.
//!
//! y[b, o, r, q] = bias[o] + Σ_{c,i,j} W[o, c, i, j] · x[b, c, r·s₀ + i − top, q·s₁ + j − left],
//! zeros around the image.
//!
//! Shapes: x [B, C, H, W], weight [O, C, K₀, K₁], bias [O], y [B, O, ⌊(H + top + bottom − K₀)/s₀⌋
//! + 1, likewise for columns].
//!
//! A band of output rows of one image at a time is unfolded into a matrix of patches
//! P [C·K₀·K₁, pixels], small enough to stay in cache: y = W·P. Backward, with d = dL/dy:
//! dW = Σ d·Pᵀ over the bands, dx = Wᵀ·d folded back, dbias = Σ d over images and pixels. Bands
//! depend on the shapes alone.

use super::row::{for_rows, put, row_of};
use super::window::{Padding, Window};
use crate::buffer::Buffer;
use crate::cuda::Convolution;
use crate::gradient::GradientStore;
use crate::parallel::{Disjoint, for_ranges, reduce_ranges, with_scratch};
use crate::product::{Matrix, multiply_here};
use crate::tape::Backward;
use crate::vectorize::{add_assign, sum};
use crate::{Error, Result, Tape, Tensor};
use std::ops::Range;

/// Elements of the matrix of patches of one band: about a megabyte.
const BAND_ELEMENTS: usize = 1 << 18;
/// Into how many parts the gradient of the weight is summed: each has its own copy.
const MOST_PARTS: usize = 8;

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
        let geometry = Geometry::new(x, weight, bias, stride, padding)?;
        let Geometry { batch, outputs, pixels, .. } = geometry;
        if let Some(cuda) = self.cuda() {
            let Geometry { channels, image, window, fit, .. } = geometry;
            let geometry = Convolution { batch, channels, image, outputs, window, fit };
            return self.convolution_cuda(&cuda, geometry, [x, weight], bias);
        }
        let mut output = self.device().buffer(batch * outputs * pixels);
        let shared = Disjoint::new(&mut output);
        for_ranges(geometry.bands(), 1, |bands| {
            for band in bands {
                let (image, place) = geometry.band(band);
                with_scratch(outputs * place.len(), |result| {
                    geometry.product(result, x.values(), weight.values(), image, &place);
                    for (channel, row) in result.chunks_exact(place.len()).enumerate() {
                        let start = (image * outputs + channel) * pixels + place.start;
                        // SAFETY: each band of each image has pixels of its own.
                        let part = unsafe { shared.range(start..start + place.len()) };
                        let level = bias.map_or(0.0, |bias| bias.values()[channel]);
                        part.iter_mut().zip(row).for_each(|(y, value)| *y = value + level);
                    }
                });
            }
        });
        let shape = [batch, outputs, geometry.fit[0], geometry.fit[1]].into();
        let inputs = [x, weight, bias.unwrap_or(weight)];
        Ok(self.record("convolution", shape, output, &inputs, |_| ConvolutionBackward {
            x: x.clone(),
            weight: weight.clone(),
            bias: bias.cloned(),
            geometry,
        }))
    }
}

#[derive(Clone, Copy)]
struct Geometry {
    batch: usize,
    channels: usize,
    image: [usize; 2],
    outputs: usize,
    window: Window,
    /// How often the window fits: the extent of the result.
    fit: [usize; 2],
    pixels: usize,
    /// Elements of a patch: C·K₀·K₁.
    patch: usize,
    band_rows: usize,
}

impl Geometry {
    fn new(
        x: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
        stride: [usize; 2],
        padding: Padding,
    ) -> Result<Self> {
        let misfit = || Error::Mismatch {
            operation: "convolution",
            left: *x.shape(),
            right: *weight.shape(),
            requirement: "images are [batch, channels, height, width] and a weight is \
                          [outputs, channels, kernel height, kernel width]",
        };
        let (&[batch, channels, height, width], &[outputs, inputs, rows, columns]) =
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
        let window = Window { kernel: [rows, columns], stride, padding };
        let image = [height, width];
        let fit = window.fit("convolution", x, image)?;
        let patch = channels * rows * columns;
        let band_rows = (BAND_ELEMENTS / (patch * fit[1]).max(1)).clamp(1, fit[0]);
        let pixels = fit[0] * fit[1];
        Ok(Self { batch, channels, image, outputs, window, fit, pixels, patch, band_rows })
    }

    fn bands_per_image(&self) -> usize {
        self.fit[0].div_ceil(self.band_rows)
    }

    fn bands(&self) -> usize {
        self.batch * self.bands_per_image()
    }

    /// The image of a band and its range of output pixels.
    fn band(&self, band: usize) -> (usize, Range<usize>) {
        let (image, place) = (band / self.bands_per_image(), band % self.bands_per_image());
        let first = place * self.band_rows;
        let end = (first + self.band_rows).min(self.fit[0]);
        (image, first * self.fit[1]..end * self.fit[1])
    }

    fn image_elements(&self) -> usize {
        self.channels * self.image[0] * self.image[1]
    }

    /// Visits the runs of a band that lie inside the image: where a run starts in the matrix of
    /// patches, its length, and where its first element stands in the image.
    fn for_runs(&self, pixels: &Range<usize>, mut visit: impl FnMut(usize, usize, usize)) {
        let ([height, width], [kernel_rows, kernel_columns]) = (self.image, self.window.kernel);
        let rows = pixels.start / self.fit[1]..pixels.end / self.fit[1];
        for element in 0..self.patch {
            let channel = element / (kernel_rows * kernel_columns);
            let (i, j) = (element / kernel_columns % kernel_rows, element % kernel_columns);
            let inside_rows = self.window.inside(0, i, height, rows.end);
            let columns = self.window.inside(1, j, width, self.fit[1]);
            if columns.is_empty() {
                continue;
            }
            for row in inside_rows.start.max(rows.start)..inside_rows.end {
                let place = element * pixels.len() + (row - rows.start) * self.fit[1];
                let y = channel * height + self.window.place(0, i, row);
                let x = self.window.place(1, j, columns.start);
                visit(place + columns.start, columns.len(), y * width + x);
            }
        }
    }

    /// Writes the matrix of patches [patch, pixels] of a band.
    fn unfold(&self, patches: &mut [f32], image: &[f32], pixels: &Range<usize>) {
        if self.window.padding != Padding::default() {
            patches.fill(0.0);
        }
        let stride = self.window.stride[1];
        self.for_runs(pixels, |start, length, place| {
            let run = &mut patches[start..start + length];
            if stride == 1 {
                run.copy_from_slice(&image[place..place + length]);
            } else {
                let values = image[place..].iter().step_by(stride);
                run.iter_mut().zip(values).for_each(|(run, value)| *run = *value);
            }
        });
    }

    /// Adds a matrix of patches back to the image it was made from.
    fn fold(&self, image: &mut [f32], patches: &[f32], pixels: &Range<usize>) {
        let stride = self.window.stride[1];
        self.for_runs(pixels, |start, length, place| {
            let run = &patches[start..start + length];
            if stride == 1 {
                add_assign(&mut image[place..place + length], run);
            } else {
                let values = image[place..].iter_mut().step_by(stride);
                values.zip(run).for_each(|(value, run)| *value += run);
            }
        });
    }

    /// result [outputs, pixels] ← W·P of one band.
    fn product(
        &self,
        result: &mut [f32],
        x: &[f32],
        weight: &[f32],
        image: usize,
        pixels: &Range<usize>,
    ) {
        with_scratch(self.patch * pixels.len(), |patches| {
            self.unfold(patches, row_of(x, self.image_elements(), image), pixels);
            let left = Matrix::plain(weight, self.patch);
            let right = Matrix::plain(patches, pixels.len());
            multiply_here(result, [self.outputs, self.patch, pixels.len()], left, right, false);
        });
    }

    /// d of one band as a matrix [outputs, pixels] within the gradient of the result.
    fn upstream<'a>(&self, upstream: &'a [f32], image: usize, pixels: &Range<usize>) -> Matrix<'a> {
        let start = image * self.outputs * self.pixels + pixels.start;
        Matrix::plain(&upstream[start..], self.pixels)
    }
}

struct ConvolutionBackward {
    x: Tensor,
    weight: Tensor,
    bias: Option<Tensor>,
    geometry: Geometry,
}

impl ConvolutionBackward {
    /// Adds d·Pᵀ of a range of bands to `total` [outputs, patch].
    fn add_weight_gradient(&self, total: &mut [f32], upstream: &[f32], bands: Range<usize>) {
        let geometry = &self.geometry;
        let whole = geometry.image_elements();
        for band in bands {
            let (image, pixels) = geometry.band(band);
            with_scratch(geometry.patch * pixels.len(), |patches| {
                geometry.unfold(patches, row_of(self.x.values(), whole, image), &pixels);
                let left = geometry.upstream(upstream, image, &pixels);
                let right = Matrix::transposed(patches, pixels.len());
                let sizes = [geometry.outputs, pixels.len(), geometry.patch];
                multiply_here(total, sizes, left, right, true);
            });
        }
    }

    /// Adds Wᵀ·d of all bands of one image, folded back.
    fn add_image_gradient(&self, gradient: &mut [f32], upstream: &[f32], image: usize) {
        let geometry = &self.geometry;
        let bands = geometry.bands_per_image();
        for band in image * bands..(image + 1) * bands {
            let (_, pixels) = geometry.band(band);
            with_scratch(geometry.patch * pixels.len(), |patches| {
                let left = Matrix::transposed(self.weight.values(), geometry.patch);
                let right = geometry.upstream(upstream, image, &pixels);
                let sizes = [geometry.patch, geometry.outputs, pixels.len()];
                multiply_here(patches, sizes, left, right, false);
                geometry.fold(gradient, patches, &pixels);
            });
        }
    }
}

impl Backward for ConvolutionBackward {
    fn backward(&self, upstream: Buffer, gradients: &mut GradientStore<'_>) {
        let Geometry { batch, outputs, pixels, .. } = self.geometry;
        let device = gradients.device().clone();
        if let Some(bias) = &self.bias {
            gradients.with(bias, |gradient, accumulate| {
                for_rows(gradient, 1, batch * pixels, |channel, part| {
                    let of = |image| row_of(&upstream, pixels, image * outputs + channel);
                    let total = (0..batch).map(|image| f64::from(sum(of(image)))).sum::<f64>();
                    put(&mut part[0], total as f32, accumulate);
                });
            });
        }
        gradients.with(&self.weight, |gradient, accumulate| {
            let bands = self.geometry.bands();
            let grain = bands.div_ceil(MOST_PARTS);
            reduce_ranges(&device, bands, grain, gradient, accumulate, |range, total| {
                self.add_weight_gradient(total, &upstream, range);
            });
        });
        gradients.with(&self.x, |gradient, accumulate| {
            let whole = self.geometry.image_elements();
            // An image is a piece of its own: bands of one image overlap where they fold back.
            for_rows(gradient, whole, usize::MAX, |image, part| {
                if !accumulate {
                    part.fill(0.0);
                }
                self.add_image_gradient(part, &upstream, image);
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, check_gradients, compare_gradients, evaluate, normal};
    use proptest::prelude::*;

    fn reference(
        x: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
        stride: [usize; 2],
        padding: Padding,
    ) -> Vec<f32> {
        let (&[batch, channels, height, width], &[outputs, _, rows, columns]) =
            (x.shape().extents(), weight.shape().extents())
        else {
            panic!("four axes each")
        };
        let tall = (height + padding.top + padding.bottom - rows) / stride[0] + 1;
        let wide = (width + padding.left + padding.right - columns) / stride[1] + 1;
        let at = |b: usize, c: usize, y: usize, x_place: usize| {
            let (Some(y), Some(column)) =
                (y.checked_sub(padding.top), x_place.checked_sub(padding.left))
            else {
                return 0.0;
            };
            let inside = y < height && column < width;
            if inside {
                x.values()[((b * channels + c) * height + y) * width + column]
            } else {
                0.0
            }
        };
        let mut result = Vec::new();
        for n in 0..batch * outputs * tall * wide {
            let (b, o, r, q) = (
                n / (outputs * tall * wide),
                n / (tall * wide) % outputs,
                n / wide % tall,
                n % wide,
            );
            let mut sum = bias.map_or(0.0, |bias| bias.values()[o]);
            for k in 0..channels * rows * columns {
                let (c, i, j) = (k / (rows * columns), k / columns % rows, k % columns);
                sum += weight.values()[o * channels * rows * columns + k]
                    * at(b, c, r * stride[0] + i, q * stride[1] + j);
            }
            result.push(sum);
        }
        result
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn values_match_the_reference(
            batch in 1usize..3, channels in 1usize..4, outputs in 1usize..5,
            image in prop::array::uniform2(1usize..9), kernel in prop::array::uniform2(1usize..4),
            stride in prop::array::uniform2(1usize..4), sides in prop::array::uniform4(0usize..3),
            seed in 0u64..99,
        ) {
            let [top, bottom, left, right] = sides;
            let padding = Padding { top, bottom, left, right };
            prop_assume!(kernel[0] <= image[0] + top + bottom && kernel[1] <= image[1] + left + right);
            let x = normal([batch, channels, image[0], image[1]], seed);
            let weight = normal([outputs, channels, kernel[0], kernel[1]], seed + 1);
            let bias = normal([outputs], seed + 2);
            for bias in [None, Some(&bias)] {
                let found = evaluate(|tape| tape.convolution(&x, &weight, bias, stride, padding));
                let expected = reference(&x, &weight, bias, stride, padding);
                assert_close(found.values(), &expected, 2e-5);
            }
        }
    }

    #[test]
    fn several_bands_match_the_reference() {
        let (x, weight) = (normal([1, 40, 40, 41], 1), normal([2, 40, 3, 3], 2));
        let found = evaluate(|tape| tape.convolution(&x, &weight, None, [1, 1], Padding::even(1)));
        let geometry = Geometry::new(&x, &weight, None, [1, 1], Padding::even(1)).unwrap();
        assert!(geometry.bands() > 1);
        assert_close(found.values(), &reference(&x, &weight, None, [1, 1], Padding::even(1)), 1e-4);
    }

    #[test]
    fn gradients_match_differences() {
        let inputs = [normal([2, 2, 4, 5], 1), normal([3, 2, 3, 2], 2), normal([3], 3)];
        let uneven = Padding { top: 0, bottom: 1, left: 2, right: 1 };
        for (stride, padding) in [([1, 1], Padding::even(1)), ([2, 3], uneven)] {
            check_gradients(&inputs, |tape, x| {
                tape.convolution(&x[0], &x[1], Some(&x[2]), stride, padding)
            });
            check_gradients(&inputs[..2], |tape, x| {
                tape.convolution(&x[0], &x[1], None, stride, padding)
            });
        }
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let mut tape = Tape::inference(&crate::Device::cpu());
        let (x, weight) = (normal([1, 2, 4, 4], 1), normal([3, 1, 3, 3], 1));
        let error = tape.convolution(&x, &weight, None, [1, 1], Padding::even(0)).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("convolution: [1, 2, 4, 4] does not fit [3, 1, 3, 3]"), "{text}");
        let weight = normal([3, 2, 5, 5], 1);
        assert!(tape.convolution(&x, &weight, None, [1, 1], Padding::even(0)).is_err());
        assert!(tape.convolution(&x, &weight, None, [0, 1], Padding::even(2)).is_err());
    }

    #[test]
    fn gpus_agree_on_wide_images() {
        let inputs = [normal([3, 8, 16, 16], 1), normal([16, 8, 3, 3], 2), normal([16], 3)];
        for stride in [[1, 1], [2, 2]] {
            let padding = Padding::even(1);
            evaluate(|tape| {
                tape.convolution(&inputs[0], &inputs[1], Some(&inputs[2]), stride, padding)
            });
            compare_gradients(&inputs, |tape, x| {
                tape.convolution(&x[0], &x[1], Some(&x[2]), stride, padding)
            });
        }
    }
}
