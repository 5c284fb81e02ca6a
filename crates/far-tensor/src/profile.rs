//! Where the time of a step goes.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

/// Time spent in each operation, forward and backward together.
#[derive(Default)]
pub struct Profile {
    spent: Mutex<BTreeMap<&'static str, Duration>>,
}

impl Profile {
    pub(crate) fn add(&self, operation: &'static str, time: Duration) {
        let mut spent = self.spent.lock().expect("nobody panics while adding");
        *spent.entry(operation).or_default() += time;
    }

    /// Takes the times by operation, in alphabetical order, and begins anew.
    pub fn take(&self) -> BTreeMap<&'static str, Duration> {
        std::mem::take(&mut *self.spent.lock().expect("nobody panics while adding"))
    }
}
