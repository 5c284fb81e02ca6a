//! Where the arithmetic happens.

use crate::buffer::{Buffer, Pool};
use crate::profile::Profile;
use std::sync::Arc;

/// The CPU with its pool of buffers; clones share the pool.
///
/// Operations run on the rayon pool of the calling thread. [`Device::with_threads`] makes one of a
/// given size, and [`Device::run`] enters it; results are the same bytes for any number of threads.
#[derive(Clone)]
pub struct Device {
    pool: Arc<Pool>,
    threads: Option<Arc<rayon::ThreadPool>>,
    profile: Option<Arc<Profile>>,
}

impl Device {
    /// The CPU with as many threads as the machine has cores.
    pub fn cpu() -> Self {
        Self { pool: Pool::new(false), threads: None, profile: None }
    }

    /// The CPU with `threads` threads of its own.
    ///
    /// # Panics
    /// If the system refuses to start threads.
    pub fn with_threads(threads: usize) -> Self {
        let built = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let threads = built.expect("the system starts threads");
        Self { pool: Pool::new(false), threads: Some(Arc::new(threads)), profile: None }
    }

    /// A device whose fresh buffers hold NaN, for tests of kernels that must write every element.
    #[cfg(test)]
    pub(crate) fn poisoned() -> Self {
        Self { pool: Pool::new(true), threads: None, profile: None }
    }

    /// The same device with a record of the time each operation takes.
    pub fn profiled(&self) -> Self {
        Self { profile: Some(Arc::default()), ..self.clone() }
    }

    /// The record of times, if this device keeps one.
    pub fn profile(&self) -> Option<&Profile> {
        self.profile.as_deref()
    }

    /// Runs `work` on this device's threads.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        match &self.threads {
            Some(threads) => threads.install(work),
            None => work(),
        }
    }

    /// The number of threads that operations use.
    pub fn threads(&self) -> usize {
        self.threads
            .as_ref()
            .map_or_else(rayon::current_num_threads, |pool| pool.current_num_threads())
    }

    /// Whether independent pieces of work are worth giving to several threads at once, each with a
    /// small part; otherwise one thread with large parts is faster.
    pub fn parallel(&self) -> bool {
        true
    }

    /// The pool that tensors take their memory from.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(crate) fn buffer(&self, length: usize) -> Buffer {
        self.pool.take(length)
    }

    pub(crate) fn zeroed(&self, length: usize) -> Buffer {
        self.pool.take_zeroed(length)
    }
}
