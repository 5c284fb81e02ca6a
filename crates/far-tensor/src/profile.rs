//! Where the time of a step goes.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time spent in each operation of the CPU, forward and backward together, or in each kernel of a
/// GPU.
#[derive(Default)]
pub struct Profile {
    paused: AtomicBool,
    spent: Mutex<BTreeMap<&'static str, Duration>>,
}

impl Profile {
    pub(crate) fn add(&self, operation: &'static str, time: Duration) {
        let mut spent = self.spent.lock().expect("nobody panics while adding");
        *spent.entry(operation).or_default() += time;
    }

    /// Whether times are recorded now.
    pub(crate) fn is_running(&self) -> bool {
        !self.paused.load(Ordering::Relaxed)
    }

    /// Stops recording, so that work runs at its own speed again.
    pub fn pause(&self) {
        self.paused.store(true, Ordering::Relaxed);
    }

    /// Records again.
    pub fn resume(&self) {
        self.paused.store(false, Ordering::Relaxed);
    }

    /// Takes the times by operation, in alphabetical order, and begins anew.
    pub fn take(&self) -> BTreeMap<&'static str, Duration> {
        std::mem::take(&mut *self.spent.lock().expect("nobody panics while adding"))
    }
}
