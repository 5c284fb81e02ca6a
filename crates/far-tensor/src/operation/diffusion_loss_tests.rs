//! The fused loss against the formulas of the papers, in double precision.

use super::*;
use crate::testing::{assert_close, check_gradients, evaluate, normal};
use crate::{NoiseSchedule, Prediction};
use proptest::prelude::*;

/// A batch with drawn noise and the velocity that follows from it.
struct Batch {
    schedule: NoiseSchedule,
    timesteps: Vec<usize>,
    clean: Tensor,
    noise: Tensor,
    output: Tensor,
    prediction: Prediction,
}

impl Batch {
    fn new(timesteps: &[usize], space: usize, prediction: Prediction, seed: u64) -> Self {
        let schedule = NoiseSchedule::linear(1000, 1e-4, 2e-2).unwrap();
        let shape = [timesteps.len(), 3, space];
        let clean = evaluate(|tape| tape.affine(&normal(shape, seed), 0.7, 0.0));
        let output = normal([timesteps.len(), 6, space], seed + 2);
        let (timesteps, noise) = (timesteps.to_vec(), normal(shape, seed + 1));
        Self { schedule, timesteps, clean, noise, output, prediction }
    }

    fn elements(&self) -> usize {
        self.clean.values().len() / self.timesteps.len()
    }

    fn power(&self, index: usize) -> f64 {
        self.schedule.signal_power(self.timesteps[index / self.elements()]).unwrap()
    }

    fn target(&self) -> Tensor {
        let of = |index: usize| {
            let (clean, noise) = (self.clean.values()[index], self.noise.values()[index]);
            let power = self.power(index);
            let velocity =
                power.sqrt() * f64::from(noise) - (1.0 - power).sqrt() * f64::from(clean);
            match self.prediction {
                Prediction::Noise => noise,
                Prediction::Velocity => velocity as f32,
                Prediction::Clean => clean,
            }
        };
        let values: Vec<f32> = (0..self.clean.values().len()).map(of).collect();
        Tensor::from_slice(&values, *self.clean.shape()).unwrap()
    }

    fn coefficients(&self) -> Vec<BoundCoefficients> {
        let of = |timestep| self.schedule.coefficients(timestep, self.prediction).unwrap();
        self.timesteps.iter().map(|timestep| of(*timestep)).collect()
    }

    /// The bound of one element in nats, with x_t, x̂_0 and both means spelled out.
    fn bound(&self, index: usize, prediction: f64, logit: f64) -> f64 {
        let timestep = self.timesteps[index / self.elements()];
        let at = |timestep: usize| self.schedule.signal_power(timestep).unwrap();
        let (power, before) = (at(timestep), if timestep == 0 { 1.0 } else { at(timestep - 1) });
        let beta = 1.0 - power / before;
        let clean = f64::from(self.clean.values()[index]);
        let noisy =
            power.sqrt() * clean + (1.0 - power).sqrt() * f64::from(self.noise.values()[index]);
        let guess = match self.prediction {
            Prediction::Noise => noisy / power.sqrt() - (1.0 / power - 1.0).sqrt() * prediction,
            Prediction::Velocity => power.sqrt() * noisy - (1.0 - power).sqrt() * prediction,
            Prediction::Clean => prediction,
        };
        let mean = |clean: f64| {
            let from_clean = beta * before.sqrt() / (1.0 - power) * clean;
            from_clean + (1.0 - before) * (1.0 - beta).sqrt() / (1.0 - power) * noisy
        };
        let step = timestep.max(1);
        let low = (1.0 - at(step) / at(step - 1)) * (1.0 - at(step - 1)) / (1.0 - at(step));
        let share = (logit + 1.0) / 2.0;
        let log_variance = share * beta.ln() + (1.0 - share) * low.ln();
        if timestep > 0 {
            let gap = mean(clean) - mean(guess);
            let ratio = (low.ln() - log_variance).exp();
            let far = gap * gap * (-log_variance).exp();
            return 0.5 * (-1.0 + log_variance - low.ln() + ratio + far);
        }
        let distribution = |z: f64| {
            let tangent =
                ((2.0 / std::f64::consts::PI).sqrt() * (z + 0.044_715 * z.powi(3))).tanh();
            0.5 * (1.0 + tangent)
        };
        let of =
            |edge: f64| distribution((clean - mean(guess) + edge) * (-0.5 * log_variance).exp());
        let (above, below) = (of(1.0 / 255.0), of(-1.0 / 255.0));
        let probability = if clean < -0.999 {
            above
        } else if clean > 0.999 {
            1.0 - below
        } else {
            above - below
        };
        -probability.max(1e-12).ln()
    }

    /// Error and bound of each sample.
    fn reference(&self, weights: Option<&Tensor>) -> (Vec<f32>, Vec<f32>) {
        let (elements, target) = (self.elements(), self.target());
        let sample = |sample: usize| {
            let (mut error, mut bound) = (0.0, 0.0);
            for element in 0..elements {
                let index = sample * elements + element;
                let prediction = f64::from(self.output.values()[2 * sample * elements + element]);
                let logit = f64::from(self.output.values()[(2 * sample + 1) * elements + element]);
                let weight = weights.map_or(1.0, |weights| f64::from(weights.values()[index]));
                error += weight * (prediction - f64::from(target.values()[index])).powi(2);
                bound += self.bound(index, prediction, logit);
            }
            let count = elements as f64;
            ((error / count) as f32, (bound / (count * LN_2)) as f32)
        };
        (0..self.timesteps.len()).map(sample).unzip()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn values_match_the_reference(
        timesteps in proptest::collection::vec(prop_oneof![Just(0usize), 1usize..1000], 1..5),
        space in 1usize..30, kind in 0usize..3, weighted in any::<bool>(), seed in 0u64..99,
    ) {
        let prediction = [Prediction::Noise, Prediction::Velocity, Prediction::Clean][kind];
        let batch = Batch::new(&timesteps, space, prediction, seed);
        let weights = normal(*batch.clean.shape(), seed + 9);
        let weights = weighted.then_some(&weights);
        let (target, clean) = (batch.target(), &batch.clean);
        let coefficients = batch.coefficients();
        let part = |part: fn(DiffusionLoss) -> Tensor| {
            evaluate(|tape| {
                let target = DiffusionTarget { target: &target, clean, weights };
                Ok(part(tape.diffusion_loss(&batch.output, target, &coefficients, 0.5)?))
            })
        };
        let (error, bound) = batch.reference(weights);
        assert_close(part(|found| found.error).values(), &error, 1e-5);
        // The velocity target is rounded to single precision, and the bound magnifies that.
        assert_close(part(|found| found.bound).values(), &bound, 1e-4);
        let total: Vec<f32> = error.iter().zip(&bound).map(|(e, b)| e + 0.5 * b).collect();
        assert_close(part(|found| found.loss).values(), &total, 1e-4);
    }
}

#[test]
fn variance_learns_from_the_bound_and_the_prediction_only_from_the_error() {
    let batch = Batch::new(&[0, 1, 40, 999, 0], 4, Prediction::Noise, 5);
    let (target, clean, coefficients) = (batch.target(), &batch.clean, batch.coefficients());
    let weights = normal(*clean.shape(), 8);
    let elements = batch.elements();
    let loss = |tape: &mut Tape, prediction: &Tensor, logits: &Tensor| {
        let joined = tape.concat(&[prediction, logits], 1)?;
        let target = DiffusionTarget { target: &target, clean, weights: Some(&weights) };
        Ok(tape.diffusion_loss(&joined, target, &coefficients, 0.3)?.loss)
    };
    let half = |which: usize| {
        let rows = batch.output.values().chunks(elements).skip(which).step_by(2);
        Tensor::from_slice(&rows.flatten().copied().collect::<Vec<_>>(), *clean.shape()).unwrap()
    };
    // Close to the target, as it is at small timesteps: elsewhere the curvature is too large.
    let near = evaluate(|tape| tape.weighted_sum(&target, 1.0, &half(0), 0.05));
    let logits = half(1);
    check_gradients(std::slice::from_ref(&logits), |tape, x| loss(tape, &near, &x[0]));

    let mut tape = Tape::recording(&crate::Device::poisoned());
    let prediction = tape.variable(&near);
    let total = loss(&mut tape, &prediction, &logits).unwrap();
    let total = tape.sum(&total).unwrap();
    let gradients = tape.backward(&total, 1.0, &mut []).unwrap();
    let expected: Vec<f32> = (0..near.values().len())
        .map(|index| {
            let error = near.values()[index] - target.values()[index];
            2.0 * weights.values()[index] * error / elements as f32
        })
        .collect();
    assert_close(gradients.of(&prediction).unwrap(), &expected, 1e-6);
}

#[test]
fn a_network_of_zeros_starts_at_an_error_of_one() {
    let batch = Batch::new(&[500; 4], 2000, Prediction::Noise, 3);
    let output = Tensor::zeros(*batch.output.shape());
    let (target, clean) = (batch.target(), &batch.clean);
    let target = DiffusionTarget { target: &target, clean, weights: None };
    let mut tape = Tape::inference(&crate::Device::cpu());
    let found = tape.diffusion_loss(&output, target, &batch.coefficients(), 1.0).unwrap();
    assert!(found.error.values().iter().all(|error| (error - 1.0).abs() < 0.05));
}

#[test]
fn what_does_not_fit_is_named() {
    let batch = Batch::new(&[5, 6], 2, Prediction::Noise, 3);
    let (target, clean) = (batch.target(), &batch.clean);
    let given = DiffusionTarget { target: &target, clean, weights: None };
    let mut tape = Tape::inference(&crate::Device::cpu());
    let coefficients = batch.coefficients();
    let error = tape.diffusion_loss(&target, given, &coefficients, 1.0).err().unwrap();
    assert!(error.to_string().starts_with("diffusion_loss: [2, 3, 2] does not fit"), "{error}");
    assert!(tape.diffusion_loss(&batch.output, given, &coefficients[..1], 1.0).is_err());
    let other = normal([2, 3, 1], 1);
    let wrong = DiffusionTarget { clean: &other, ..given };
    assert!(tape.diffusion_loss(&batch.output, wrong, &coefficients, 1.0).is_err());
}
