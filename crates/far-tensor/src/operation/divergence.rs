//! Kullback–Leibler divergence of softmax scores from a fixed target.
//!
//! With p = softmax(s) over the valid elements of a row and a constant target distribution q:
//! KL(q‖p) = Σ q(ln q − ln p), where 0·ln 0 = 0. The gradient of the scores is d(p·Σq − q), which
//! is d(p − q) for a target that sums to one.
//!
//! Shapes: q, s and the optional 0/1 mask [rows…, N]. Elements that are masked out count neither
//! in q nor in p and get no gradient; a row without a valid element has divergence 0 and is left
//! out of the mean.

use super::masked::Statistic;
use super::row::{RowMask, expect_mask, for_rows, put, row_of};
use super::softmax::{normalizer, rows_shape};
use crate::vectorize::{exponential, fused, lane_sum, vectorized};
use crate::{Result, Tape, Tensor};

impl Tape {
    /// KL(target ‖ softmax(scores)), the mean over the rows that have a valid element; a scalar.
    ///
    /// No gradient flows to the target.
    ///
    /// # Errors
    /// If the shapes differ or are those of scalars.
    pub fn divergence(
        &mut self,
        target: &Tensor,
        scores: &Tensor,
        mask: Option<&Tensor>,
    ) -> Result<Tensor> {
        let by_row = self.row_divergence(target, scores, mask)?;
        let rows = by_row.shape().elements();
        let width = scores.shape().last();
        // A row has a valid element if the maximum of its mask is 1.
        let valid = mask.map(|mask| {
            let mask = mask.detach().reshape([rows, width])?;
            self.statistic(&mask, None, 1, Statistic::Maximum)
        });
        let valid = valid.transpose()?;
        self.statistic(&by_row.reshape([rows])?, valid.as_ref(), 0, Statistic::Mean)
    }

    /// KL(target ‖ softmax(scores)) of each row: [rows…, N] → [rows…].
    ///
    /// No gradient flows to the target.
    ///
    /// # Errors
    /// If the shapes differ or are those of scalars.
    pub fn row_divergence(
        &mut self,
        target: &Tensor,
        scores: &Tensor,
        mask: Option<&Tensor>,
    ) -> Result<Tensor> {
        let operation = "divergence";
        scores
            .expect(operation, scores.shape().rank() > 0, || "there must be a last axis".into())?;
        target.expect_same(operation, scores)?;
        expect_mask(operation, scores, mask)?;
        let width = scores.shape().last();
        let shape = rows_shape(scores.shape());
        if let Some(cuda) = self.cuda() {
            return self.divergence_cuda(&cuda, shape, [target, scores], mask);
        }
        let mut output = self.device().buffer(shape.elements());
        let masks = RowMask::new(self.device(), mask, width);
        for_rows(&mut output, 1, width, |row, part| {
            let target = row_of(target.values(), width, row);
            let scores = row_of(scores.values(), width, row);
            part[0] = divergence(target, scores, masks.row(row));
        });
        Ok(self.record(operation, shape, output, &[scores], |_| {
            let (target, scores, mask) = (target.detach(), scores.clone(), mask.cloned());
            move |upstream, gradients| {
                let masks = RowMask::new(gradients.device(), mask.as_ref(), width);
                gradients.with(&scores, |gradient, accumulate| {
                    for_rows(gradient, width, width, |row, part| {
                        let [q, s] = [&target, &scores].map(|of| row_of(of.values(), width, row));
                        let (mask, factor) = (masks.row(row), upstream[row]);
                        divergence_backward(part, q, s, mask, factor, accumulate);
                    });
                });
            }
        }))
    }
}

vectorized! {
    /// KL of one row.
    fn divergence(target: &[f32], scores: &[f32], mask: &[f32]) -> f32 {
        let length = scores.len();
        let (target, mask) = (&target[..length], &mask[..length]);
        let (largest, log_sum) = normalizer(scores, mask);
        lane_sum(length, |index| {
            let (q, log_p) = (target[index], scores[index] - largest - log_sum);
            if mask[index] != 0.0 && q != 0.0 { q * (q.ln() - log_p) } else { 0.0 }
        })
    }

    /// gradient ← factor·(p·Σq − q) over the valid elements.
    fn divergence_backward(
        gradient: &mut [f32],
        target: &[f32],
        scores: &[f32],
        mask: &[f32],
        factor: f32,
        accumulate: bool,
    ) {
        let length = gradient.len();
        let (target, scores) = (&target[..length], &scores[..length]);
        let mask = &mask[..length];
        let (largest, log_sum) = normalizer(scores, mask);
        let mass = lane_sum(length, |index| if mask[index] != 0.0 { target[index] } else { 0.0 });
        for index in 0..length {
            let p = exponential::<FUSED>(scores[index] - largest - log_sum);
            let slope = factor * fused::<FUSED>(p, mass, -target[index]);
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

    /// KL of one row in double precision; `None` if nothing is valid.
    fn reference(target: &[f32], scores: &[f32], mask: &[f32]) -> Option<f64> {
        let valid: Vec<usize> = (0..scores.len()).filter(|index| mask[*index] != 0.0).collect();
        let sum: f64 = valid.iter().map(|index| f64::from(scores[*index]).exp()).sum();
        let term = |index: &usize| {
            let (q, p) = (f64::from(target[*index]), f64::from(scores[*index]).exp() / sum);
            if q == 0.0 { 0.0 } else { q * (q / p).ln() }
        };
        (!valid.is_empty()).then(|| valid.iter().map(term).sum())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn values_match_the_reference(
            rows in 1usize..8, width in 1usize..50, masked in any::<bool>(), seed in 0u64..99,
        ) {
            let scores = normal([rows, width], seed);
            let chosen = mask([rows, width], seed + 2);
            let ones = Tensor::from_slice(&vec![1.0; rows * width], [rows, width]).unwrap();
            let given = masked.then_some(&chosen);
            let target = evaluate(|tape| tape.softmax(&normal([rows, width], seed + 1), given));
            let of = |tensor: &Tensor, row: usize| row_of(tensor.values(), width, row).to_vec();
            let expected: Vec<Option<f64>> = (0..rows)
                .map(|row| {
                    let mask = of(given.unwrap_or(&ones), row);
                    reference(&of(&target, row), &of(&scores, row), &mask)
                })
                .collect();
            let by_row = evaluate(|tape| tape.row_divergence(&target, &scores, given));
            let zeroed: Vec<f32> = expected.iter().map(|kl| kl.unwrap_or(0.0) as f32).collect();
            assert_close(by_row.values(), &zeroed, 5e-6);
            let kept: Vec<f64> = expected.into_iter().flatten().collect();
            let mean = kept.iter().sum::<f64>() / kept.len().max(1) as f64;
            let found = evaluate(|tape| tape.divergence(&target, &scores, given));
            assert_close(found.values(), &[mean as f32], 5e-6);
        }
    }

    #[test]
    fn gradients_match_differences() {
        let mut values = mask([4, 6], 3).values().to_vec();
        values[..6].fill(0.0);
        let chosen = Tensor::from_slice(&values, [4, 6]).unwrap();
        let scores = [normal([4, 6], 1)];
        for given in [None, Some(&chosen)] {
            let target = evaluate(|tape| tape.softmax(&normal([4, 6], 2), given));
            check_gradients(&scores, |tape, x| tape.divergence(&target, &x[0], given));
            check_gradients(&scores, |tape, x| tape.row_divergence(&target, &x[0], given));
        }
    }

    #[test]
    fn equal_distributions_have_no_divergence_and_a_target_gets_no_gradient() {
        let mut tape = Tape::recording(&crate::Device::cpu());
        let scores = tape.variable(&normal([3, 5], 1));
        let target = tape.softmax(&scores, None).unwrap();
        let loss = tape.divergence(&target, &scores, None).unwrap();
        assert!(loss.item().unwrap().abs() < 1e-6);
        let gradients = tape.backward(&loss, 1.0, &mut []).unwrap();
        assert!(gradients.of(&scores).unwrap().iter().all(|slope| slope.abs() < 1e-6));
    }

    #[test]
    fn unequal_shapes_are_named() {
        let mut tape = Tape::inference(&crate::Device::cpu());
        let error = tape.divergence(&normal([2, 3], 1), &normal([2, 4], 1), None).unwrap_err();
        assert!(error.to_string().starts_with("divergence: [2, 3] does not fit [2, 4]"), "{error}");
    }

    #[test]
    fn gpus_agree_on_long_rows() {
        let (scores, chosen) = ([normal([3, 1200], 1)], mask([3, 1200], 2));
        let target = evaluate(|tape| tape.softmax(&normal([3, 1200], 3), Some(&chosen)));
        compare_gradients(&scores, |tape, x| tape.divergence(&target, &x[0], Some(&chosen)));
    }
}
