//! AdamW with global-norm clipping, linear warm-up and a moving average, in one pass over an arena.
//!
//! With g the clipped gradient, t the update's number from 1, η the learning rate with warm-up:
//! m ← β₁m + (1 − β₁)g, v ← β₂v + (1 − β₂)g², θ ← (1 − ηλ)θ − η·(m/(1 − β₁ᵗ)) / (√(v/(1 − β₂ᵗ)) + ε),
//! θ̄ ← d·θ̄ + (1 − d)·θ. If a parameter has its own factor ([`ArenaBuilder::set_rate`]), η is
//! multiplied by it.
//!
//! [`ArenaBuilder::set_rate`]: crate::ArenaBuilder::set_rate

mod config;
#[cfg(test)]
mod tests;

pub use config::AdamWConfig;

use crate::buffer::Buffer;
use crate::cuda::{Cuda, Precision, UpdatePlaces};
use crate::gradient::Gradients;
use crate::parallel::{Disjoint, GRAIN, for_ranges};
use crate::storage::Storage;
use crate::vectorize::{fused, lane_sum, vectorized};
use crate::{Error, Parameters, Result};
use std::ops::Range;

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
        let learning_rate = self.config.rate(number);
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
        let learning_rate = self.config.rate(number);
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
            average: 1.0 - self.config.average_decay(number),
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
