//! Normalized rows, and the cosine of a query with each of its keys.
//!
//! | operation | y | shapes |
//! |---|---|---|
//! | normalize | x / n, n = max(‖x‖, ε) | [rows…, D] → [rows…, D] |
//! | cosine | q·k / (max(‖q‖, ε)·max(‖k‖, ε)) | q [B, D], k [B, N, D] → [B, N] |
//!
//! Backward: dx = (d − y·Σ(d·y)) / n, without the second term where ‖x‖ ≤ ε, since n is then
//! constant. With cosine s: dk = d(q/(‖q‖‖k‖) − s·k/‖k‖²), dq likewise, summed over the keys.

use super::row::{for_rows, put, row_of};
use crate::vectorize::{add_scaled, dot, fused, vectorized};
use crate::{Error, Result, Shape, Tape, Tensor};

impl Tape {
    /// Rows scaled to length one: x / max(‖x‖, ε), [rows…, D] → [rows…, D].
    ///
    /// # Errors
    /// If x is a scalar or ε is not positive.
    pub fn normalize_rows(&mut self, x: &Tensor, epsilon: f32) -> Result<Tensor> {
        x.expect("normalize_rows", x.shape().rank() > 0 && epsilon > 0.0, || {
            format!("a last axis and a positive epsilon are needed, epsilon is {epsilon}")
        })?;
        if let Some(cuda) = self.cuda() {
            return self.normalize_rows_cuda(&cuda, x, epsilon);
        }
        let width = x.shape().last();
        let mut output = self.device().buffer(x.shape().elements());
        for_rows(&mut output, width, width, |row, part| {
            let x = row_of(x.values(), width, row);
            add_multiples(part, x, 1.0 / length(x, epsilon).0, x, 0.0, false);
        });
        Ok(self.record("normalize_rows", *x.shape(), output, &[x], |y| {
            let (x, y) = (x.clone(), y.clone());
            move |upstream, gradients| {
                gradients.with(&x, |gradient, accumulate| {
                    for_rows(gradient, width, width, |row, part| {
                        let [y, d] = [y.values(), &*upstream].map(|of| row_of(of, width, row));
                        let (norm, free) = length(row_of(x.values(), width, row), epsilon);
                        let along = -free * dot(d, y) / norm;
                        add_multiples(part, d, 1.0 / norm, y, along, accumulate);
                    });
                });
            }
        }))
    }

    /// The cosine of each query with its keys: q [B, D], k [B, N, D] → [B, N].
    ///
    /// Vectors shorter than ε are divided by ε, so that a zero vector has cosine 0.
    ///
    /// # Errors
    /// If the shapes do not fit or ε is not positive.
    pub fn cosine(&mut self, query: &Tensor, keys: &Tensor, epsilon: f32) -> Result<Tensor> {
        let (&[queries, width], &[batch, count, key_width]) =
            (query.shape().extents(), keys.shape().extents())
        else {
            return Err(misfit(query, keys));
        };
        if queries != batch || width != key_width {
            return Err(misfit(query, keys));
        }
        query.expect("cosine", epsilon > 0.0, || {
            format!("a positive epsilon is needed, it is {epsilon}")
        })?;
        if let Some(cuda) = self.cuda() {
            return self.cosine_cuda(&cuda, [batch, count, width], [query, keys], epsilon);
        }
        let mut output = self.device().buffer(batch * count);
        for_rows(&mut output, 1, 2 * width, |row, part| {
            let query = row_of(query.values(), width, row / count);
            let key = row_of(keys.values(), width, row);
            let scale = length(query, epsilon).0 * length(key, epsilon).0;
            part[0] = dot(query, key) / scale;
        });
        let shape = Shape::new(&[batch, count]);
        Ok(self.record("cosine", shape, output, &[query, keys], |y| {
            let (query, keys, y) = (query.clone(), keys.clone(), y.clone());
            move |upstream, gradients| {
                let (queries, rows, cosines) = (query.values(), keys.values(), y.values());
                gradients.with(&keys, |gradient, accumulate| {
                    for_rows(gradient, width, 4 * width, |row, part| {
                        let query = row_of(queries, width, row / count);
                        let key = row_of(rows, width, row);
                        let (query_norm, _) = length(query, epsilon);
                        let (norm, free) = length(key, epsilon);
                        let across = upstream[row] / (query_norm * norm);
                        let along = -free * upstream[row] * cosines[row] / (norm * norm);
                        add_multiples(part, query, across, key, along, accumulate);
                    });
                });
                gradients.with(&query, |gradient, accumulate| {
                    for_rows(gradient, width, 2 * count * width, |batch, part| {
                        let query = row_of(queries, width, batch);
                        let (norm, free) = length(query, epsilon);
                        let [d, cosines] = [&upstream, cosines].map(|of| row_of(of, count, batch));
                        let along = -free * dot(d, cosines) / (norm * norm);
                        add_multiples(part, query, along, query, 0.0, accumulate);
                        for (place, d) in d.iter().enumerate() {
                            let key = row_of(rows, width, batch * count + place);
                            add_scaled(part, key, d / (norm * length(key, epsilon).0));
                        }
                    });
                });
            }
        }))
    }
}

fn misfit(query: &Tensor, keys: &Tensor) -> Error {
    let requirement = "queries are [batch, width] and keys [batch, count, width]";
    Error::mismatch("cosine", [query.shape(), keys.shape()], requirement)
}

/// max(‖x‖, ε), and 1 if that is ‖x‖, else 0.
fn length(x: &[f32], epsilon: f32) -> (f32, f32) {
    let norm = dot(x, x).sqrt();
    // NaN must stay visible and not become ε.
    if norm <= epsilon { (epsilon, 0.0) } else { (norm, 1.0) }
}

vectorized! {
    /// target ← p·a + q·b, added if `accumulate`.
    fn add_multiples(
        target: &mut [f32],
        a: &[f32],
        p: f32,
        b: &[f32],
        q: f32,
        accumulate: bool,
    ) {
        let length = target.len();
        let (a, b) = (&a[..length], &b[..length]);
        for index in 0..length {
            put(&mut target[index], fused::<FUSED>(p, a[index], q * b[index]), accumulate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, check_gradients, compare_gradients, evaluate, normal};
    use proptest::prelude::*;

    fn reference_norm(x: &[f32], epsilon: f64) -> f64 {
        x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt().max(epsilon)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn values_match_the_reference(
            batch in 1usize..5, count in 1usize..9, width in 1usize..70, seed in 0u64..99,
        ) {
            let (query, keys) = (normal([batch, width], seed), normal([batch, count, width], seed + 1));
            let unit = evaluate(|tape| tape.normalize_rows(&keys, 1e-6));
            let cosines = evaluate(|tape| tape.cosine(&query, &keys, 1e-6));
            prop_assert_eq!(cosines.shape().extents(), &[batch, count]);
            for row in 0..batch * count {
                let query = row_of(query.values(), width, row / count);
                let key = row_of(keys.values(), width, row);
                let norm = reference_norm(key, 1e-6);
                let expected: Vec<f32> = key.iter().map(|x| (f64::from(*x) / norm) as f32).collect();
                assert_close(row_of(unit.values(), width, row), &expected, 1e-6);
                let product: f64 = query.iter().zip(key).map(|(q, k)| f64::from(*q) * f64::from(*k)).sum();
                let expected = product / (norm * reference_norm(query, 1e-6));
                assert_close(&cosines.values()[row..=row], &[expected as f32], 2e-6);
            }
        }
    }

    #[test]
    fn gradients_match_differences() {
        let inputs = [normal([2, 5], 1), normal([2, 3, 5], 2)];
        check_gradients(&inputs, |tape, x| tape.cosine(&x[0], &x[1], 1e-6));
        check_gradients(&inputs[1..], |tape, x| tape.normalize_rows(&x[0], 1e-6));
        // Shorter than epsilon: the division is by a constant.
        check_gradients(&inputs, |tape, x| tape.cosine(&x[0], &x[1], 20.0));
        check_gradients(&inputs[1..], |tape, x| tape.normalize_rows(&x[0], 20.0));
    }

    #[test]
    fn a_zero_vector_has_cosine_zero() {
        let found =
            evaluate(|tape| tape.cosine(&Tensor::zeros([1, 3]), &normal([1, 2, 3], 1), 1e-6));
        assert_eq!(found.values(), [0.0, 0.0]);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let mut tape = Tape::inference(&crate::Device::cpu());
        let error = tape.cosine(&normal([2, 3], 1), &normal([2, 4, 5], 1), 1e-6).unwrap_err();
        assert!(error.to_string().starts_with("cosine: [2, 3] does not fit [2, 4, 5]"), "{error}");
        assert!(tape.normalize_rows(&normal([2, 3], 1), 0.0).is_err());
    }

    #[test]
    fn gpus_agree_on_long_rows() {
        let inputs = [normal([2, 1100], 1), normal([2, 3, 1100], 2)];
        evaluate(|tape| tape.cosine(&inputs[0], &inputs[1], 1e-6));
        compare_gradients(&inputs, |tape, x| tape.cosine(&x[0], &x[1], 1e-6));
        compare_gradients(&inputs[1..], |tape, x| tape.normalize_rows(&x[0], 1e-6));
    }
}
