//! The settings of the optimizer, and what they make of an update's number: its learning rate and the decay
//! of the average.

/// The settings of [`AdamW`](crate::AdamW); the defaults are the paper's.
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

impl AdamWConfig {
    /// The learning rate of update `number`, from 1.
    pub(super) fn rate(&self, number: u64) -> f32 {
        let Self { learning_rate, warm_up, warm_up_from, cosine_until, .. } = *self;
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
    pub(super) fn average_decay(&self, number: u64) -> f32 {
        let decay = self.average_decay.unwrap_or(0.0);
        let early = (1.0 + number as f32) / (10.0 + number as f32);
        if self.average_warm_up { decay.min(early) } else { decay }
    }
}
