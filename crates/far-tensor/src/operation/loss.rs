//! Losses that are means over elements: squared error, smooth L1, binary cross-entropy.
//!
//! L = (1/n) Σ w·ℓ(x, t) over the n elements, with optional element weights w:
//!
//! | loss | ℓ | dℓ/dx |
//! |---|---|---|
//! | squared error | (x − t)² | 2(x − t) |
//! | smooth L1 | e²/(2β) where \|e\| < β, else \|e\| − β/2, with e = x − t | e/β, else sign e |
//! | binary cross-entropy | max(x, 0) − x·t + ln(1 + e^−\|x\|) | σ(x) − t |
//!
//! The sum is divided by n and not by Σ w, as in other frameworks; weights whose mean is one leave
//! the scale unchanged, and a weight of p where t = 1 is the usual positive weight. No gradient
//! flows to targets and weights.

use super::row::put;
use crate::parallel::{GRAIN, for_parts};
use crate::vectorize::{lane_sum, logistic, vectorized};
use crate::{Result, Shape, Tape, Tensor};

/// Kind of loss.
#[derive(Clone, Copy)]
pub(crate) enum Loss {
    /// (x − t)².
    Squared,
    /// With its β.
    SmoothL1(f32),
    /// Of logits.
    CrossEntropy,
}

impl Loss {
    /// Where a smooth loss becomes a straight line; 0 for the others.
    pub(crate) fn beta(self) -> f32 {
        if let Self::SmoothL1(beta) = self { beta } else { 0.0 }
    }
}

impl Tape {
    /// The mean of w(x − t)², a scalar; x, t and w have the same shape.
    ///
    /// ```
    /// use far_tensor::{Device, Tape, Tensor};
    /// let (x, t) = (Tensor::from_slice(&[1.0, 5.0], [2])?, Tensor::from_slice(&[0.0, 2.0], [2])?);
    /// let loss = Tape::inference(&Device::cpu()).squared_error(&x, &t, None)?;
    /// assert_eq!(loss.item()?, 5.0);
    /// # Ok::<(), far_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the shapes differ or there is no element.
    pub fn squared_error(
        &mut self,
        x: &Tensor,
        target: &Tensor,
        weights: Option<&Tensor>,
    ) -> Result<Tensor> {
        self.mean_loss("squared_error", x, target, weights, Loss::Squared)
    }

    /// The mean of the smooth L1 loss with threshold β > 0, a scalar; shapes are equal.
    ///
    /// # Errors
    /// If the shapes differ, there is no element, or β is not positive.
    pub fn smooth_l1(
        &mut self,
        x: &Tensor,
        target: &Tensor,
        beta: f32,
        weights: Option<&Tensor>,
    ) -> Result<Tensor> {
        x.expect("smooth_l1", beta > 0.0, || format!("a positive beta is needed, it is {beta}"))?;
        self.mean_loss("smooth_l1", x, target, weights, Loss::SmoothL1(beta))
    }

    /// The mean of −t·ln σ(x) − (1 − t)·ln(1 − σ(x)), a scalar: x are logits of any size, t are
    /// probabilities; shapes are equal.
    ///
    /// # Errors
    /// If the shapes differ or there is no element.
    pub fn cross_entropy_with_logits(
        &mut self,
        x: &Tensor,
        target: &Tensor,
        weights: Option<&Tensor>,
    ) -> Result<Tensor> {
        self.mean_loss("cross_entropy_with_logits", x, target, weights, Loss::CrossEntropy)
    }

    fn mean_loss(
        &mut self,
        operation: &'static str,
        x: &Tensor,
        target: &Tensor,
        weights: Option<&Tensor>,
        loss: Loss,
    ) -> Result<Tensor> {
        let elements = x.shape().elements();
        x.expect_same(operation, target)?;
        weights.map_or(Ok(()), |weights| x.expect_same(operation, weights))?;
        x.expect(operation, elements > 0, || "a mean needs an element".into())?;
        if let Some(cuda) = self.cuda() {
            return self.mean_loss_cuda(&cuda, operation, x, target, weights, loss);
        }
        // One partial sum per piece, added in order.
        let mut partials = self.device().buffer(elements.div_ceil(GRAIN));
        for_parts(&mut partials, 1, 1, |piece, part| {
            let range = piece.start * GRAIN..elements.min(piece.end * GRAIN);
            let weights = weights.map(|weights| &weights.values()[range.clone()]);
            let (x, target) = (&x.values()[range.clone()], &target.values()[range]);
            let total = match loss {
                Loss::Squared => total::<Squared>,
                Loss::SmoothL1(_) => total::<SmoothL1>,
                Loss::CrossEntropy => total::<CrossEntropy>,
            };
            part[0] = total(x, target, weights, loss.beta());
        });
        let mut output = self.device().buffer(1);
        let sum: f64 = partials.iter().map(|partial| f64::from(*partial)).sum();
        output[0] = (sum / elements as f64) as f32;
        Ok(self.record(operation, Shape::new(&[]), output, &[x], |_| {
            let (x, target, weights) = (x.clone(), target.detach(), weights.map(Tensor::detach));
            move |upstream, gradients| {
                gradients.with(&x, |gradient, accumulate| {
                    let elements = gradient.len();
                    let factor = upstream[0] / elements as f32;
                    for_parts(gradient, 1, GRAIN, |range, part| {
                        let x = &x.values()[range.clone()];
                        let target = &target.values()[range.clone()];
                        let weights = weights.as_ref().map(|weights| &weights.values()[range]);
                        let slopes = match loss {
                            Loss::Squared => slopes::<Squared>,
                            Loss::SmoothL1(_) => slopes::<SmoothL1>,
                            Loss::CrossEntropy => slopes::<CrossEntropy>,
                        };
                        slopes(part, x, target, weights, loss.beta(), factor, accumulate);
                    });
                });
            }
        }))
    }
}

/// ℓ and dℓ/dx of one element, for the vectorized loops.
pub(super) trait Term {
    fn value<const FUSED: bool>(x: f32, target: f32, beta: f32) -> f32;
    fn slope<const FUSED: bool>(x: f32, target: f32, beta: f32) -> f32;
}

pub(super) struct Squared;
struct SmoothL1;
struct CrossEntropy;

impl Term for Squared {
    #[inline(always)]
    fn value<const FUSED: bool>(x: f32, target: f32, _beta: f32) -> f32 {
        (x - target) * (x - target)
    }
    #[inline(always)]
    fn slope<const FUSED: bool>(x: f32, target: f32, _beta: f32) -> f32 {
        2.0 * (x - target)
    }
}

impl Term for SmoothL1 {
    #[inline(always)]
    fn value<const FUSED: bool>(x: f32, target: f32, beta: f32) -> f32 {
        let error = (x - target).abs();
        if error < beta { 0.5 * error * error / beta } else { error - 0.5 * beta }
    }
    #[inline(always)]
    fn slope<const FUSED: bool>(x: f32, target: f32, beta: f32) -> f32 {
        let error = x - target;
        if error.abs() < beta { error / beta } else { error.signum() }
    }
}

impl Term for CrossEntropy {
    #[inline(always)]
    fn value<const FUSED: bool>(x: f32, target: f32, _beta: f32) -> f32 {
        // `max` would turn a NaN into zero.
        let positive = if x < 0.0 { 0.0 } else { x };
        positive - x * target + (-x.abs()).exp().ln_1p()
    }
    #[inline(always)]
    fn slope<const FUSED: bool>(x: f32, target: f32, _beta: f32) -> f32 {
        logistic::<FUSED>(x) - target
    }
}

vectorized! {
    /// Σ w·ℓ over a piece.
    pub(super) fn total<T: Term>(x: &[f32], target: &[f32], weights: Option<&[f32]>, beta: f32) -> f32 {
        let length = x.len();
        let target = &target[..length];
        match weights {
            None => lane_sum(length, |index| T::value::<FUSED>(x[index], target[index], beta)),
            Some(weights) => {
                let weights = &weights[..length];
                lane_sum(length, |index| {
                    weights[index] * T::value::<FUSED>(x[index], target[index], beta)
                })
            }
        }
    }

    /// gradient ← factor·w·dℓ/dx over a piece.
    pub(super) fn slopes<T: Term>(
        gradient: &mut [f32],
        x: &[f32],
        target: &[f32],
        weights: Option<&[f32]>,
        beta: f32,
        factor: f32,
        accumulate: bool,
    ) {
        let length = gradient.len();
        let (x, target) = (&x[..length], &target[..length]);
        match weights {
            None => for index in 0..length {
                let slope = factor * T::slope::<FUSED>(x[index], target[index], beta);
                put(&mut gradient[index], slope, accumulate);
            }
            Some(weights) => {
                let weights = &weights[..length];
                for index in 0..length {
                    let slope = T::slope::<FUSED>(x[index], target[index], beta);
                    put(&mut gradient[index], factor * weights[index] * slope, accumulate);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, check_gradients, evaluate, mask, normal};
    use proptest::prelude::*;

    fn apply(
        tape: &mut Tape,
        loss: Loss,
        x: &Tensor,
        target: &Tensor,
        weights: Option<&Tensor>,
    ) -> Result<Tensor> {
        match loss {
            Loss::Squared => tape.squared_error(x, target, weights),
            Loss::SmoothL1(beta) => tape.smooth_l1(x, target, beta, weights),
            Loss::CrossEntropy => tape.cross_entropy_with_logits(x, target, weights),
        }
    }

    fn reference(loss: Loss, x: f64, target: f64) -> f64 {
        let error = (x - target).abs();
        match loss {
            Loss::Squared => error * error,
            Loss::SmoothL1(beta) if error < f64::from(beta) => {
                error * error / f64::from(2.0 * beta)
            }
            Loss::SmoothL1(beta) => error - f64::from(beta) / 2.0,
            Loss::CrossEntropy => {
                let p = 1.0 / (1.0 + (-x).exp());
                -target * p.ln() - (1.0 - target) * (1.0 - p).ln()
            }
        }
    }

    const ALL: [Loss; 3] = [Loss::Squared, Loss::SmoothL1(0.7), Loss::CrossEntropy];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn values_match_the_reference(
            rows in 1usize..40, width in 1usize..900, weighted in any::<bool>(), seed in 0u64..99,
        ) {
            let x = evaluate(|tape| tape.affine(&normal([rows, width], seed), 2.0, 0.0));
            // Zeros and ones are valid targets of every loss.
            let target = mask([rows, width], seed + 1);
            let weights = normal([rows, width], seed + 2);
            let given = weighted.then_some(&weights);
            for loss in ALL {
                let mut sum = 0.0;
                for index in 0..rows * width {
                    let weight = given.map_or(1.0, |weights| f64::from(weights.values()[index]));
                    let target = f64::from(target.values()[index]);
                    sum += weight * reference(loss, f64::from(x.values()[index]), target);
                }
                let found = evaluate(|tape| apply(tape, loss, &x, &target, given));
                assert_close(found.values(), &[(sum / (rows * width) as f64) as f32], 5e-6);
            }
        }
    }

    #[test]
    fn gradients_match_differences() {
        let (x, target, weights) = ([normal([4, 5], 1)], mask([4, 5], 2), normal([4, 5], 3));
        for loss in ALL {
            for given in [None, Some(&weights)] {
                check_gradients(&x, |tape, x| apply(tape, loss, &x[0], &target, given));
            }
        }
    }

    #[test]
    fn huge_logits_stay_finite() {
        let x = Tensor::from_slice(&[1000.0, -1000.0], [2]).unwrap();
        let target = Tensor::from_slice(&[1.0, 1.0], [2]).unwrap();
        let found = evaluate(|tape| tape.cross_entropy_with_logits(&x, &target, None));
        assert_eq!(found.values(), [500.0]);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let mut tape = Tape::inference(&crate::Device::cpu());
        let (a, b) = (normal([2, 3], 1), normal([3, 2], 1));
        let error = tape.squared_error(&a, &b, None).unwrap_err();
        assert!(
            error.to_string().starts_with("squared_error: [2, 3] does not fit [3, 2]"),
            "{error}"
        );
        assert!(tape.smooth_l1(&a, &a, 0.0, None).is_err());
        assert!(tape.squared_error(&a, &a, Some(&b)).is_err());
        assert!(tape.squared_error(&Tensor::zeros([0]), &Tensor::zeros([0]), None).is_err());
    }
}
