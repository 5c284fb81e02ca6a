//! Element-wise operations: add, subtract, multiply, scale and shift.

use crate::gradient::GradientStore;
use crate::parallel::{GRAIN, for_parts};
use crate::vectorize::{add_scaled, fused, vectorized};
use crate::{Result, Tape, Tensor};

impl Tape {
    /// a + b, shapes equal.
    ///
    /// # Errors
    /// If the shapes differ.
    pub fn add(&mut self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        self.combine("add", a, b, 1.0, 1.0)
    }

    /// a − b, shapes equal.
    ///
    /// # Errors
    /// If the shapes differ.
    pub fn subtract(&mut self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        self.combine("subtract", a, b, 1.0, -1.0)
    }

    /// p·a + q·b, shapes equal.
    ///
    /// # Errors
    /// If the shapes differ.
    pub fn weighted_sum(&mut self, a: &Tensor, p: f32, b: &Tensor, q: f32) -> Result<Tensor> {
        self.combine("weighted_sum", a, b, p, q)
    }

    fn combine(
        &mut self,
        operation: &'static str,
        a: &Tensor,
        b: &Tensor,
        p: f32,
        q: f32,
    ) -> Result<Tensor> {
        a.expect_same(operation, b)?;
        if let Some(cuda) = self.cuda() {
            return self.combine_cuda(&cuda, operation, [a, b], [p, q]);
        }
        let mut output = self.device().buffer(a.shape().elements());
        pieces(&mut output, a.values(), b.values(), |output, a, b| combine(output, a, b, p, q));
        Ok(self.record(operation, *a.shape(), output, &[a, b], |_| {
            let (a, b) = (a.clone(), b.clone());
            move |upstream, gradients| {
                add_multiple(gradients, &b, &upstream, q);
                if p == 1.0 {
                    gradients.add_whole(&a, upstream);
                } else {
                    add_multiple(gradients, &a, &upstream, p);
                }
            }
        }))
    }

    /// a · b element by element, shapes equal.
    ///
    /// # Errors
    /// If the shapes differ.
    pub fn multiply(&mut self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        a.expect_same("multiply", b)?;
        if let Some(cuda) = self.cuda() {
            return self.multiply_cuda(&cuda, a, b);
        }
        let mut output = self.device().buffer(a.shape().elements());
        pieces(&mut output, a.values(), b.values(), |output, a, b| product(output, a, b, false));
        Ok(self.record("multiply", *a.shape(), output, &[a, b], |_| {
            let (a, b) = (a.clone(), b.clone());
            move |upstream, gradients| {
                for (input, other) in [(&a, &b), (&b, &a)] {
                    gradients.with(input, |gradient, accumulate| {
                        pieces(gradient, &upstream, other.values(), |gradient, upstream, other| {
                            product(gradient, upstream, other, accumulate);
                        });
                    });
                }
            }
        }))
    }

    /// factor · x + offset.
    ///
    /// # Errors
    /// None at present; the result type matches the other operations.
    pub fn affine(&mut self, x: &Tensor, factor: f32, offset: f32) -> Result<Tensor> {
        if let Some(cuda) = self.cuda() {
            return self.affine_cuda(&cuda, x, factor, offset);
        }
        let mut output = self.device().buffer(x.shape().elements());
        pieces(&mut output, x.values(), x.values(), |output, x, _| {
            affine(output, x, factor, offset)
        });
        Ok(self.record("affine", *x.shape(), output, &[x], |_| {
            let x = x.clone();
            move |upstream, gradients| add_multiple(gradients, &x, &upstream, factor)
        }))
    }
}

/// Runs an element-wise kernel over equal pieces of one output and two inputs.
pub(super) fn pieces(
    output: &mut [f32],
    a: &[f32],
    b: &[f32],
    kernel: impl Fn(&mut [f32], &[f32], &[f32]) + Sync,
) {
    for_parts(output, 1, GRAIN, |range, part| kernel(part, &a[range.clone()], &b[range]));
}

vectorized! {
    fn combine(output: &mut [f32], a: &[f32], b: &[f32], p: f32, q: f32) {
        for ((output, a), b) in output.iter_mut().zip(a).zip(b) {
            *output = fused::<FUSED>(p, *a, q * b);
        }
    }

    fn product(output: &mut [f32], a: &[f32], b: &[f32], accumulate: bool) {
        if accumulate {
            for ((output, a), b) in output.iter_mut().zip(a).zip(b) {
                *output = fused::<FUSED>(*a, *b, *output);
            }
        } else {
            for ((output, a), b) in output.iter_mut().zip(a).zip(b) {
                *output = a * b;
            }
        }
    }

    fn affine(output: &mut [f32], x: &[f32], factor: f32, offset: f32) {
        for (output, x) in output.iter_mut().zip(x) {
            *output = fused::<FUSED>(factor, *x, offset);
        }
    }
}

/// Adds `factor` · `upstream` to the gradient of `input`.
pub(super) fn add_multiple(
    gradients: &mut GradientStore<'_>,
    input: &Tensor,
    upstream: &[f32],
    factor: f32,
) {
    gradients.with(input, |gradient, accumulate| {
        pieces(gradient, upstream, upstream, |gradient, upstream, _| {
            if accumulate {
                add_scaled(gradient, upstream, factor);
            } else {
                affine(gradient, upstream, factor, 0.0);
            }
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, check_gradients, evaluate, normal};
    use proptest::prelude::*;

    /// The plain formulas: a + b, a − b, p·a + q·b, a·b, p·a + q.
    fn reference(a: f32, b: f32, p: f32, q: f32) -> [f32; 5] {
        [a + b, a - b, p * a + q * b, a * b, p * a + q]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn all_match_the_reference(rows in 1usize..9, columns in 1usize..70, seed in 0u64..1000) {
            let (a, b) = (normal([rows, columns], seed), normal([rows, columns], seed + 1));
            let found = [
                evaluate(|tape| tape.add(&a, &b)),
                evaluate(|tape| tape.subtract(&a, &b)),
                evaluate(|tape| tape.weighted_sum(&a, 0.5, &b, -2.0)),
                evaluate(|tape| tape.multiply(&a, &b)),
                evaluate(|tape| tape.affine(&a, 0.5, -2.0)),
            ];
            for (which, found) in found.iter().enumerate() {
                let pairs = a.values().iter().zip(b.values());
                let expected: Vec<f32> = pairs.map(|(a, b)| reference(*a, *b, 0.5, -2.0)[which]).collect();
                assert_close(found.values(), &expected, 1e-6);
            }
        }
    }

    #[test]
    fn gradients_match_differences() {
        // Two whole runs of eight and a remainder.
        let inputs = [normal([3, 7], 1), normal([3, 7], 2)];
        check_gradients(&inputs, |tape, x| tape.add(&x[0], &x[1]));
        check_gradients(&inputs, |tape, x| tape.subtract(&x[0], &x[1]));
        check_gradients(&inputs, |tape, x| tape.weighted_sum(&x[0], 0.3, &x[1], 2.0));
        check_gradients(&inputs, |tape, x| tape.multiply(&x[0], &x[1]));
        check_gradients(&inputs, |tape, x| tape.multiply(&x[0], &x[0]));
        check_gradients(&inputs, |tape, x| tape.affine(&x[0], -3.0, 1.0));
    }

    #[test]
    fn unequal_shapes_are_named() {
        let mut tape = Tape::inference(&crate::Device::cpu());
        let error = tape.add(&normal([2, 3], 1), &normal([3, 2], 1)).unwrap_err();
        assert_eq!(error.to_string(), "add: [2, 3] does not fit [3, 2]: the shapes must be equal");
    }
}
