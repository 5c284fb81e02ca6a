//! Sums and means: over everything, or over one axis.

use super::arithmetic::pieces;
use super::row::{PIECE, for_rows, row_of};
use crate::vectorize::{add_assign, sum, vectorized};
use crate::{Result, Shape, Tape, Tensor};

impl Tape {
    /// Σ x over all elements, a scalar.
    ///
    /// # Errors
    /// None at present; the result type matches the other operations.
    pub fn sum(&mut self, x: &Tensor) -> Result<Tensor> {
        self.total("sum", x, 1.0)
    }

    /// The mean of all elements, a scalar.
    ///
    /// # Errors
    /// If there are no elements.
    pub fn mean(&mut self, x: &Tensor) -> Result<Tensor> {
        let elements = x.shape().elements();
        x.expect("mean", elements > 0, || "a mean needs an element".into())?;
        self.total("mean", x, 1.0 / elements as f32)
    }

    fn total(&mut self, operation: &'static str, x: &Tensor, factor: f32) -> Result<Tensor> {
        if let Some(cuda) = self.cuda() {
            return self.total_cuda(&cuda, operation, x, factor);
        }
        let mut output = self.device().buffer(1);
        output[0] = total(x.values()) as f32 * factor;
        let shape = Shape::new(&[]);
        Ok(self.record(operation, shape, output, &[x], |_| {
            let x = x.clone();
            move |upstream, gradients| {
                let value = upstream[0] * factor;
                gradients.with(&x, |gradient, accumulate| {
                    pieces(gradient, x.values(), x.values(), |gradient, _, _| {
                        add_constant(gradient, value, accumulate);
                    });
                });
            }
        }))
    }

    /// Σ x over one axis, which is removed from the shape.
    ///
    /// # Errors
    /// If there is no such axis.
    pub fn sum_axis(&mut self, x: &Tensor, axis: usize) -> Result<Tensor> {
        self.reduce_axis("sum_axis", x, axis, |_| 1.0)
    }

    /// The mean of x over one axis, which is removed from the shape.
    ///
    /// # Errors
    /// If there is no such axis or it has no elements.
    pub fn mean_axis(&mut self, x: &Tensor, axis: usize) -> Result<Tensor> {
        self.reduce_axis("mean_axis", x, axis, |extent| 1.0 / extent as f32)
    }

    fn reduce_axis(
        &mut self,
        operation: &'static str,
        x: &Tensor,
        axis: usize,
        factor: impl Fn(usize) -> f32,
    ) -> Result<Tensor> {
        let shape = *x.shape();
        let exists = axis < shape.rank() && shape.extents()[axis] > 0;
        x.expect(operation, exists, || format!("axis {axis} must exist and not be empty"))?;
        let (outer, extent, inner) = shape.around(axis);
        let factor = factor(extent);
        let mut kept = shape.extents().to_vec();
        kept.remove(axis);
        if let Some(cuda) = self.cuda() {
            return self.reduce_axis_cuda(&cuda, operation, x, axis, factor, Shape::new(&kept));
        }
        let mut output = self.device().zeroed(outer * inner);
        for_rows(&mut output, inner, extent * inner, |index, part| {
            for row in row_of(x.values(), extent * inner, index).chunks_exact(inner) {
                add_assign(part, row);
            }
            part.iter_mut().for_each(|value| *value *= factor);
        });
        Ok(self.record(operation, Shape::new(&kept), output, &[x], |_| {
            let x = x.clone();
            move |upstream, gradients| {
                let (_, extent, inner) = x.shape().around(axis);
                gradients.with(&x, |gradient, accumulate| {
                    if !accumulate {
                        gradient.fill(0.0);
                    }
                    let outer =
                        gradient.chunks_exact_mut(extent * inner).zip(upstream.chunks_exact(inner));
                    for (block, upstream) in outer {
                        for row in block.chunks_exact_mut(inner) {
                            crate::vectorize::add_scaled(row, upstream, factor);
                        }
                    }
                });
            }
        }))
    }
}

/// Σ values in double precision over pieces of a fixed size, so that the result depends on nothing
/// else.
pub(super) fn total(values: &[f32]) -> f64 {
    values.chunks(PIECE).map(|piece| f64::from(sum(piece))).sum()
}

vectorized! {
    fn add_constant(gradient: &mut [f32], value: f32, accumulate: bool) {
        if accumulate {
            gradient.iter_mut().for_each(|gradient| *gradient += value);
        } else {
            gradient.fill(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, check_gradients, evaluate, normal};
    use proptest::prelude::*;

    fn reference_axis(x: &Tensor, axis: usize) -> Vec<f32> {
        let (outer, extent, inner) = x.shape().around(axis);
        let at = |o: usize, e: usize, i: usize| x.values()[(o * extent + e) * inner + i];
        (0..outer * inner).map(|k| (0..extent).map(|e| at(k / inner, e, k % inner)).sum()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn sums_match_the_reference(
            a in 1usize..6, b in 1usize..20, c in 1usize..40, axis in 0usize..3, seed in 0u64..99,
        ) {
            // Numbers that half precision holds exactly: what a GPU rounds on the way in would add up where
            // a sum is near zero.
            let exact = |value: &f32| f32::from_bits(value.to_bits() & 0xffff_0000);
            let values: Vec<f32> = normal([a, b, c], seed).values().iter().map(exact).collect();
            let x = Tensor::from_slice(&values, [a, b, c]).unwrap();
            let expected = reference_axis(&x, axis);
            assert_close(evaluate(|tape| tape.sum_axis(&x, axis)).values(), &expected, 1e-5);
            let extent = [a, b, c][axis] as f32;
            let means: Vec<f32> = expected.iter().map(|sum| sum / extent).collect();
            assert_close(evaluate(|tape| tape.mean_axis(&x, axis)).values(), &means, 1e-5);
            let whole: f32 = x.values().iter().sum();
            assert_close(evaluate(|tape| tape.sum(&x)).values(), &[whole], 1e-4);
            let mean = whole / x.values().len() as f32;
            assert_close(evaluate(|tape| tape.mean(&x)).values(), &[mean], 1e-5);
        }
    }

    #[test]
    fn gradients_match_differences() {
        let inputs = [normal([2, 3, 4], 5)];
        check_gradients(&inputs, |tape, x| tape.sum(&x[0]));
        check_gradients(&inputs, |tape, x| tape.mean(&x[0]));
        for axis in 0..3 {
            check_gradients(&inputs, |tape, x| tape.sum_axis(&x[0], axis));
            check_gradients(&inputs, |tape, x| tape.mean_axis(&x[0], axis));
        }
    }
}
