//! Devices: the CPU or a GPU.

use crate::Result;
use crate::buffer::{Buffer, Pool};
use crate::cuda::{Copies, Cuda, MemoryUse, Precision};
use crate::profile::Profile;
use std::fmt;
use std::sync::Arc;

/// The CPU, or a GPU with its CPU, and their memory; clones share it.
///
/// On the CPU operations run on the rayon pool of the calling thread. [`Device::with_threads`] makes
/// one of a given size, and [`Device::run`] enters it; results are the same bytes for any number of
/// threads.
///
/// On a GPU, tensors stay where they were computed until [`Tensor::values`](crate::Tensor::values)
/// reads them; operations without a kernel run on the CPU.
#[derive(Clone)]
pub struct Device {
    pool: Arc<Pool>,
    threads: Option<Arc<rayon::ThreadPool>>,
    profile: Option<Arc<Profile>>,
    cuda: Option<Arc<Cuda>>,
}

impl Device {
    /// The CPU with one thread per core.
    pub fn cpu() -> Self {
        Self { pool: Pool::new(false), threads: None, profile: None, cuda: None }
    }

    /// The CPU with its own pool of `threads` threads.
    ///
    /// # Panics
    /// If the system cannot start threads.
    pub fn with_threads(threads: usize) -> Self {
        let built = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let threads = built.expect("the system starts threads");
        Self { threads: Some(Arc::new(threads)), ..Self::cpu() }
    }

    /// The GPU with this number.
    ///
    /// # Errors
    /// If a library is missing or too old, or there is no such GPU; the error names the problem and
    /// a remedy.
    pub fn cuda(ordinal: usize, precision: Precision) -> Result<Self> {
        Ok(Self { cuda: Some(Cuda::open(ordinal, precision, false)?), ..Self::cpu() })
    }

    /// The same GPU in another precision, or the CPU. Work of both is done in the order in which it is
    /// launched, whichever threads do; who reads a result waits for what was launched before.
    ///
    /// # Errors
    /// If the GPU has no room.
    pub fn in_precision(&self, precision: Precision) -> Result<Self> {
        let cuda = self.cuda.as_ref().map(|cuda| cuda.in_precision(precision)).transpose()?;
        Ok(Self { cuda, ..Self::cpu() })
    }

    /// A device whose new buffers hold NaN, for tests of kernels that must write every element.
    #[cfg(test)]
    pub(crate) fn poisoned() -> Self {
        Self { pool: Pool::new(true), ..Self::cpu() }
    }

    /// A GPU whose new buffers hold NaN.
    #[cfg(test)]
    pub(crate) fn poisoned_cuda(precision: Precision) -> Result<Self> {
        Ok(Self { cuda: Some(Cuda::open(0, precision, true)?), ..Self::poisoned() })
    }

    /// A copy of this device that records the time of each operation; on a GPU, of each kernel,
    /// from all threads.
    pub fn profiled(&self) -> Self {
        let profile = self.cuda.as_ref().map_or_else(Arc::default, |cuda| cuda.record_times());
        Self { profile: Some(profile), ..self.clone() }
    }

    /// The recorded times, if this device records them.
    pub fn profile(&self) -> Option<&Profile> {
        self.profile.as_deref()
    }

    /// Whether this is a GPU.
    pub fn is_cuda(&self) -> bool {
        self.cuda.is_some()
    }

    /// How numbers are rounded: as the GPU was asked to, or f32 on the CPU.
    pub fn precision(&self) -> Precision {
        self.cuda.as_ref().map_or(Precision::F32, |cuda| cuda.precision())
    }

    /// Whether work should be split for several threads, as on the CPU; on a GPU it should not.
    pub fn parallel(&self) -> bool {
        self.cuda.is_none()
    }

    /// How much of the GPU's memory is used; `None` on the CPU.
    pub fn memory(&self) -> Option<MemoryUse> {
        self.cuda.as_ref().map(|cuda| cuda.pool.memory())
    }

    /// What was copied between the host and the GPU so far; `None` on the CPU.
    pub fn copies(&self) -> Option<Copies> {
        self.cuda.as_ref().map(|cuda| cuda.context().copies.copies())
    }

    /// Resets the peak of [`Device::memory`].
    pub fn forget_peak(&self) {
        if let Some(cuda) = &self.cuda {
            cuda.pool.forget_peak();
        }
    }

    /// Waits until a GPU has finished all work; returns at once on the CPU.
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

    /// The memory pool of tensors on the CPU.
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
