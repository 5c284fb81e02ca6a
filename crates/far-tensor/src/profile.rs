//! Time spent by operation or kernel.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time and runs of one operation or kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Total time of all runs.
    pub time: Duration,
    /// Number of runs: launches of a kernel, or passes of an operation, forward or backward.
    pub count: u64,
}

/// Time spent in each operation of the CPU, forward and backward together, or in each kernel of a
/// GPU.
#[derive(Default)]
pub struct Profile {
    paused: AtomicBool,
    spent: Mutex<BTreeMap<&'static str, Spent>>,
}

impl Profile {
    pub(crate) fn add(&self, operation: &'static str, time: Duration) {
        if !self.is_running() {
            return;
        }
        let mut spent = self.spent.lock().expect("no panic while adding");
        let entry = spent.entry(operation).or_default();
        entry.time += time;
        entry.count += 1;
    }

    /// Whether times are being recorded.
    pub(crate) fn is_running(&self) -> bool {
        !self.paused.load(Ordering::Relaxed)
    }

    /// Stops recording, so that work runs at full speed again.
    pub fn pause(&self) {
        self.paused.store(true, Ordering::Relaxed);
    }

    /// Resumes recording.
    pub fn resume(&self) {
        self.paused.store(false, Ordering::Relaxed);
    }

    /// Takes the recorded times, in alphabetical order, and starts again from zero.
    pub fn take(&self) -> BTreeMap<&'static str, Spent> {
        std::mem::take(&mut *self.spent.lock().expect("no panic while adding"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_counted_unless_paused() {
        let profile = Profile::default();
        profile.add("linear", Duration::from_millis(2));
        profile.add("linear", Duration::from_millis(3));
        profile.pause();
        profile.add("linear", Duration::from_millis(9));
        profile.resume();
        profile.add("attention", Duration::from_millis(1));
        let spent =
            |milliseconds, count| Spent { time: Duration::from_millis(milliseconds), count };
        let expected = BTreeMap::from([("attention", spent(1, 1)), ("linear", spent(5, 2))]);
        assert_eq!(profile.take(), expected);
        assert!(profile.take().is_empty());
    }
}
