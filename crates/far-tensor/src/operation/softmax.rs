//! Softmax, its logarithm, and log-sum-exp over the last axis, each with an optional 0/1 mask of
//! the same shape.
//!
//! With m = max x and Z = Σ eˣ⁻ᵐ over the valid elements of a row:
//!
//! | operation | y | shape | dx, with p = softmax |
//! |---|---|---|---|
//! | softmax | eˣ⁻ᵐ / Z | [rows…, N] | p(d − Σ d·p) |
//! | log-softmax | x − m − ln Z | [rows…, N] | d − p·Σ d |
//! | log-sum-exp | m + ln Z | [rows…] | p·d |
//!
//! Masked elements give 0 and get no gradient, whatever their value: elements of a row, and the
//! log-sum-exp of a row without a valid element. So a product with a weight of zero stays finite,
//! which −∞ would not.

use super::row::{RowMask, expect_mask, for_rows, put, row_of};
use crate::buffer::LANE;
use crate::vectorize::{exponential, lane_sum, vectorized};
use crate::{Result, Shape, Tape, Tensor};

/// Result of a row.
#[derive(Clone, Copy)]
enum Form {
    Plain,
    Logarithm,
    LogSum,
}

impl Tape {
    /// Softmax over the last axis: [rows…, N] → [rows…, N]; masked-out elements are 0.
    ///
    /// # Errors
    /// If the mask has another shape, or x is a scalar.
    pub fn softmax(&mut self, x: &Tensor, mask: Option<&Tensor>) -> Result<Tensor> {
        self.row_softmax("softmax", x, mask, Form::Plain)
    }

    /// The logarithm of softmax over the last axis: [rows…, N] → [rows…, N]; masked-out elements
    /// are 0.
    ///
    /// # Errors
    /// If the mask has another shape, or x is a scalar.
    pub fn log_softmax(&mut self, x: &Tensor, mask: Option<&Tensor>) -> Result<Tensor> {
        self.row_softmax("log_softmax", x, mask, Form::Logarithm)
    }

    /// ln Σ eˣ over the last axis: [rows…, N] → [rows…]; a row without a valid element gives 0.
    ///
    /// # Errors
    /// If the mask has another shape, or x is a scalar.
    pub fn log_sum_exp(&mut self, x: &Tensor, mask: Option<&Tensor>) -> Result<Tensor> {
        self.row_softmax("log_sum_exp", x, mask, Form::LogSum)
    }

    fn row_softmax(
        &mut self,
        operation: &'static str,
        x: &Tensor,
        mask: Option<&Tensor>,
        form: Form,
    ) -> Result<Tensor> {
        x.expect(operation, x.shape().rank() > 0, || "there must be a last axis".into())?;
        expect_mask(operation, x, mask)?;
        let width = x.shape().last();
        let shape = if let Form::LogSum = form { rows_shape(x.shape()) } else { *x.shape() };
        if let Some(cuda) = self.cuda() {
            return self.softmax_cuda(&cuda, operation, shape, x, mask, form as i32);
        }
        let mut output = self.device().buffer(shape.elements());
        let masks = RowMask::new(self.device(), mask, width);
        let own = if let Form::LogSum = form { 1 } else { width };
        for_rows(&mut output, own, width, |row, part| {
            let (x, mask) = (row_of(x.values(), width, row), masks.row(row));
            if let Form::Plain = form {
                return probabilities(part, x, mask);
            }
            let (largest, log_sum) = normalizer(x, mask);
            match form {
                Form::LogSum => part[0] = largest + log_sum,
                _ => shift(part, x, mask, largest, log_sum),
            }
        });
        Ok(self.record(operation, shape, output, &[x], |y| {
            let (x, y, mask) = (x.clone(), y.clone(), mask.cloned());
            move |upstream, gradients| {
                let width = x.shape().last();
                let masks = RowMask::new(gradients.device(), mask.as_ref(), width);
                gradients.with(&x, |gradient, accumulate| {
                    for_rows(gradient, width, width, |row, part| {
                        let mask = masks.row(row);
                        let of = |values| row_of(values, width, row);
                        match form {
                            Form::Plain => {
                                plain_backward(part, of(y.values()), of(&upstream), accumulate);
                            }
                            Form::Logarithm => {
                                let y = of(y.values());
                                logarithm_backward(part, y, mask, of(&upstream), accumulate);
                            }
                            Form::LogSum => {
                                let x = of(x.values());
                                log_sum_backward(part, x, mask, upstream[row], accumulate);
                            }
                        }
                    });
                });
            }
        }))
    }
}

/// The shape without its last axis.
pub(super) fn rows_shape(shape: &Shape) -> Shape {
    Shape::new(&shape.extents()[..shape.rank() - 1])
}

/// The largest of term(0..length); inline it into a vectorized function.
#[inline(always)]
fn lane_maximum(length: usize, term: impl Fn(usize) -> f32) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANE];
    let whole = length / LANE * LANE;
    for start in (0..whole).step_by(LANE) {
        for (lane, largest) in lanes.iter_mut().enumerate() {
            *largest = largest.max(term(start + lane));
        }
    }
    let whole_largest = lanes.into_iter().fold(f32::NEG_INFINITY, f32::max);
    (whole..length).fold(whole_largest, |largest, index| largest.max(term(index)))
}

vectorized! {
    /// m and ln Z of a row; zeros if nothing is valid.
    pub(super) fn normalizer(x: &[f32], mask: &[f32]) -> (f32, f32) {
        let mask = &mask[..x.len()];
        let largest = lane_maximum(x.len(), |index| {
            if mask[index] != 0.0 { x[index] } else { f32::NEG_INFINITY }
        });
        let sum = lane_sum(x.len(), |index| {
            let power = exponential::<FUSED>(x[index] - largest);
            if mask[index] != 0.0 { power } else { 0.0 }
        });
        if sum == 0.0 { (0.0, 0.0) } else { (largest, sum.ln()) }
    }

    /// output ← softmax of a row.
    fn probabilities(output: &mut [f32], x: &[f32], mask: &[f32]) {
        let length = output.len();
        let (x, mask) = (&x[..length], &mask[..length]);
        let largest = lane_maximum(length, |index| {
            if mask[index] != 0.0 { x[index] } else { f32::NEG_INFINITY }
        });
        for index in 0..length {
            let power = exponential::<FUSED>(x[index] - largest);
            output[index] = if mask[index] != 0.0 { power } else { 0.0 };
        }
        let sum = lane_sum(length, |index| output[index]);
        let scale = if sum == 0.0 { 0.0 } else { 1.0 / sum };
        output.iter_mut().for_each(|value| *value *= scale);
    }

    /// output ← x − m − ln Z where valid.
    fn shift(output: &mut [f32], x: &[f32], mask: &[f32], largest: f32, log_sum: f32) {
        let length = output.len();
        let (x, mask) = (&x[..length], &mask[..length]);
        for index in 0..length {
            let value = x[index] - largest - log_sum;
            output[index] = if mask[index] != 0.0 { value } else { 0.0 };
        }
    }

    /// gradient ← p(d − Σ d·p).
    fn plain_backward(gradient: &mut [f32], y: &[f32], upstream: &[f32], accumulate: bool) {
        let length = gradient.len();
        let (y, upstream) = (&y[..length], &upstream[..length]);
        let inner = lane_sum(length, |index| y[index] * upstream[index]);
        for index in 0..length {
            put(&mut gradient[index], y[index] * (upstream[index] - inner), accumulate);
        }
    }

    /// gradient ← d − p·Σ d over the valid elements, with p = eʸ.
    fn logarithm_backward(
        gradient: &mut [f32],
        y: &[f32],
        mask: &[f32],
        upstream: &[f32],
        accumulate: bool,
    ) {
        let length = gradient.len();
        let (y, mask, upstream) = (&y[..length], &mask[..length], &upstream[..length]);
        let total =
            lane_sum(length, |index| if mask[index] != 0.0 { upstream[index] } else { 0.0 });
        for index in 0..length {
            let slope = upstream[index] - exponential::<FUSED>(y[index]) * total;
            put(&mut gradient[index], if mask[index] != 0.0 { slope } else { 0.0 }, accumulate);
        }
    }

    /// gradient ← factor·p over the valid elements, with p = eˣ⁻ᵐ / Z.
    fn log_sum_backward(
        gradient: &mut [f32],
        x: &[f32],
        mask: &[f32],
        factor: f32,
        accumulate: bool,
    ) {
        let length = gradient.len();
        let (x, mask) = (&x[..length], &mask[..length]);
        let (largest, log_sum) = normalizer(x, mask);
        for index in 0..length {
            let slope = factor * exponential::<FUSED>(x[index] - largest - log_sum);
            put(&mut gradient[index], if mask[index] != 0.0 { slope } else { 0.0 }, accumulate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{
        assert_close, check_gradients, compare_gradients, evaluate, mask, normal,
    };
    use proptest::prelude::*;

    /// Softmax, log-softmax and log-sum-exp of one row in double precision.
    fn reference(x: &[f32], mask: &[f32]) -> (Vec<f32>, Vec<f32>, f32) {
        let valid = |index: &usize| mask[*index] != 0.0;
        let sum: f64 = (0..x.len()).filter(valid).map(|index| f64::from(x[index]).exp()).sum();
        let log_sum = if sum == 0.0 { 0.0 } else { sum.ln() };
        let of = |make: &dyn Fn(f64) -> f64| -> Vec<f32> {
            (0..x.len())
                .map(|i| if valid(&i) { make(f64::from(x[i])) as f32 } else { 0.0 })
                .collect()
        };
        (of(&|x| x.exp() / sum), of(&|x| x - log_sum), log_sum as f32)
    }

    /// A mask with one row entirely masked out.
    fn mask_with_empty_row(shape: [usize; 2], seed: u64) -> Tensor {
        let mut values = mask(shape, seed).values().to_vec();
        values[..shape[1]].fill(0.0);
        Tensor::from_slice(&values, shape).expect("as many values")
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn values_match_the_reference(
            rows in 1usize..6, width in 1usize..70, scale in 0.1f32..10.0, seed in 0u64..99,
        ) {
            let x = evaluate(|tape| tape.affine(&normal([rows, width], seed), scale, 0.5));
            let ones = Tensor::from_slice(&vec![1.0; rows * width], [rows, width]).unwrap();
            let some = mask_with_empty_row([rows, width], seed + 1);
            for (given, all) in [(None, &ones), (Some(&some), &some)] {
                let plain = evaluate(|tape| tape.softmax(&x, given));
                let logarithm = evaluate(|tape| tape.log_softmax(&x, given));
                let log_sum = evaluate(|tape| tape.log_sum_exp(&x, given));
                prop_assert_eq!(log_sum.shape().extents(), &[rows]);
                for row in 0..rows {
                    let of = |values| row_of(values, width, row);
                    let expected = reference(of(x.values()), of(all.values()));
                    assert_close(of(plain.values()), &expected.0, 2e-6);
                    assert_close(of(logarithm.values()), &expected.1, 2e-6);
                    assert_close(&log_sum.values()[row..=row], &[expected.2], 2e-6);
                }
            }
        }
    }

    #[test]
    fn gradients_match_differences() {
        let (x, mask) = ([normal([4, 5], 1)], mask_with_empty_row([4, 5], 2));
        for mask in [None, Some(&mask)] {
            check_gradients(&x, |tape, x| tape.softmax(&x[0], mask));
            check_gradients(&x, |tape, x| tape.log_softmax(&x[0], mask));
            check_gradients(&x, |tape, x| tape.log_sum_exp(&x[0], mask));
        }
    }

    #[test]
    fn large_scores_do_not_overflow_and_masked_nan_does_not_leak() {
        let mask = Tensor::from_slice(&[1.0, 1.0, 0.0], [1, 3]).unwrap();
        let x = Tensor::from_slice(&[1e4, 1e4 - 1.0, f32::NAN], [1, 3]).unwrap();
        let mut tape = Tape::inference(&crate::Device::cpu());
        let found = tape.softmax(&x, Some(&mask)).unwrap();
        assert_close(found.values(), &[0.731_058_6, 0.268_941_43, 0.0], 1e-6);
        // The exponentials of these also exceed f32, and bf16 can distinguish them.
        let x = Tensor::from_slice(&[200.0, 199.0, f32::NAN], [1, 3]).unwrap();
        let found = evaluate(|tape| tape.softmax(&x, Some(&mask)));
        assert_close(found.values(), &[0.731_058_6, 0.268_941_43, 0.0], 1e-6);
        let found = evaluate(|tape| tape.log_softmax(&x, Some(&mask)));
        assert_close(found.values(), &[-0.313_261_7, -1.313_261_7, 0.0], 1e-6);
        assert!(evaluate(|tape| tape.softmax(&x, None)).values().iter().all(|x| x.is_nan()));
    }

    #[test]
    fn a_mask_of_another_shape_is_named() {
        let mut tape = Tape::inference(&crate::Device::cpu());
        let error = tape.softmax(&normal([2, 3], 1), Some(&mask([3, 2], 1))).unwrap_err();
        assert!(error.to_string().starts_with("softmax: [2, 3] does not fit [3, 2]"), "{error}");
    }

    #[test]
    fn gpus_agree_on_long_rows() {
        let (x, chosen) = ([normal([3, 1500], 1)], mask([3, 1500], 2));
        for given in [None, Some(&chosen)] {
            evaluate(|tape| tape.softmax(&x[0], given));
            compare_gradients(&x, |tape, x| tape.softmax(&x[0], given));
            compare_gradients(&x, |tape, x| tape.log_softmax(&x[0], given));
            compare_gradients(&x, |tape, x| tape.log_sum_exp(&x[0], given));
        }
    }
}
