//! AdamW with global-norm clipping, linear warm-up and a moving average, in one pass over an arena.
//!
//! With g the clipped gradient, t the update's number from 1, η the learning rate with warm-up:
//! m ← β₁m + (1 − β₁)g, v ← β₂v + (1 − β₂)g², θ ← (1 − ηλ)θ − η·(m/(1 − β₁ᵗ)) / (√(v/(1 − β₂ᵗ)) + ε),
//! θ̄ ← d·θ̄ + (1 − d)·θ. If a parameter has its own factor ([`ArenaBuilder::set_rate`]), η is
//! multiplied by it.
//!
//! [`ArenaBuilder::set_rate`]: crate::ArenaBuilder::set_rate

use crate::buffer::Buffer;
use crate::cuda::{Cuda, Precision, UpdatePlaces};
use crate::gradient::Gradients;
use crate::parallel::{Disjoint, GRAIN, for_ranges};
use crate::storage::Storage;
use crate::vectorize::{fused, lane_sum, vectorized};
use crate::{Error, Parameters, Result};
use std::ops::Range;

/// The settings of [`AdamW`]; the defaults are the paper's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamWConfig {
    /// Learning rate η after warm-up. Paper: 1e-4.
    pub learning_rate: f32,
    /// Decay β₁ of the first moment. DiT: 0.9.
    pub first_decay: f32,
    /// Decay β₂ of the second moment. DiT: 0.999.
    pub second_decay: f32,
    /// ε added to the root of the second moment. Paper: 1e-6.
    pub epsilon: f32,
    /// Decoupled weight decay λ. Paper: 0.
    pub weight_decay: f32,
    /// Largest global gradient norm; `None` does not clip. Paper: 1.
    pub clip: Option<f32>,
    /// Updates over which the rate rises linearly; 0 for none. Paper: 5,000.
    pub warm_up: u64,
    /// Fraction of the rate at the first update of the warm-up. Paper: 0.2.
    pub warm_up_from: f32,
    /// Updates at whose end the rate has fallen to zero, along half a cosine; `None` keeps it. Paper: kept.
    pub cosine_until: Option<u64>,
    /// Decay d of the moving average of the parameters; `None` for no average. Paper: 0.9999.
    pub average_decay: Option<f32>,
    /// Whether the average's decay starts as (1 + n)/(10 + n), so that in short runs it is not
    /// mostly initialization.
    pub average_warm_up: bool,
}

impl Default for AdamWConfig {
    fn default() -> Self {
        Self {
            learning_rate: 1e-4,
            first_decay: 0.9,
            second_decay: 0.999,
            epsilon: 1e-6,
            weight_decay: 0.0,
            clip: Some(1.0),
            warm_up: 5_000,
            warm_up_from: 0.2,
            cosine_until: None,
            average_decay: Some(0.9999),
            average_warm_up: true,
        }
    }
}

/// Result of an update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Update {
    /// The number of this update, from 1.
    pub number: u64,
    /// The global gradient norm before clipping.
    pub gradient_norm: f32,
    /// The learning rate used.
    pub learning_rate: f32,
}

/// AdamW over one arena.
pub struct AdamW {
    config: AdamWConfig,
    updates: u64,
    first: Storage,
    second: Storage,
    average: Option<Storage>,
}

impl AdamW {
    /// An optimizer for these parameters; the average starts as a copy of them.
    pub fn new(config: AdamWConfig, parameters: &Parameters) -> Self {
        let length = parameters.length();
        let average = config.average_decay.map(|_| Buffer::from(parameters.values()).into());
        let (first, second) = (Buffer::zeroed(length).into(), Buffer::zeroed(length).into());
        Self { config, updates: 0, first, second, average }
    }

    /// The settings.
    pub fn config(&self) -> &AdamWConfig {
        &self.config
    }

    /// Number of updates so far.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// The moving average of the parameters, in the arena's layout.
    pub fn average(&self) -> Option<&[f32]> {
        self.average.as_ref().map(|average| &**average.host())
    }

    /// The state to save: the number of updates and the flat buffers by name.
    pub(crate) fn state(&self) -> (u64, Vec<(&'static str, &[f32])>) {
        let mut buffers = vec![("first", &**self.first.host()), ("second", &**self.second.host())];
        buffers.extend(self.average().map(|average| ("average", average)));
        (self.updates, buffers)
    }

    /// The state to load into, as in [`AdamW::state`].
    pub(crate) fn state_mut(&mut self) -> (&mut u64, Vec<(&'static str, &mut [f32])>) {
        let [first, second] =
            [&mut self.first, &mut self.second].map(|part| &mut **part.host_mut());
        let mut buffers = vec![("first", first), ("second", second)];
        let average = self.average.as_mut().map(|average| &mut **average.host_mut());
        buffers.extend(average.map(|average| ("average", average)));
        (&mut self.updates, buffers)
    }

    /// The learning rate of update `number`, from 1.
    fn rate(&self, number: u64) -> f32 {
        let AdamWConfig { learning_rate, warm_up, warm_up_from, cosine_until, .. } = self.config;
        let left = cosine_until.map_or(1.0, |end| {
            let progress = ((number - 1) as f64 / end.max(1) as f64).min(1.0);
            (0.5 + 0.5 * (std::f64::consts::PI * progress).cos()) as f32
        });
        if number > warm_up || warm_up == 0 {
            return learning_rate * left;
        }
        let progress = (number - 1) as f32 / warm_up as f32;
        learning_rate * left * (warm_up_from + (1.0 - warm_up_from) * progress)
    }

    /// The average's decay after update `number`.
    fn average_decay(&self, number: u64) -> f32 {
        let decay = self.config.average_decay.unwrap_or(0.0);
        let early = (1.0 + number as f32) / (10.0 + number as f32);
        if self.config.average_warm_up { decay.min(early) } else { decay }
    }

    /// Applies the accumulated gradients and clears them.
    ///
    /// # Errors
    /// If the gradient norm is not finite (everything is then unchanged), or if a tensor still
    /// refers to the parameters.
    pub fn update(
        &mut self,
        parameters: &mut Parameters,
        gradients: &mut Gradients,
    ) -> Result<Update> {
        let number = self.updates + 1;
        let learning_rate = self.rate(number);
        let norm = match gradients.gpu() {
            Some(cuda) => self.update_on(&cuda, parameters, gradients, number)?,
            None => self.update_here(parameters, gradients, number)?,
        };
        self.updates = number;
        gradients.clear();
        Ok(Update { number, gradient_norm: norm as f32, learning_rate })
    }

    /// The constants of update `number`, given the gradient norm.
    fn constants(&self, number: u64, norm: f64) -> Result<Constants> {
        if !norm.is_finite() {
            return Err(Error::non_finite("gradient norm", norm, None));
        }
        let learning_rate = self.rate(number);
        let clip = match self.config.clip {
            // The same small number as in PyTorch.
            Some(clip) if norm > f64::from(clip) => (f64::from(clip) / (norm + 1e-6)) as f32,
            _ => 1.0,
        };
        let correction = |decay: f32| 1.0 - f64::from(decay).powf(number as f64);
        Ok(Constants {
            clip,
            first: self.config.first_decay,
            second: self.config.second_decay,
            epsilon: self.config.epsilon,
            step: (f64::from(learning_rate) / correction(self.config.first_decay)) as f32,
            root: (1.0 / correction(self.config.second_decay).sqrt()) as f32,
            decay: learning_rate * self.config.weight_decay,
            average: 1.0 - self.average_decay(number),
        })
    }

    /// The update on the CPU; returns the gradient norm.
    fn update_here(
        &mut self,
        parameters: &mut Parameters,
        gradients: &mut Gradients,
        number: u64,
    ) -> Result<f64> {
        let flat: &[f32] = gradients.completed();
        let norm = global_norm(flat);
        let constants = self.constants(number, norm)?;
        let rates = parameters.rates.clone();
        let values = parameters.values_mut()?;
        let length = values.len();
        let values = Disjoint::new(values);
        let first = Disjoint::new(self.first.host_mut());
        let second = Disjoint::new(self.second.host_mut());
        let average = self.average.as_mut().map(|average| Disjoint::new(average.host_mut()));
        for_ranges(length, GRAIN, |range| {
            for_rates(&rates, range, |range, rate| {
                // SAFETY: the ranges are disjoint, in each of the four buffers.
                unsafe {
                    let average = average.map(|average| average.range(range.clone()));
                    let (values, first) = (values.range(range.clone()), first.range(range.clone()));
                    let second = second.range(range.clone());
                    update(values, first, second, &flat[range], constants.times(rate));
                    if let Some(average) = average {
                        follow(average, values, constants.average);
                    }
                }
            });
        });
        Ok(norm)
    }

    /// The update on a GPU; returns the gradient norm.
    fn update_on(
        &mut self,
        cuda: &Cuda,
        parameters: &mut Parameters,
        gradients: &mut Gradients,
        number: u64,
    ) -> Result<f64> {
        let length = parameters.length();
        let flat = gradients.completed_on(cuda)?;
        let norm = cuda.norm(flat, length)?;
        let constants = self.constants(number, norm)?;
        let rates = parameters.rates.clone();
        let with_half = cuda.precision() == Precision::Bf16;
        let [values, half] = parameters.storage_mut()?.on_mut(cuda, with_half)?;
        let average = match &mut self.average {
            Some(average) => average.on_mut(cuda, false)?[0],
            None => 0,
        };
        let places = UpdatePlaces {
            values,
            half,
            first: self.first.on_mut(cuda, false)?[0],
            second: self.second.on_mut(cuda, false)?[0],
            average,
            gradients: flat,
        };
        let mut outcome = Ok(());
        for_rates(&rates, 0..length, |range, rate| {
            if outcome.is_ok() {
                outcome = cuda.adamw(places.from(range.start), range.len(), constants.times(rate));
            }
        });
        outcome.map(|()| norm)
    }
}

/// Cuts a range where the learning rate changes; `rates` are ordered and do not overlap.
fn for_rates(
    rates: &[(Range<usize>, f32)],
    range: Range<usize>,
    mut work: impl FnMut(Range<usize>, f32),
) {
    let mut start = range.start;
    for (own, rate) in rates {
        let (first, end) = (own.start.max(start), own.end.min(range.end));
        if first < end {
            if start < first {
                work(start..first, 1.0);
            }
            work(first..end, *rate);
            start = end;
        }
    }
    if start < range.end {
        work(start..range.end, 1.0);
    }
}

/// √Σ g², pieces of a fixed size added in double precision.
fn global_norm(gradients: &[f32]) -> f64 {
    let pieces = gradients.chunks(GRAIN);
    pieces.map(|piece| f64::from(sum_of_squares(piece))).sum::<f64>().sqrt()
}

vectorized! {
    fn sum_of_squares(values: &[f32]) -> f32 {
        lane_sum(values.len(), |index| values[index] * values[index])
    }
}

/// The constants of one update.
#[derive(Clone, Copy)]
pub(crate) struct Constants {
    pub clip: f32,
    pub first: f32,
    pub second: f32,
    pub epsilon: f32,
    pub step: f32,
    pub root: f32,
    pub decay: f32,
    pub average: f32,
}

impl Constants {
    /// These constants with the learning rate multiplied by a factor.
    fn times(self, rate: f32) -> Self {
        Self { step: self.step * rate, decay: self.decay * rate, ..self }
    }
}

vectorized! {
    fn update(values: &mut [f32], first: &mut [f32], second: &mut [f32], gradients: &[f32], constants: Constants) {
        let Constants { clip, first: b1, second: b2, epsilon, step, root, decay, .. } = constants;
        let keep = 1.0 - decay;
        let state = values.iter_mut().zip(first).zip(second).zip(gradients);
        for (((value, first), second), gradient) in state {
            let gradient = clip * gradient;
            *first = fused::<FUSED>(b1, *first, (1.0 - b1) * gradient);
            *second = fused::<FUSED>(b2, *second, (1.0 - b2) * gradient * gradient);
            let size = fused::<FUSED>(second.sqrt(), root, epsilon);
            *value = keep * *value - step * *first / size;
        }
    }

    fn follow(average: &mut [f32], values: &[f32], share: f32) {
        for (average, value) in average.iter_mut().zip(values) {
            *average = fused::<FUSED>(share, *value - *average, *average);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, normal};
    use crate::{ArenaBuilder, Initialization};

    /// The formula, one value at a time, in double precision.
    fn reference(
        config: AdamWConfig,
        start: &[f32],
        gradients: &[Vec<f32>],
    ) -> (Vec<f32>, Vec<f32>) {
        let mut theta: Vec<f64> = start.iter().map(|x| f64::from(*x)).collect();
        let mut average = theta.clone();
        let (mut m, mut v) = (vec![0.0; start.len()], vec![0.0; start.len()]);
        for (index, gradient) in gradients.iter().enumerate() {
            let t = index as i32 + 1;
            let norm = gradient.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
            let clip = config.clip.map_or(1.0, |clip| (f64::from(clip) / norm).min(1.0));
            let progress = (index as f64 / config.warm_up.max(1) as f64).min(1.0);
            let from = f64::from(config.warm_up_from);
            let mut rate = f64::from(config.learning_rate) * (from + (1.0 - from) * progress);
            if let Some(end) = config.cosine_until {
                let angle = std::f64::consts::PI * (index as f64 / end as f64).min(1.0);
                rate *= (1.0 + angle.cos()) / 2.0;
            }
            let (b1, b2) = (f64::from(config.first_decay), f64::from(config.second_decay));
            let decay = f64::from(config.average_decay.unwrap_or(0.0))
                .min((1 + t) as f64 / (10 + t) as f64);
            for i in 0..theta.len() {
                let g = clip * f64::from(gradient[i]);
                m[i] = b1 * m[i] + (1.0 - b1) * g;
                v[i] = b2 * v[i] + (1.0 - b2) * g * g;
                let size = (v[i] / (1.0 - b2.powi(t))).sqrt() + f64::from(config.epsilon);
                theta[i] *= 1.0 - rate * f64::from(config.weight_decay);
                theta[i] -= rate * (m[i] / (1.0 - b1.powi(t))) / size;
                average[i] = decay * average[i] + (1.0 - decay) * theta[i];
            }
        }
        (theta.iter().map(|x| *x as f32).collect(), average.iter().map(|x| *x as f32).collect())
    }

    #[test]
    fn updates_match_the_reference() {
        // The second falls to zero before the last update.
        for cosine_until in [None, Some(7)] {
            updates_match(AdamWConfig {
                learning_rate: 0.01,
                weight_decay: 0.1,
                warm_up: 4,
                cosine_until,
                ..AdamWConfig::default()
            });
        }
    }

    fn updates_match(config: AdamWConfig) {
        let mut builder = ArenaBuilder::new("toy");
        builder.parameter("a", [32], Initialization::Normal(1.0));
        let mut parameters = builder.build(3);
        let start = parameters.values().to_vec();
        let mut optimizer = AdamW::new(config, &parameters);
        let mut gradients = parameters.gradients();
        let steps: Vec<Vec<f32>> = (0..8)
            .map(|step| normal([32], 40 + step).values().iter().map(|g| g * 0.5).collect())
            .collect();
        for step in &steps {
            gradients.completed().copy_from_slice(step);
            optimizer.update(&mut parameters, &mut gradients).unwrap();
        }
        let (theta, average) = reference(config, &start, &steps);
        assert_close(parameters.values(), &theta, 2e-6);
        assert_close(optimizer.average().unwrap(), &average, 2e-6);
    }

    /// Trains arenas separately with the same gradients, which no clipping couples.
    fn train(mut arenas: Vec<(Parameters, f32)>, steps: u64) -> Vec<(Vec<f32>, Vec<f32>)> {
        let trained = arenas.iter_mut().map(|(parameters, learning_rate)| {
            let config = AdamWConfig {
                learning_rate: *learning_rate,
                weight_decay: 0.1,
                warm_up: 2,
                clip: None,
                ..AdamWConfig::default()
            };
            let mut optimizer = AdamW::new(config, parameters);
            let mut gradients = parameters.gradients();
            for step in 0..steps {
                let noise = normal([parameters.values().len()], step);
                gradients.completed().copy_from_slice(noise.values());
                optimizer.update(parameters, &mut gradients).unwrap();
            }
            (parameters.values().to_vec(), optimizer.average().unwrap().to_vec())
        });
        trained.collect()
    }

    #[test]
    fn a_rate_of_its_own_is_an_optimizer_of_its_own() {
        // Longer than a piece of work, so that boundaries of both kinds are crossed.
        let lengths = [GRAIN - 37, 50, 2 * GRAIN + 5, 21];
        let arena = |rates: [f32; 4]| {
            let mut builder = ArenaBuilder::new("toy");
            for (place, (length, rate)) in lengths.into_iter().zip(rates).enumerate() {
                let begin = Initialization::Normal(1.0);
                let id = builder.parameter(format!("p{place}"), [length], begin);
                builder.set_rate(id, rate);
            }
            builder.build(3)
        };
        let mixed = arena([1.0, 20.0, 1.0, 0.0]);
        let ranges: Vec<_> = mixed.entries.iter().map(|entry| entry.range.clone()).collect();
        let start = mixed.values().to_vec();
        let found = train(vec![(mixed, 1e-3), (arena([1.0; 4]), 1e-3), (arena([1.0; 4]), 2e-2)], 5);
        let [mixed, slow, fast] = &found[..] else { unreachable!("three were trained") };
        for (range, like) in ranges.iter().zip([slow, fast, slow]) {
            assert_close(&mixed.0[range.clone()], &like.0[range.clone()], 1e-6);
            assert_close(&mixed.1[range.clone()], &like.1[range.clone()], 1e-6);
        }
        assert_eq!(mixed.0[ranges[0].clone()], slow.0[ranges[0].clone()], "untouched bits");
        assert_eq!(mixed.0[ranges[3].clone()], start[ranges[3].clone()], "rate 0 keeps");
    }

    #[test]
    fn a_non_finite_gradient_changes_nothing() {
        let mut builder = ArenaBuilder::new("toy");
        builder.parameter("a", [4], Initialization::One);
        let mut parameters = builder.build(3);
        let mut optimizer = AdamW::new(AdamWConfig::default(), &parameters);
        let mut gradients = parameters.gradients();
        gradients.completed()[2] = f32::INFINITY;
        assert!(matches!(
            optimizer.update(&mut parameters, &mut gradients),
            Err(Error::NonFinite { .. })
        ));
        assert_eq!(parameters.values()[..4], [1.0; 4]);
        assert_eq!(optimizer.updates(), 0);
    }
}
