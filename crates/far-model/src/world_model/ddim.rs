//! DDIM: deterministic sampling with few of the schedule's steps.
//!
//! From x_t the clean data is estimated as x̂_0, the noise as ε̂, and the next step is
//! x_s = √ᾱ_s·x̂_0 + √(1 − ᾱ_s)·ε̂, with ᾱ = 1 after the last. x̂_0 is never clipped: latents have no
//! bounds. A learned variance plays no part.

use crate::Result;
use far_tensor::{NoiseSchedule, Prediction};
use serde::{Deserialize, Serialize};

/// Which steps of the schedule are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spacing {
    /// Every n-th from 0: 0, 50, …, 950 for 20 of 1,000. Called `ddim20` elsewhere.
    #[default]
    Stride,
    /// Evenly from the first to the last: 0, 53, 105, …, 999 for 20 of 1,000.
    Even,
    /// Every n-th back from the last: 49, 99, …, 999 for 20 of 1,000. The only one that begins at pure
    /// noise however few steps there are, and ends above none.
    Trailing,
}

far_memory::settings! {
    /// The settings of the sampler.
    #[derive(Copy, Eq)]
    pub struct DdimConfig {
        /// How many steps are taken. Paper: 20.
        pub steps: usize = 20,
        /// Which of the schedule's steps they are; the paper does not say.
        pub spacing: Spacing = Spacing::Stride,
    }
}

impl DdimConfig {
    /// The kept steps of a schedule of `length` steps, ascending.
    ///
    /// ```
    /// use far_model::{DdimConfig, Spacing};
    /// let even = DdimConfig { steps: 20, spacing: Spacing::Even };
    /// assert_eq!(even.timesteps(1000)[..4], [0, 53, 105, 158]);
    /// assert_eq!(DdimConfig::default().timesteps(1000)[19], 950);
    /// ```
    pub fn timesteps(&self, length: usize) -> Vec<usize> {
        let steps = self.steps.clamp(1, length.max(1));
        match self.spacing {
            Spacing::Stride => (0..steps).map(|step| step * (length / steps)).collect(),
            Spacing::Even => {
                let gap = (length - 1) as f64 / (steps - 1).max(1) as f64;
                // Ties go to the even number, as in the source that named this spacing.
                (0..steps).map(|step| (step as f64 * gap).round_ties_even() as usize).collect()
            }
            Spacing::Trailing => (1..=steps).map(|step| step * length / steps - 1).collect(),
        }
    }
}

/// One step: where the sampler stands and where it goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DdimStep {
    /// The step of the original schedule, which the network is told.
    pub timestep: usize,
    /// ᾱ here.
    kept: f64,
    /// ᾱ after the step.
    next: f64,
}

impl DdimStep {
    /// All steps in the order they are taken.
    ///
    /// # Errors
    /// If the schedule is shorter than it says.
    pub fn all(config: &DdimConfig, schedule: &NoiseSchedule) -> Result<Vec<Self>> {
        let mut next = 1.0;
        let mut steps = Vec::new();
        for timestep in config.timesteps(schedule.steps()) {
            let kept = schedule.signal_power(timestep)?;
            steps.push(Self { timestep, kept, next });
            next = kept;
        }
        steps.reverse();
        Ok(steps)
    }

    /// [a, b] with which the step is x_s = a·x_t + b·y, y being the network's prediction.
    pub fn coefficients(&self, prediction: Prediction) -> [f32; 2] {
        let (signal, noise) = (self.kept.sqrt(), (1.0 - self.kept).sqrt());
        // x̂_0 and ε̂ as sums of x and the prediction, then x_s as one sum of both.
        let [clean, estimate] = match prediction {
            Prediction::Noise => [[1.0 / signal, -noise / signal], [0.0, 1.0]],
            Prediction::Velocity => [[signal, -noise], [noise, signal]],
            Prediction::Clean => [[0.0, 1.0], [1.0 / noise, -signal / noise]],
        };
        let (next_signal, next_noise) = (self.next.sqrt(), (1.0 - self.next).sqrt());
        [0, 1].map(|part| (next_signal * clean[part] + next_noise * estimate[part]) as f32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule() -> NoiseSchedule {
        NoiseSchedule::linear(1000, 1e-4, 2e-2).unwrap()
    }

    #[test]
    fn the_spacings_are_the_known_ones() {
        let even = DdimConfig { steps: 20, spacing: Spacing::Even }.timesteps(1000);
        let expected = [
            0, 53, 105, 158, 210, 263, 315, 368, 421, 473, 526, 578, 631, 684, 736, 789, 841, 894,
            946, 999,
        ];
        assert_eq!(even, expected);
        let stride = DdimConfig::default().timesteps(1000);
        assert!(stride.iter().enumerate().all(|(step, timestep)| *timestep == 50 * step));
        let trailing = |steps| DdimConfig { steps, spacing: Spacing::Trailing }.timesteps(1000);
        assert_eq!((trailing(1), trailing(3)), (vec![999], vec![332, 665, 999]));
        assert!(trailing(20).iter().enumerate().all(|(step, at)| *at == 50 * step + 49));
    }

    /// A network that knows the answer leads from any noise to it, by any prediction.
    #[test]
    fn a_perfect_network_arrives() {
        let (clean, noise) = (0.7f32, -1.3f32);
        for prediction in [Prediction::Noise, Prediction::Velocity, Prediction::Clean] {
            let schedule = schedule();
            let steps = DdimStep::all(&DdimConfig::default(), &schedule).unwrap();
            let first = schedule.signal_power(steps[0].timestep).unwrap();
            let start = first.sqrt() as f32 * clean + (1.0 - first).sqrt() as f32 * noise;
            let mut x = start;
            for step in steps {
                let kept = schedule.signal_power(step.timestep).unwrap();
                let (signal, spread) = (kept.sqrt() as f32, (1.0 - kept).sqrt() as f32);
                let predicted = match prediction {
                    Prediction::Noise => noise,
                    Prediction::Velocity => signal * noise - spread * clean,
                    Prediction::Clean => clean,
                };
                let [of_x, of_prediction] = step.coefficients(prediction);
                x = of_x * x + of_prediction * predicted;
            }
            assert!((x - clean).abs() < 1e-4, "{prediction:?}: {x}");
        }
    }

    /// One step by hand: t = 950 → 900 with ε̂ = 0.5 from x = 1.
    #[test]
    fn a_step_is_the_printed_formula() {
        let schedule = schedule();
        let step = DdimStep::all(&DdimConfig::default(), &schedule).unwrap()[0];
        let (here, there) =
            (schedule.signal_power(950).unwrap(), schedule.signal_power(900).unwrap());
        assert_eq!((step.timestep, step.kept, step.next), (950, here, there));
        let clean = 1.0 / here.sqrt() - (1.0 / here - 1.0).sqrt() * 0.5;
        let expected = there.sqrt() * clean + (1.0 - there).sqrt() * 0.5;
        let [of_x, of_prediction] = step.coefficients(Prediction::Noise);
        let x = of_x + of_prediction * 0.5;
        assert!((f64::from(x) - expected).abs() < 1e-5 * expected.abs());
    }
}
