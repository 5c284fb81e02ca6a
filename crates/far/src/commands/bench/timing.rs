//! Repeated timings and their quantiles.

use std::time::{Duration, Instant};

/// Timings of one thing, in microseconds.
#[derive(Default)]
pub struct Timings(Vec<f64>);

impl Timings {
    /// Times one call.
    pub fn time<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let value = call();
        self.add(start.elapsed());
        value
    }

    /// Adds a timing taken elsewhere.
    pub fn add(&mut self, elapsed: Duration) {
        self.0.push(elapsed.as_secs_f64() * 1e6);
    }

    /// How many timings there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The timing below which this fraction lies (nearest rank); 0 if there are none.
    pub fn quantile(&self, fraction: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (fraction * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
    }

    /// The median.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_nearest_ranks() {
        let mut timings = Timings::default();
        assert_eq!(timings.median(), 0.0);
        for micros in [5, 1, 3, 2, 4] {
            timings.add(Duration::from_micros(micros));
        }
        assert_eq!((timings.median().round(), timings.quantile(0.99).round()), (3.0, 5.0));
        assert_eq!(timings.count(), 5);
    }
}
