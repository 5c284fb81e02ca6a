//! The training loss of a diffusion network that learns its variance: weighted squared error plus
//! the variational bound, fused.
//!
//! The network's output is, per sample, a prediction p̂ and variance logits v, each of E elements.
//! With the target p, weights w, and the coefficients of the sample's timestep
//! ([`BoundCoefficients`]: low and high log-variance, scale m of the mean's error):
//!
//! * error = (1/E) Σ w(p̂ − p)².
//! * ln Σ = f·high + (1 − f)·low with f = (v + 1)/2, not squashed.
//! * bound = (1/(E·ln 2)) Σ ½(f·r − 1 + e^(−f·r)·(1 + m²(p̂ − p)²·e^(−low))), r = high − low: the
//!   divergence, in bits, of N(μ̂, Σ) from the posterior q(x_{t−1} | x_t, x_0), whose variance is
//!   e^low and whose mean differs from μ̂ by m(p̂ − p). Since x_0 follows from x_t and p, neither is
//!   needed.
//! * At t = 0 the bound is −log₂ of the probability that N(μ̂, Σ) gives to the bin of x_0, of half
//!   width 1/255 and open at the ends of [−1, 1], with the tanh form of the normal distribution.
//! * loss = error + bound weight · bound, per sample.
//!
//! In the bound p̂ is detached, so that only v learns from it: dp̂ = 2w(p̂ − p)/E, and dv =
//! (r/2)·½(1 − e^(−f·r)(1 + m²(p̂ − p)²e^(−low)))/(E·ln 2) times the bound weight.
//!
//! Shapes: output [B, 2C, S…] (channels of p̂ first), target, clean data x_0 and weights
//! [B, C, S…], losses [B].

use super::noise_schedule::BoundCoefficients;
use super::row::{PIECE, for_rows, put, row_of};
use crate::buffer::Buffer;
use crate::gradient::GradientStore;
use crate::tensor::Origin;
use crate::vectorize::{exponential, fused, lane_sum, vectorized};
use crate::{Error, Result, Shape, Tape, Tensor};
use std::f64::consts::{FRAC_2_PI, LN_2};
use std::sync::Arc;

/// Targets of the network's output.
#[derive(Clone, Copy)]
pub struct DiffusionTarget<'a> {
    /// The prediction target, noise or velocity: [B, C, S…].
    pub target: &'a Tensor,
    /// The data without noise, x_0: [B, C, S…].
    pub clean: &'a Tensor,
    /// Weights of the squared errors, best with mean one: [B, C, S…].
    pub weights: Option<&'a Tensor>,
}

/// The losses of a batch, by sample.
pub struct DiffusionLoss {
    /// error + bound weight · bound: `[B]`. Gradients flow from here.
    pub loss: Tensor,
    /// The mean weighted squared error: `[B]`, detached.
    pub error: Tensor,
    /// The variational bound in bits per element: `[B]`, detached.
    pub bound: Tensor,
}

impl Tape {
    /// Weighted squared error plus variational bound, by sample: output [B, 2C, S…] against a
    /// target [B, C, S…], with the coefficients of each sample's timestep.
    ///
    /// No gradient flows to the targets.
    ///
    /// # Errors
    /// If the shapes do not fit or there are not as many coefficients as samples.
    pub fn diffusion_loss(
        &mut self,
        output: &Tensor,
        target: DiffusionTarget<'_>,
        coefficients: &[BoundCoefficients],
        bound_weight: f32,
    ) -> Result<DiffusionLoss> {
        let operation = "diffusion_loss";
        let given = target;
        let DiffusionTarget { target, clean, weights } = given;
        check(operation, output, target, coefficients.len())?;
        target.expect_same(operation, clean)?;
        weights.map_or(Ok(()), |weights| target.expect_same(operation, weights))?;
        if let Some(cuda) = self.cuda() {
            return self.diffusion_loss_cuda(&cuda, output, given, coefficients, bound_weight);
        }
        let samples = Samples {
            output: output.clone(),
            target: target.detach(),
            clean: clean.detach(),
            weights: weights.map(Tensor::detach),
            coefficients: coefficients.into(),
            bound_weight,
        };
        let batch = coefficients.len();
        let mut parts = [0; 3].map(|_| self.device().buffer(batch));
        let [loss, error, bound] = &mut parts;
        let elements = samples.elements();
        let mut sums = self.device().buffer(2 * batch);
        for_rows(&mut sums, 2, 8 * elements, |sample, part| {
            let [error, bound] = samples.sums(sample);
            part[0] = (error / elements as f64) as f32;
            part[1] = (bound / (elements as f64 * LN_2)) as f32;
        });
        for sample in 0..batch {
            (error[sample], bound[sample]) = (sums[2 * sample], sums[2 * sample + 1]);
            loss[sample] = error[sample] + bound_weight * bound[sample];
        }
        let shape = Shape::new(&[batch]);
        let [loss, error, bound] = parts;
        let data = |buffer| Tensor::of_host(shape, buffer, Origin::Constant);
        let loss = self.record(operation, shape, loss, &[output], |_| {
            move |upstream, gradients| samples.backward(upstream, gradients)
        });
        Ok(DiffusionLoss { loss, error: data(error), bound: data(bound) })
    }
}

fn check(
    operation: &'static str,
    output: &Tensor,
    target: &Tensor,
    coefficients: usize,
) -> Result<()> {
    let mut expected = target.shape().extents().to_vec();
    if expected.len() >= 2 {
        expected[1] *= 2;
    }
    if expected.len() < 2 || output.shape().extents() != expected {
        let requirement =
            "an output is [batch, 2 · channels, …] where the target is [batch, channels, …]";
        return Err(Error::mismatch(operation, [output.shape(), target.shape()], requirement));
    }
    target.expect(operation, coefficients == expected[0], || {
        format!("{coefficients} coefficients were given, one per sample is needed")
    })?;
    target.expect(operation, target.shape().elements() > 0, || "a mean needs an element".into())
}

struct Samples {
    output: Tensor,
    target: Tensor,
    clean: Tensor,
    weights: Option<Tensor>,
    coefficients: Arc<[BoundCoefficients]>,
    bound_weight: f32,
}

/// The coefficients of one sample, for the kernels.
#[derive(Clone, Copy)]
struct Spread {
    /// r = high − low.
    spread: f32,
    /// m²·e^(−low).
    error_factor: f32,
}

impl From<&BoundCoefficients> for Spread {
    fn from(of: &BoundCoefficients) -> Self {
        Self {
            spread: (of.log_variance_high - of.log_variance_low) as f32,
            error_factor: (of.mean_scale * of.mean_scale * (-of.log_variance_low).exp()) as f32,
        }
    }
}

/// The elements of one sample.
struct Sample<'a> {
    prediction: &'a [f32],
    logits: &'a [f32],
    target: &'a [f32],
    weights: Option<&'a [f32]>,
}

impl Samples {
    fn elements(&self) -> usize {
        self.target.shape().elements() / self.coefficients.len().max(1)
    }

    fn sample(&self, sample: usize) -> Sample<'_> {
        let elements = self.elements();
        let output = row_of(self.output.values(), 2 * elements, sample);
        let (prediction, logits) = output.split_at(elements);
        let of = |tensor| row_of(Tensor::values(tensor), elements, sample);
        let (target, weights) = (of(&self.target), self.weights.as_ref().map(of));
        Sample { prediction, logits, target, weights }
    }

    /// Σ w(p̂ − p)² and the bound in nats, summed over a sample.
    fn sums(&self, sample: usize) -> [f64; 2] {
        let Sample { prediction, logits, target, weights } = self.sample(sample);
        let coefficients = &self.coefficients[sample];
        let spread = Spread::from(coefficients);
        let mut total = [0.0; 2];
        for start in (0..prediction.len()).step_by(PIECE) {
            let piece = start..(start + PIECE).min(prediction.len());
            let weights = weights.map(|weights| &weights[piece.clone()]);
            let (prediction, target) = (&prediction[piece.clone()], &target[piece.clone()]);
            total[0] += f64::from(squared_errors(prediction, target, weights));
            if !coefficients.first {
                total[1] += f64::from(divergences(prediction, &logits[piece], target, spread));
            }
        }
        if coefficients.first {
            let clean = row_of(self.clean.values(), prediction.len(), sample);
            for index in 0..prediction.len() {
                let error = f64::from(prediction[index] - target[index]);
                let (logit, clean) = (f64::from(logits[index]), f64::from(clean[index]));
                total[1] += likelihood(coefficients, error, logit, clean)[0];
            }
        }
        total
    }

    fn backward(&self, upstream: Buffer, gradients: &mut GradientStore<'_>) {
        let width = 2 * self.elements();
        gradients.with(&self.output, |gradient, accumulate| {
            for_rows(gradient, width, 4 * width, |sample, part| {
                self.sample_backward(part, sample, upstream[sample], accumulate);
            });
        });
    }

    /// The gradient of one sample's output, given that of its loss.
    fn sample_backward(&self, gradient: &mut [f32], sample: usize, upstream: f32, add: bool) {
        let Sample { prediction, logits, target, weights } = self.sample(sample);
        let elements = prediction.len();
        let coefficients = &self.coefficients[sample];
        let (own, of_logits) = gradient.split_at_mut(elements);
        let share = upstream / elements as f32;
        error_backward(own, prediction, target, weights, 2.0 * share, add);
        let factor = share * self.bound_weight / LN_2 as f32;
        if !coefficients.first {
            let spread = Spread::from(coefficients);
            divergence_backward(of_logits, prediction, logits, target, spread, factor, add);
            return;
        }
        let clean = row_of(self.clean.values(), elements, sample);
        for index in 0..elements {
            let error = f64::from(prediction[index] - target[index]);
            let (logit, clean) = (f64::from(logits[index]), f64::from(clean[index]));
            let slope = likelihood(coefficients, error, logit, clean)[1] as f32;
            put(&mut of_logits[index], factor * slope, add);
        }
    }
}

vectorized! {
    /// Σ w(p̂ − p)².
    fn squared_errors(prediction: &[f32], target: &[f32], weights: Option<&[f32]>) -> f32 {
        let length = prediction.len();
        let target = &target[..length];
        let square = |index: usize| {
            let error = prediction[index] - target[index];
            error * error
        };
        match weights {
            None => lane_sum(length, square),
            Some(weights) => {
                let weights = &weights[..length];
                lane_sum(length, |index| weights[index] * square(index))
            }
        }
    }

    /// Σ of the divergences in nats.
    fn divergences(prediction: &[f32], logits: &[f32], target: &[f32], spread: Spread) -> f32 {
        let length = prediction.len();
        let (logits, target) = (&logits[..length], &target[..length]);
        lane_sum(length, |index| {
            let error = prediction[index] - target[index];
            let excess = 0.5 * (logits[index] + 1.0) * spread.spread;
            let far = fused::<FUSED>(error * error, spread.error_factor, 1.0);
            0.5 * fused::<FUSED>(exponential::<FUSED>(-excess), far, excess - 1.0)
        })
    }

    /// gradient ← factor·w(p̂ − p).
    fn error_backward(
        gradient: &mut [f32],
        prediction: &[f32],
        target: &[f32],
        weights: Option<&[f32]>,
        factor: f32,
        accumulate: bool,
    ) {
        let length = gradient.len();
        let (prediction, target) = (&prediction[..length], &target[..length]);
        for index in 0..length {
            let weight = weights.map_or(1.0, |weights| weights[index]);
            let slope = factor * weight * (prediction[index] - target[index]);
            put(&mut gradient[index], slope, accumulate);
        }
    }

    /// gradient ← factor·(slope of the divergence by its variance logit).
    fn divergence_backward(
        gradient: &mut [f32],
        prediction: &[f32],
        logits: &[f32],
        target: &[f32],
        spread: Spread,
        factor: f32,
        accumulate: bool,
    ) {
        let length = gradient.len();
        let (prediction, target) = (&prediction[..length], &target[..length]);
        let logits = &logits[..length];
        let factor = 0.25 * factor * spread.spread;
        for index in 0..length {
            let error = prediction[index] - target[index];
            let excess = 0.5 * (logits[index] + 1.0) * spread.spread;
            let far = fused::<FUSED>(error * error, spread.error_factor, 1.0);
            let slope = fused::<FUSED>(-exponential::<FUSED>(-excess), far, 1.0);
            put(&mut gradient[index], factor * slope, accumulate);
        }
    }
}

/// −ln of the probability of the bin of `clean` under the predicted normal distribution, and its
/// slope by the variance logit. In double precision: differences of distribution functions cancel.
fn likelihood(coefficients: &BoundCoefficients, error: f64, logit: f64, clean: f64) -> [f64; 2] {
    const HALF_BIN: f64 = 1.0 / 255.0;
    const FLOOR: f64 = 1e-12;
    let spread = coefficients.log_variance_high - coefficients.log_variance_low;
    let log_variance = coefficients.log_variance_low + 0.5 * (logit + 1.0) * spread;
    let inverse = (-0.5 * log_variance).exp();
    let distance = coefficients.mean_scale * error;
    let [upper, lower] = [distance + HALF_BIN, distance - HALF_BIN].map(|edge| edge * inverse);
    // The distribution function and its slope by the log-variance, −z/2 times the density.
    let [above, below] = [upper, lower].map(|z| {
        let root = FRAC_2_PI.sqrt();
        let tangent = (root * (z + 0.044_715 * z.powi(3))).tanh();
        let density = 0.5 * (1.0 - tangent * tangent) * root * (1.0 + 3.0 * 0.044_715 * z * z);
        [0.5 * (1.0 + tangent), -0.5 * z * density]
    });
    let [probability, slope] = if clean < -0.999 {
        above
    } else if clean > 0.999 {
        [1.0 - below[0], -below[1]]
    } else {
        [above[0] - below[0], above[1] - below[1]]
    };
    if probability < FLOOR {
        return [-FLOOR.ln(), 0.0];
    }
    [-probability.ln(), -slope / probability * 0.5 * spread]
}

#[cfg(test)]
#[path = "diffusion_loss_tests.rs"]
mod tests;
