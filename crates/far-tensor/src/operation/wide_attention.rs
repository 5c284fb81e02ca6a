//! Attention of one head of any width: softmax(q·kᵀ/√D)·v, for every group separately.
//!
//! Shapes: q [G, T, D], k and v [G, S, D], y [G, T, D]. It is made of products, a softmax and turns of
//! axes, so it runs and learns wherever they do; the probabilities of a group, [T, S], are held whole.
//! Heads of up to 256 channels are better served by [`Tape::self_attention`].

use crate::{Error, Result, Tape, Tensor};

impl Tape {
    /// Attention of one head: q [G, T, D], k and v [G, S, D] → [G, T, D].
    ///
    /// ```
    /// use far_tensor::{Device, Tape, Tensor};
    /// let (q, k) = (Tensor::zeros([1, 1, 2]), Tensor::zeros([1, 2, 2]));
    /// let v = Tensor::from_slice(&[1.0, 2.0, 3.0, 6.0], [1, 2, 2])?;
    /// let y = Tape::inference(&Device::cpu()).wide_attention(&q, &k, &v)?;
    /// assert_eq!(y.values(), [2.0, 4.0]);
    /// # Ok::<(), far_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the shapes do not fit.
    pub fn wide_attention(&mut self, q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Tensor> {
        let (&[groups, queries, width], &[key_groups, keys, key_width]) =
            (q.shape().extents(), k.shape().extents())
        else {
            return Err(misfit(q, k));
        };
        if [key_groups, key_width] != [groups, width] || groups * width * keys == 0 {
            return Err(misfit(q, k));
        }
        if v.shape() != k.shape() {
            return Err(misfit(k, v));
        }
        let q = self.affine(q, 1.0 / (width as f32).sqrt(), 0.0)?;
        let turned = self.permute(k, &[0, 2, 1])?;
        let mut results = Vec::with_capacity(groups);
        for group in 0..groups {
            let mut own = |x: &Tensor, rows: usize, columns: usize| -> Result<Tensor> {
                self.slice(x, 0, group..group + 1)?.reshape([rows, columns])
            };
            let (q, k, v) =
                (own(&q, queries, width)?, own(&turned, width, keys)?, own(v, keys, width)?);
            let scores = self.linear(&q, &k, None)?;
            let shares = self.softmax(&scores, None)?;
            results.push(self.linear(&shares, &v, None)?.reshape([1, queries, width])?);
        }
        let results: Vec<&Tensor> = results.iter().collect();
        self.concat(&results, 0)
    }
}

fn misfit(left: &Tensor, right: &Tensor) -> Error {
    let requirement = "queries are [groups, queries, width], keys and values [groups, keys, width]";
    Error::mismatch("wide_attention", [left.shape(), right.shape()], requirement)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use crate::testing::{assert_close, check_gradients, evaluate, normal};
    use proptest::prelude::*;

    /// The formula by plain loops in f64.
    fn reference(q: &Tensor, k: &Tensor, v: &Tensor) -> Vec<f32> {
        let &[groups, queries, width] = q.shape().extents() else { unreachable!() };
        let keys = k.shape().extents()[1];
        let at = |x: &Tensor, rows: usize, group: usize, row: usize, column: usize| {
            f64::from(x.values()[(group * rows + row) * width + column])
        };
        let mut result = Vec::new();
        for group in 0..groups {
            for query in 0..queries {
                let score = |key: usize| -> f64 {
                    let products = (0..width).map(|channel| {
                        at(q, queries, group, query, channel) * at(k, keys, group, key, channel)
                    });
                    products.sum::<f64>() / (width as f64).sqrt()
                };
                let weights: Vec<f64> = (0..keys).map(|key| score(key).exp()).collect();
                let total: f64 = weights.iter().sum();
                for channel in 0..width {
                    let parts = weights.iter().enumerate();
                    let sum: f64 =
                        parts.map(|(key, weight)| weight * at(v, keys, group, key, channel)).sum();
                    result.push((sum / total) as f32);
                }
            }
        }
        result
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn values_match_the_reference(
            groups in 1usize..4, queries in 1usize..9, keys in 1usize..9, width in 1usize..20, seed in 0u64..99,
        ) {
            let q = normal([groups, queries, width], seed);
            let (k, v) = (normal([groups, keys, width], seed + 1), normal([groups, keys, width], seed + 2));
            let found = evaluate(|tape| tape.wide_attention(&q, &k, &v));
            prop_assert_eq!(found.shape(), q.shape());
            assert_close(found.values(), &reference(&q, &k, &v), 1e-5);
        }
    }

    #[test]
    fn heads_wider_than_the_fused_kernels_allow_work() {
        let [q, k, v] = [1, 2, 3].map(|seed| normal([2, 5, 512], seed));
        let found = evaluate(|tape| tape.wide_attention(&q, &k, &v));
        assert_close(found.values(), &reference(&q, &k, &v), 1e-5);
    }

    #[test]
    fn gradients_match_differences() {
        let inputs = [normal([2, 3, 4], 1), normal([2, 5, 4], 2), normal([2, 5, 4], 3)];
        check_gradients(&inputs, |tape, x| tape.wide_attention(&x[0], &x[1], &x[2]));
    }

    #[test]
    fn shapes_that_do_not_fit_are_refused() {
        let mut tape = Tape::inference(&Device::cpu());
        let (q, k) = (normal([2, 3, 4], 1), normal([2, 5, 3], 2));
        let error = tape.wide_attention(&q, &k, &k).unwrap_err().to_string();
        assert!(error.contains("[2, 3, 4] does not fit [2, 5, 3]"), "{error}");
        assert!(tape.wide_attention(&q, &q, &normal([2, 4, 4], 3)).is_err());
        assert!(tape.wide_attention(&q, &normal([1, 3, 4], 3), &normal([1, 3, 4], 3)).is_err());
    }
}
