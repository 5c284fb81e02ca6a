//! y = GELU(x·W₁ + b₁)·W₂ + b₂, the MLP of a transformer block, with GELU in its tanh form.
//!
//! Shapes: x [rows…, I], W₁ [I, H], b₁ [H], W₂ [H, O], b₂ [O], y [rows…, O]. It is one operation so
//! that a device can keep the hidden rows internal; the CPU gains nothing from that and composes
//! the two linear layers, whose backwards are in [`super::linear`].

use super::linear::sizes;
use crate::{Result, Tape, Tensor};

impl Tape {
    /// GELU(x·W₁ + b₁)·W₂ + b₂ with `first` = \[W₁, b₁\] and `second` = \[W₂, b₂\]: x `[rows…, I]`,
    /// W₁ `[I, H]`, b₁ `[H]`, W₂ `[H, O]`, b₂ `[O]` → `[rows…, O]`.
    ///
    /// ```
    /// use far_tensor::{Device, Tape, Tensor};
    /// let x = Tensor::from_slice(&[0.0, 20.0], [2, 1])?;
    /// let (one, zero) = (Tensor::from_slice(&[1.0], [1, 1])?, Tensor::zeros([1]));
    /// let y = Tape::inference(&Device::cpu()).feed_forward(&x, [&one, &zero], [&one, &zero])?;
    /// assert_eq!(y.values(), [0.0, 20.0]);
    /// # Ok::<(), far_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the widths do not fit.
    pub fn feed_forward(
        &mut self,
        x: &Tensor,
        first: [&Tensor; 2],
        second: [&Tensor; 2],
    ) -> Result<Tensor> {
        if let Some(cuda) = self.cuda() {
            let [_, _, hidden] = sizes(x.shape(), first[0], Some(first[1]))?;
            let inner = x.shape().with_last(hidden);
            let [_, _, width] = sizes(&inner, second[0], Some(second[1]))?;
            return self.feed_forward_cuda(&cuda, inner.with_last(width), x, first, second);
        }
        let hidden = self.linear_gelu(x, first[0], Some(first[1]))?;
        self.linear(&hidden, second[0], Some(second[1]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use crate::testing::{assert_close, check_gradients, compare_gradients, evaluate, normal};
    use proptest::prelude::*;

    /// One linear layer by plain loops in f64.
    fn mapped(row: &[f64], weight: &Tensor, bias: &Tensor) -> Vec<f64> {
        let width = weight.shape().last();
        let mut sums: Vec<f64> = bias.values().iter().map(|bias| f64::from(*bias)).collect();
        for (input, x) in row.iter().enumerate() {
            for (output, sum) in sums.iter_mut().enumerate() {
                *sum += x * f64::from(weight.values()[input * width + output]);
            }
        }
        sums
    }

    fn reference(x: &Tensor, [w1, b1]: [&Tensor; 2], [w2, b2]: [&Tensor; 2]) -> Vec<f32> {
        let mut result = Vec::new();
        for row in x.values().chunks(x.shape().last()) {
            let row: Vec<f64> = row.iter().map(|x| f64::from(*x)).collect();
            let mut hidden = mapped(&row, w1, b1);
            for h in &mut hidden {
                let u = (2.0 / std::f64::consts::PI).sqrt() * (*h + 0.044_715 * h.powi(3));
                *h *= 0.5 * (1.0 + u.tanh());
            }
            result.extend(mapped(&hidden, w2, b2).iter().map(|y| *y as f32));
        }
        result
    }

    fn weights([input, hidden, output]: [usize; 3], seed: u64) -> [Tensor; 4] {
        let shrunk = |inputs: usize, outputs: usize, seed| {
            let scale = (inputs as f32).sqrt().recip();
            evaluate(|tape| tape.affine(&normal([inputs, outputs], seed), scale, 0.0))
        };
        [
            shrunk(input, hidden, seed),
            normal([hidden], seed + 1),
            shrunk(hidden, output, seed + 2),
            normal([output], seed + 3),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn values_match_the_reference(
            rows in 1usize..40, sizes in [1usize..24, 1usize..70, 1usize..24], seed in 0u64..99,
        ) {
            let x = normal([1, rows, sizes[0]], seed);
            let [w1, b1, w2, b2] = weights(sizes, seed + 1);
            let expected = reference(&x, [&w1, &b1], [&w2, &b2]);
            let found = evaluate(|tape| tape.feed_forward(&x, [&w1, &b1], [&w2, &b2]));
            prop_assert_eq!(found.shape().extents(), &[1, rows, sizes[2]]);
            assert_close(found.values(), &expected, 1e-5);
        }
    }

    #[test]
    fn gradients_match_differences() {
        let [w1, b1, w2, b2] = weights([5, 7, 4], 1);
        let inputs = [normal([3, 2, 5], 9), w1, b1, w2, b2];
        check_gradients(&inputs, |tape, x| {
            tape.feed_forward(&x[0], [&x[1], &x[2]], [&x[3], &x[4]])
        });
    }

    /// Rows in one part and in several, and hidden rows that a GPU's library multiplies by the slope, and not.
    #[test]
    fn gradients_agree_on_every_device() {
        for (rows, sizes) in
            [(37, [24, 72, 16]), (37, [24, 72, 13]), (37, [24, 71, 16]), (700, [8, 256, 64])]
        {
            let [w1, b1, w2, b2] = weights(sizes, 1);
            let inputs = [normal([rows, sizes[0]], 9), w1, b1, w2, b2];
            compare_gradients(&inputs, |tape, x| {
                tape.feed_forward(&x[0], [&x[1], &x[2]], [&x[3], &x[4]])
            });
        }
    }

    #[test]
    fn widths_that_do_not_meet_are_refused() {
        let mut tape = Tape::inference(&Device::cpu());
        let ([w1, b1, _, b2], x) = (weights([3, 5, 2], 1), normal([4, 3], 2));
        let error = tape.feed_forward(&x, [&w1, &b1], [&normal([6, 2], 3), &b2]).unwrap_err();
        assert!(error.to_string().contains("[4, 5] does not fit [6, 2]"), "{error}");
        assert!(tape.feed_forward(&normal([4, 2], 2), [&w1, &b1], [&w1, &b1]).is_err());
    }
}
