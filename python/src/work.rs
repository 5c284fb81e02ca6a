//! Working space of a thread, kept between calls and never carried into a forked process.

use far_memory::{Recall, Scratch};
use std::cell::RefCell;

/// What one thread reuses for its recalls.
struct Work {
    /// The process it was made in. The threads that a scratch may hold do not exist in a fork of it.
    process: u32,
    scratch: Scratch,
    recall: Recall,
}

impl Work {
    fn new() -> Self {
        Self { process: std::process::id(), scratch: Scratch::new(), recall: Recall::new() }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // Dropping would wait for threads that the fork left behind.
            std::mem::forget(std::mem::take(&mut self.scratch));
        }
    }
}

thread_local! {
    static WORK: RefCell<Work> = RefCell::new(Work::new());
}

/// Runs `task` with this thread's working space.
pub fn with_work<T>(task: impl FnOnce(&mut Scratch, &mut Recall) -> T) -> T {
    WORK.with_borrow_mut(|work| {
        if work.process != std::process::id() {
            *work = Work::new();
        }
        task(&mut work.scratch, &mut work.recall)
    })
}
