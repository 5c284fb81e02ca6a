//! y = x·W + b, optionally fused with tanh-GELU.
//!
//! Shapes: x [rows…, I], W [I, O], b [O], y [rows…, O]. The weight is [I, O] in memory, so that the
//! forward product reads it row by row; checkpoints store it as [O, I], as PyTorch does.
//!
//! Backward, with d = dL/dy (times the slope of GELU if fused): dW = xᵀ·d, db = Σ rows of d, dx =
//! d·Wᵀ.

use super::activation::{GeluTanh, apply, apply_in_place, multiply_slope};
use crate::buffer::Buffer;
use crate::gradient::GradientStore;
use crate::parallel::{Disjoint, for_parts, reduce_ranges, row_grain};
use crate::product::{Matrix, multiply, multiply_with, with_transpose};
use crate::vectorize::add_rows;
use crate::{Error, Result, Shape, Tape, Tensor};

impl Tape {
    /// x·W + b: x `[rows…, I]`, W `[I, O]`, b `[O]` → `[rows…, O]`.
    ///
    /// # Errors
    /// If the widths do not fit.
    pub fn linear(&mut self, x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        let sizes = sizes(x.shape(), weight, bias)?;
        if let Some(cuda) = self.cuda() {
            return self.linear_cuda(&cuda, sizes, [x, weight], bias, false);
        }
        let mut output = self.device().buffer(sizes[0] * sizes[2]);
        forward(&mut output, sizes, x, weight, bias, |_, _| {});
        let inputs = [x, weight, bias.unwrap_or(weight)];
        let shape = x.shape().with_last(sizes[2]);
        Ok(self.record("linear", shape, output, &inputs, |_| {
            let node = LinearBackward::new(sizes, x, weight, bias, None);
            move |upstream, gradients| node.backward(upstream, gradients)
        }))
    }

    /// GELU(x·W + b) in the tanh form; shapes as in [`Tape::linear`].
    ///
    /// # Errors
    /// If the widths do not fit.
    pub fn linear_gelu(
        &mut self,
        x: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
    ) -> Result<Tensor> {
        let sizes = sizes(x.shape(), weight, bias)?;
        if let Some(cuda) = self.cuda() {
            return self.linear_cuda(&cuda, sizes, [x, weight], bias, true);
        }
        let [rows, _, width] = sizes;
        let inputs = [x, weight, bias.unwrap_or(weight)];
        let keep = inputs.iter().any(|input| self.wants(input));
        let mut output = self.device().buffer(rows * width);
        let mut before = self.device().buffer(if keep { rows * width } else { 0 });
        if keep {
            let activated = Disjoint::new(&mut output);
            forward(&mut before, sizes, x, weight, bias, |range, before| {
                // SAFETY: the ranges of rows are disjoint.
                let part = unsafe { activated.range(range.start * width..range.end * width) };
                apply::<GeluTanh>(part, before);
            });
        } else {
            forward(&mut output, sizes, x, weight, bias, |_, part| {
                // In place: the value before the activation is not needed again.
                apply_in_place::<GeluTanh>(part);
            });
        }
        let shape = x.shape().with_last(width);
        Ok(self.record("linear_gelu", shape, output, &inputs, |_| {
            let node = LinearBackward::new(sizes, x, weight, bias, Some(before));
            move |upstream, gradients| node.backward(upstream, gradients)
        }))
    }
}

/// Rows, inputs and outputs.
pub(super) fn sizes(x: &Shape, weight: &Tensor, bias: Option<&Tensor>) -> Result<[usize; 3]> {
    let &[input, output] = weight.shape().extents() else {
        return Err(Error::Unsupported {
            operation: "linear",
            shape: *weight.shape(),
            requirement: "a weight is [inputs, outputs]".into(),
        });
    };
    let (fit, shapes) = (x.last() == input && x.rank() > 0, [x, weight.shape()]);
    let requirement = "the last axis of x must be the first of the weight";
    Error::expect_fit(fit, "linear", shapes, requirement)?;
    if let Some(bias) = bias {
        bias.expect_elements("linear", output, weight, "a bias has one element per output")?;
    }
    Ok([x.rows(), input, output])
}

fn forward(
    output: &mut [f32],
    sizes: [usize; 3],
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    after: impl Fn(std::ops::Range<usize>, &mut [f32]) + Sync,
) {
    let [_, input, width] = sizes;
    let (left, right) = (Matrix::plain(x.values(), input), Matrix::plain(weight.values(), width));
    // The bias is written first and the product added to it: one pass less over the result.
    let lay_bias = |_, part: &mut [f32]| {
        if let Some(bias) = bias {
            part.chunks_exact_mut(width).for_each(|row| row.copy_from_slice(bias.values()));
        }
    };
    multiply_with(output, sizes, left, right, bias.is_some(), lay_bias, after);
}

struct LinearBackward {
    sizes: [usize; 3],
    x: Tensor,
    weight: Tensor,
    bias: Option<Tensor>,
    /// x·W + b if GELU follows.
    before: Option<Buffer>,
}

impl LinearBackward {
    fn new(
        sizes: [usize; 3],
        x: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
        before: Option<Buffer>,
    ) -> Self {
        Self { sizes, x: x.clone(), weight: weight.clone(), bias: bias.cloned(), before }
    }

    fn backward(&self, mut upstream: Buffer, gradients: &mut GradientStore<'_>) {
        let [rows, input, width] = self.sizes;
        if let Some(before) = &self.before {
            for_parts(&mut upstream, width, row_grain(width), |range, part| {
                multiply_slope::<GeluTanh>(part, &before[range.start * width..range.end * width]);
            });
        }
        let device = gradients.device().clone();
        if let Some(bias) = &self.bias {
            gradients.with(bias, |gradient, accumulate| {
                let grain = row_grain(width);
                reduce_ranges(&device, rows, grain, gradient, accumulate, |range, sums| {
                    add_rows(sums, &upstream[range.start * width..range.end * width]);
                });
            });
        }
        gradients.with(&self.weight, |gradient, accumulate| {
            let left = Matrix::transposed(self.x.values(), input);
            let right = Matrix::plain(&upstream, width);
            multiply(gradient, [input, rows, width], left, right, accumulate);
        });
        gradients.with(&self.x, |gradient, accumulate| {
            with_transpose(self.weight.values(), width, |turned| {
                let (left, right) = (Matrix::plain(&upstream, width), Matrix::plain(turned, input));
                multiply(gradient, [rows, width, input], left, right, accumulate);
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Activation;
    use crate::testing::{assert_close, check_gradients, evaluate, normal};
    use proptest::prelude::*;

    fn reference(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Vec<f32> {
        let (input, output) = (weight.shape().extents()[0], weight.shape().extents()[1]);
        let mut result = Vec::new();
        for row in x.values().chunks(input) {
            for column in 0..output {
                let products = row.iter().enumerate();
                let sum: f32 =
                    products.map(|(i, x)| x * weight.values()[i * output + column]).sum();
                result.push(sum + bias.map_or(0.0, |bias| bias.values()[column]));
            }
        }
        result
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn values_match_the_reference(
            rows in 1usize..40, input in 1usize..40, output in 1usize..40, seed in 0u64..99,
        ) {
            let x = normal([1, rows, input], seed);
            let (weight, bias) = (normal([input, output], seed + 1), normal([output], seed + 2));
            for bias in [None, Some(&bias)] {
                let expected = reference(&x, &weight, bias);
                let found = evaluate(|tape| tape.linear(&x, &weight, bias));
                prop_assert_eq!(found.shape().extents(), &[1, rows, output]);
                assert_close(found.values(), &expected, 2e-5);
                let plain = Tensor::from_slice(&expected, [1, rows, output]).unwrap();
                let activated = evaluate(|tape| tape.activate(&plain, Activation::GeluTanh));
                let found = evaluate(|tape| tape.linear_gelu(&x, &weight, bias));
                assert_close(found.values(), activated.values(), 2e-5);
            }
        }
    }

    #[test]
    fn gradients_match_differences() {
        let inputs = [normal([3, 2, 5], 1), normal([5, 4], 2), normal([4], 3)];
        check_gradients(&inputs, |tape, x| tape.linear(&x[0], &x[1], Some(&x[2])));
        check_gradients(&inputs[..2], |tape, x| tape.linear(&x[0], &x[1], None));
        check_gradients(&inputs, |tape, x| tape.linear_gelu(&x[0], &x[1], Some(&x[2])));
    }

    #[test]
    fn a_wrong_width_names_both_shapes() {
        let mut tape = Tape::inference(&crate::Device::cpu());
        let error = tape.linear(&normal([2, 3], 1), &normal([4, 5], 1), None).unwrap_err();
        assert!(error.to_string().contains("linear: [2, 3] does not fit [4, 5]"), "{error}");
    }
}
