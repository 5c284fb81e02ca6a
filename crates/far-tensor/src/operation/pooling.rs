//! Maximum and average over sliding windows of an image.
//!
//! | operation | y of a window | dx |
//! |---|---|---|
//! | maximum | the largest element inside the image | d to the first of the largest |
//! | average | Σ elements / (K₀·K₁), padding counting as zeros | d / (K₀·K₁) to each |
//!
//! Shapes: x [P…, H, W] → [P…, H′, W′] with H′ = ⌊(H + top + bottom − K₀)/s₀⌋ + 1 and likewise W′.
//! Padding must be smaller than the window, so that each window overlaps the image.

use super::row::{for_rows, row_of};
use super::window::Window;
use crate::cuda::Pooling;
use crate::{Result, Shape, Tape, Tensor};

impl Tape {
    /// The largest element of each window: [P…, H, W] → [P…, H′, W′].
    ///
    /// # Errors
    /// If x has fewer than two axes or the window does not fit.
    pub fn maximum_pool(&mut self, x: &Tensor, window: Window) -> Result<Tensor> {
        self.pool("maximum_pool", x, window, true)
    }

    /// The mean of each window, padding counting as zeros: [P…, H, W] → [P…, H′, W′].
    ///
    /// # Errors
    /// If x has fewer than two axes or the window does not fit.
    pub fn average_pool(&mut self, x: &Tensor, window: Window) -> Result<Tensor> {
        self.pool("average_pool", x, window, false)
    }

    fn pool(
        &mut self,
        operation: &'static str,
        x: &Tensor,
        window: Window,
        maximum: bool,
    ) -> Result<Tensor> {
        let planes = Pooling::new(operation, x, window, maximum)?;
        let pixels = planes.fit[0] * planes.fit[1];
        let extents = x.shape().extents();
        let mut shape = extents[..extents.len() - 2].to_vec();
        shape.extend(planes.fit);
        let shape = Shape::new(&shape);
        if let Some(cuda) = self.cuda() {
            return self.pool_cuda(&cuda, operation, shape, x, planes);
        }
        let mut output = self.device().buffer(shape.elements());
        for_rows(&mut output, pixels, pixels * planes.cost(), |plane, part| {
            let x = row_of(x.values(), planes.elements(), plane);
            for (pixel, y) in part.iter_mut().enumerate() {
                *y = if maximum {
                    x[planes.first_largest(x, pixel)]
                } else {
                    planes.covered(pixel).map(|index| x[index]).sum::<f32>() * planes.share()
                };
            }
        });
        Ok(self.record(operation, shape, output, &[x], |_| {
            let x = x.clone();
            move |upstream, gradients| {
                let elements = planes.elements();
                let cost = elements + pixels * planes.cost();
                gradients.with(&x, |gradient, accumulate| {
                    for_rows(gradient, elements, cost, |plane, part| {
                        if !accumulate {
                            part.fill(0.0);
                        }
                        let x = row_of(x.values(), elements, plane);
                        for (pixel, d) in row_of(&upstream, pixels, plane).iter().enumerate() {
                            if maximum {
                                part[planes.first_largest(x, pixel)] += d;
                            } else {
                                let covered = planes.covered(pixel);
                                covered.for_each(|index| part[index] += d * planes.share());
                            }
                        }
                    });
                });
            }
        }))
    }
}

impl Pooling {
    fn new(operation: &'static str, x: &Tensor, window: Window, maximum: bool) -> Result<Self> {
        let extents = x.shape().extents();
        x.expect(operation, extents.len() >= 2, || "an image has rows and columns".into())?;
        let image = [extents[extents.len() - 2], extents[extents.len() - 1]];
        let padding = window.padding;
        let seen = padding.top.max(padding.bottom) < window.kernel[0]
            && padding.left.max(padding.right) < window.kernel[1]
            && image[0] * image[1] > 0;
        x.expect(operation, seen, || {
            format!("padding must be smaller than the window {:?}", window.kernel)
        })?;
        let fit = window.fit(operation, x, image)?;
        Ok(Self { window, image, fit, maximum })
    }

    fn elements(&self) -> usize {
        self.image[0] * self.image[1]
    }

    fn cost(&self) -> usize {
        self.window.kernel[0] * self.window.kernel[1]
    }

    fn share(&self) -> f32 {
        1.0 / self.cost() as f32
    }

    /// The elements that the window of an output pixel covers, in row-major order.
    fn covered(&self, pixel: usize) -> impl Iterator<Item = usize> + use<> {
        let width = self.image[1];
        let rows = self.window.reach(0, pixel / self.fit[1], self.image[0]);
        let columns = self.window.reach(1, pixel % self.fit[1], width);
        rows.flat_map(move |row| columns.clone().map(move |column| row * width + column))
    }

    /// The first of the largest elements of a window; NaN counts as largest.
    fn first_largest(&self, x: &[f32], pixel: usize) -> usize {
        let larger = |best: usize, index: usize| {
            if x[index] > x[best] || x[index].is_nan() { index } else { best }
        };
        self.covered(pixel).reduce(larger).expect("each window sees the image")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Padding;
    use crate::testing::{assert_close, check_gradients, evaluate, normal};
    use proptest::prelude::*;

    /// Both pools of one plane, from an explicitly padded copy.
    fn reference(x: &[f32], [height, width]: [usize; 2], window: Window) -> (Vec<f32>, Vec<f32>) {
        let Padding { top, bottom, left, right } = window.padding;
        let (tall, wide) = (height + top + bottom, width + left + right);
        let mut padded = vec![None; tall * wide];
        for n in 0..height * width {
            padded[(n / width + top) * wide + n % width + left] = Some(x[n]);
        }
        let (mut largest, mut mean) = (Vec::new(), Vec::new());
        for r in (0..=tall - window.kernel[0]).step_by(window.stride[0]) {
            for q in (0..=wide - window.kernel[1]).step_by(window.stride[1]) {
                let cells = (0..window.kernel[0])
                    .flat_map(|i| (0..window.kernel[1]).map(move |j| (r + i) * wide + q + j));
                let seen: Vec<f32> = cells.filter_map(|cell| padded[cell]).collect();
                largest.push(seen.iter().copied().fold(f32::NEG_INFINITY, f32::max));
                mean.push(seen.iter().sum::<f32>() / (window.kernel[0] * window.kernel[1]) as f32);
            }
        }
        (largest, mean)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn values_match_the_reference(
            image in prop::array::uniform2(1usize..9), kernel in prop::array::uniform2(1usize..4),
            stride in prop::array::uniform2(1usize..4), sides in prop::array::uniform4(0usize..3),
            seed in 0u64..99,
        ) {
            let padding = Padding {
                top: sides[0] % kernel[0], bottom: sides[1] % kernel[0],
                left: sides[2] % kernel[1], right: sides[3] % kernel[1],
            };
            prop_assume!(kernel[0] <= image[0] + padding.top + padding.bottom);
            prop_assume!(kernel[1] <= image[1] + padding.left + padding.right);
            let window = Window { kernel, stride, padding };
            let x = normal([2, image[0], image[1]], seed);
            let expected = x.values().chunks(image[0] * image[1]).map(|x| reference(x, image, window));
            let (largest, mean): (Vec<_>, Vec<_>) = expected.unzip();
            let found = evaluate(|tape| tape.maximum_pool(&x, window));
            prop_assert_eq!(found.values(), &largest.concat()[..]);
            let found = evaluate(|tape| tape.average_pool(&x, window));
            assert_close(found.values(), &mean.concat(), 1e-6);
        }
    }

    #[test]
    fn gradients_match_differences() {
        let x = [normal([2, 2, 5, 4], 1)];
        // Eighths are exact in any precision, so that the largest is the same one.
        let eighths: Vec<f32> = (0..80).map(|n| (n * 37 % 83) as f32 / 8.0).collect();
        let eighths = [Tensor::from_slice(&eighths, [2, 2, 5, 4]).unwrap()];
        for window in [Window::square(2, 2, 0), Window::square(3, 1, 1)] {
            check_gradients(&x, |tape, x| tape.average_pool(&x[0], window));
            check_gradients(&eighths, |tape, x| tape.maximum_pool(&x[0], window));
        }
    }

    #[test]
    fn too_much_padding_is_refused() {
        let mut tape = Tape::inference(&crate::Device::cpu());
        let error = tape.maximum_pool(&normal([4, 4], 1), Window::square(2, 2, 2)).unwrap_err();
        assert!(error.to_string().starts_with("maximum_pool: [4, 4] is not accepted"), "{error}");
        assert!(tape.average_pool(&normal([4], 1), Window::square(2, 2, 0)).is_err());
    }
}
