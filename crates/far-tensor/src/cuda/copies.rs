//! How much is copied between the host and a GPU.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Copies in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// How many copies there were.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How long the host was busy with them; waiting for results is not copying them.
    pub time: Duration,
}

impl Copied {
    /// What came after an earlier state.
    fn since(self, earlier: Self) -> Self {
        Self {
            count: self.count - earlier.count,
            bytes: self.bytes - earlier.bytes,
            time: self.time.saturating_sub(earlier.time),
        }
    }
}

/// Copies between the host and a GPU, from all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copies {
    /// From the host to the GPU.
    pub to_device: Copied,
    /// From the GPU to the host.
    pub to_host: Copied,
}

impl Copies {
    /// What was copied after an earlier state.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            to_device: self.to_device.since(earlier.to_device),
            to_host: self.to_host.since(earlier.to_host),
        }
    }
}

/// Counts copies in one direction.
#[derive(Default)]
pub(crate) struct CopyCounter {
    count: AtomicU64,
    bytes: AtomicU64,
    nanoseconds: AtomicU64,
}

impl CopyCounter {
    /// Adds a copy of so many bytes that began then.
    pub(crate) fn add(&self, bytes: usize, begun: Instant) {
        let spent = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.nanoseconds.fetch_add(spent, Ordering::Relaxed);
    }

    fn copied(&self) -> Copied {
        Copied {
            count: self.count.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            time: Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed)),
        }
    }
}

/// Counts copies in both directions.
#[derive(Default)]
pub(crate) struct CopyCounters {
    pub(crate) to_device: CopyCounter,
    pub(crate) to_host: CopyCounter,
}

impl CopyCounters {
    /// All copies so far.
    pub(crate) fn copies(&self) -> Copies {
        Copies { to_device: self.to_device.copied(), to_host: self.to_host.copied() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_add_up_and_can_be_told_apart() {
        let counters = CopyCounters::default();
        counters.to_device.add(100, Instant::now());
        let earlier = counters.copies();
        counters.to_device.add(20, Instant::now());
        counters.to_host.add(3, Instant::now());
        let all = counters.copies();
        assert_eq!((all.to_device.count, all.to_device.bytes), (2, 120));
        let since = all.since(earlier);
        assert_eq!((since.to_device.count, since.to_device.bytes), (1, 20));
        assert_eq!((since.to_host.count, since.to_host.bytes), (1, 3));
        assert_eq!(all.since(all), Copies::default());
    }

    #[test]
    fn a_gpu_counts_what_goes_there_and_back() {
        for (_, device) in crate::testing::gpus() {
            let cuda = device.gpu().unwrap();
            let earlier = device.copies().unwrap();
            let buffer = cuda.upload(&[1.0, 2.0, 3.0]).unwrap();
            buffer.read(&mut [0.0; 3]).unwrap();
            let found = device.copies().unwrap().since(earlier);
            // Other tests copy at the same time.
            assert!(found.to_device.bytes >= 12 && found.to_host.bytes >= 12, "{found:?}");
        }
    }
}
