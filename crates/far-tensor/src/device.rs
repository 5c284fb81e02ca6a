//! Where the arithmetic happens.

use crate::Result;
use crate::buffer::{Buffer, Pool};
use crate::cuda::{Cuda, MemoryUse, Precision};
use crate::profile::Profile;
use std::fmt;
use std::sync::Arc;

/// The CPU, or a GPU beside it, with their memory; clones share it.
///
/// On the CPU operations run on the rayon pool of the calling thread. [`Device::with_threads`] makes
/// one of a given size, and [`Device::run`] enters it; results are the same bytes for any number of
/// threads.
///
/// On a GPU tensors stay where they were computed until [`Tensor::values`](crate::Tensor::values)
/// asks for them; what it has no kernel for runs on the CPU.
#[derive(Clone)]
pub struct Device {
    pool: Arc<Pool>,
    threads: Option<Arc<rayon::ThreadPool>>,
    profile: Option<Arc<Profile>>,
    cuda: Option<Arc<Cuda>>,
}

impl Device {
    /// The CPU with as many threads as the machine has cores.
    pub fn cpu() -> Self {
        Self { pool: Pool::new(false), threads: None, profile: None, cuda: None }
    }

    /// The CPU with `threads` threads of its own.
    ///
    /// # Panics
    /// If the system refuses to start threads.
    pub fn with_threads(threads: usize) -> Self {
        let built = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let threads = built.expect("the system starts threads");
        Self { threads: Some(Arc::new(threads)), ..Self::cpu() }
    }

    /// The GPU with that number.
    ///
    /// # Errors
    /// If a library is missing or too old, or there is no such GPU; the error says which and what to
    /// do.
    pub fn cuda(ordinal: usize, precision: Precision) -> Result<Self> {
        Ok(Self { cuda: Some(Cuda::open(ordinal, precision, false)?), ..Self::cpu() })
    }

    /// A device whose fresh buffers hold NaN, for tests of kernels that must write every element.
    #[cfg(test)]
    pub(crate) fn poisoned() -> Self {
        Self { pool: Pool::new(true), ..Self::cpu() }
    }

    /// The same on a GPU.
    #[cfg(test)]
    pub(crate) fn poisoned_cuda(precision: Precision) -> Result<Self> {
        Ok(Self { cuda: Some(Cuda::open(0, precision, true)?), ..Self::poisoned() })
    }

    /// The same device with a record of the time each operation takes; on a GPU, each kernel, and all that
    /// is launched there, by whoever, is in the same record.
    pub fn profiled(&self) -> Self {
        let profile = self.cuda.as_ref().map_or_else(Arc::default, |cuda| cuda.record_times());
        Self { profile: Some(profile), ..self.clone() }
    }

    /// The record of times, if this device keeps one.
    pub fn profile(&self) -> Option<&Profile> {
        self.profile.as_deref()
    }

    /// Whether this is a GPU.
    pub fn is_cuda(&self) -> bool {
        self.cuda.is_some()
    }

    /// Whether work is best cut into parts for several threads, as on the CPU; a GPU wants it whole.
    pub fn parallel(&self) -> bool {
        self.cuda.is_none()
    }

    /// How much of the GPU's memory is used; `None` on the CPU.
    pub fn memory(&self) -> Option<MemoryUse> {
        self.cuda.as_ref().map(|cuda| cuda.pool.memory())
    }

    /// Counts the peak of [`Device::memory`] anew.
    pub fn forget_peak(&self) {
        if let Some(cuda) = &self.cuda {
            cuda.pool.forget_peak();
        }
    }

    /// Waits until a GPU has done all work; on the CPU it always has.
    ///
    /// # Errors
    /// If the GPU has failed.
    pub fn synchronize(&self) -> Result<()> {
        self.cuda.as_ref().map_or(Ok(()), |cuda| cuda.context().synchronize())
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

    /// The pool that tensors of the CPU take their memory from.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(crate) fn gpu(&self) -> Option<&Arc<Cuda>> {
        self.cuda.as_ref()
    }

    pub(crate) fn buffer(&self, length: usize) -> Buffer {
        self.pool.take(length)
    }

    pub(crate) fn zeroed(&self, length: usize) -> Buffer {
        self.pool.take_zeroed(length)
    }
}

impl fmt::Display for Device {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cuda {
            Some(cuda) => write!(formatter, "{cuda}"),
            None => write!(formatter, "CPU, {} threads", self.threads()),
        }
    }
}
