//! Squared error by sample: eᵢ = (1/n) Σ w(x − t)² over the n elements of sample i.
//!
//! Shapes: x, target and weights [B, …], errors [B]. As in [`super::loss`] the sum is divided by n and
//! not by Σ w, and no gradient flows to targets and weights. Backward, with dᵢ = dL/deᵢ:
//! dx = (2/n)·dᵢ·w(x − t).

use super::loss::{Squared, slopes, total};
use super::row::{PIECE, for_rows, row_of};
use crate::buffer::Buffer;
use crate::gradient::GradientStore;
use crate::{Result, Shape, Tape, Tensor};

impl Tape {
    /// The mean of w(x − t)² of every sample: x, t and w [B, …] → `[B]`.
    ///
    /// ```
    /// use far_tensor::{Device, Tape, Tensor};
    /// let x = Tensor::from_slice(&[1.0, 5.0, 2.0, 2.0], [2, 2])?;
    /// let t = Tensor::from_slice(&[0.0, 2.0, 2.0, 0.0], [2, 2])?;
    /// let errors = Tape::inference(&Device::cpu()).squared_errors(&x, &t, None)?;
    /// assert_eq!(errors.values(), [5.0, 2.0]);
    /// # Ok::<(), far_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the shapes differ, or there is no sample or no element in it.
    pub fn squared_errors(
        &mut self,
        x: &Tensor,
        target: &Tensor,
        weights: Option<&Tensor>,
    ) -> Result<Tensor> {
        let operation = "squared_errors";
        x.expect_same(operation, target)?;
        weights.map_or(Ok(()), |weights| x.expect_same(operation, weights))?;
        let exists = x.shape().rank() > 0 && x.shape().elements() > 0;
        x.expect(operation, exists, || "samples need an element".into())?;
        let samples = x.shape().extents()[0];
        if let Some(cuda) = self.cuda() {
            return self.squared_errors_cuda(&cuda, [x, target], weights, samples);
        }
        let elements = x.shape().elements() / samples;
        let errors = SquaredErrors {
            x: x.clone(),
            target: target.detach(),
            weights: weights.map(Tensor::detach),
            elements,
        };
        let mut output = self.device().buffer(samples);
        for_rows(&mut output, 1, elements, |sample, part| part[0] = errors.of(sample));
        Ok(self.record(operation, Shape::new(&[samples]), output, &[x], |_| {
            move |upstream, gradients| errors.backward(upstream, gradients)
        }))
    }
}

struct SquaredErrors {
    x: Tensor,
    target: Tensor,
    weights: Option<Tensor>,
    elements: usize,
}

impl SquaredErrors {
    /// x, target and weights of one sample.
    fn rows(&self, sample: usize) -> (&[f32], &[f32], Option<&[f32]>) {
        let Self { x, target, weights, elements } = self;
        let weights = weights.as_ref().map(|weights| row_of(weights.values(), *elements, sample));
        (row_of(x.values(), *elements, sample), row_of(target.values(), *elements, sample), weights)
    }

    fn of(&self, sample: usize) -> f32 {
        let (x, target, weights) = self.rows(sample);
        let pieces = x.chunks(PIECE).zip(target.chunks(PIECE)).enumerate();
        let sums = pieces.map(|(piece, (x, target))| {
            let weights = weights.map(|weights| &weights[piece * PIECE..][..x.len()]);
            f64::from(total::<Squared>(x, target, weights, 0.0))
        });
        (sums.sum::<f64>() / self.elements as f64) as f32
    }

    fn backward(&self, upstream: Buffer, gradients: &mut GradientStore<'_>) {
        let elements = self.elements;
        gradients.with(&self.x, |gradient, accumulate| {
            for_rows(gradient, elements, elements, |sample, part| {
                let (x, target, weights) = self.rows(sample);
                let factor = upstream[sample] / elements as f32;
                slopes::<Squared>(part, x, target, weights, 0.0, factor, accumulate);
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, check_gradients, evaluate, normal};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn values_match_the_reference(
            samples in 1usize..9, shape in [1usize..60, 1usize..80], weighted in any::<bool>(),
            seed in 0u64..99,
        ) {
            let shape = [samples, shape[0], shape[1]];
            let (x, target, weights) =
                (normal(shape, seed), normal(shape, seed + 1), normal(shape, seed + 2));
            let given = weighted.then_some(&weights);
            let elements = shape[1] * shape[2];
            let expected: Vec<f32> = (0..samples)
                .map(|sample| {
                    let terms = (sample * elements..(sample + 1) * elements).map(|index| {
                        let error = f64::from(x.values()[index]) - f64::from(target.values()[index]);
                        let weight = given.map_or(1.0, |all| f64::from(all.values()[index]));
                        weight * error * error
                    });
                    (terms.sum::<f64>() / elements as f64) as f32
                })
                .collect();
            let found = evaluate(|tape| tape.squared_errors(&x, &target, given));
            prop_assert_eq!(found.shape().extents(), &[samples]);
            assert_close(found.values(), &expected, 5e-6);
        }
    }

    #[test]
    fn gradients_match_differences() {
        let (x, target, weights) =
            ([normal([3, 2, 4], 1)], normal([3, 2, 4], 2), normal([3, 2, 4], 3));
        for given in [None, Some(&weights)] {
            check_gradients(&x, |tape, x| tape.squared_errors(&x[0], &target, given));
        }
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let mut tape = Tape::inference(&crate::Device::cpu());
        let (a, b) = (normal([2, 3], 1), normal([3, 2], 1));
        let error = tape.squared_errors(&a, &b, None).unwrap_err();
        assert!(
            error.to_string().starts_with("squared_errors: [2, 3] does not fit [3, 2]"),
            "{error}"
        );
        assert!(tape.squared_errors(&a, &a, Some(&b)).is_err());
        assert!(tape.squared_errors(&Tensor::zeros([2, 0]), &Tensor::zeros([2, 0]), None).is_err());
    }
}
