//! One GPU and the stream that all its work is ordered by.

use super::copies::CopyCounters;
use super::graph;
use super::library::unusable;
use crate::{Error, Result};
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;
use std::sync::Arc;
use std::time::Instant;

/// A GPU with its primary context and one stream, beside which numbers are read.
pub(crate) struct Context {
    device: sys::CUdevice,
    context: sys::CUcontext,
    stream: sys::CUstream,
    /// Where copies to the host go: what other threads have put on the stream meanwhile is not waited for.
    reading: sys::CUstream,
    /// What the maker calls it.
    pub name: String,
    /// Compute capability: major and minor.
    pub capability: [i32; 2],
    /// Bytes of its memory.
    pub memory: usize,
    /// Streaming multiprocessors.
    pub processors: usize,
    /// What is copied between it and the host.
    pub copies: Arc<CopyCounters>,
}

// SAFETY: the handles are not tied to a thread; every use binds the context to its own thread, and
// the driver's functions may be called from any.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// The error of a failed call.
pub(crate) fn failed(action: &'static str) -> impl Fn(DriverError) -> Error {
    move |error| {
        let reason = match error.error_string() {
            Ok(text) => text.to_string_lossy().into_owned(),
            Err(_) => format!("{error:?}"),
        };
        Error::Cuda { action, reason }
    }
}

impl Context {
    /// The GPU with that number; the driver runs already.
    pub(super) fn open(ordinal: usize) -> Result<Self> {
        const CHOOSE: &str = "choose another with --device cuda:N, or use --device cpu";
        let count = result::device::get_count().map_err(failed("counting the GPUs"))?;
        let number = i32::try_from(ordinal).unwrap_or(i32::MAX);
        if number >= count {
            return Err(unusable(
                format!("there is no GPU {ordinal}; the driver sees {count}"),
                CHOOSE,
            ));
        }
        let device = result::device::get(number).map_err(failed("opening the GPU"))?;
        let name = result::device::get_name(device).map_err(failed("reading the GPU's name"))?;
        use sys::CUdevice_attribute as Of;
        let attribute = |of| {
            // SAFETY: the device was just opened.
            let value = unsafe { result::device::get_attribute(device, of) };
            value.map_err(failed("reading the GPU's properties"))
        };
        let capability = [
            attribute(Of::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Of::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ];
        if capability[0] < 8 {
            let [major, minor] = capability;
            let problem = format!("{name} has compute capability {major}.{minor}; 8.0 is needed");
            return Err(unusable(problem, CHOOSE));
        }
        let processors = attribute(Of::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as usize;
        // SAFETY: the device was just opened, and the context is released when this is dropped.
        let (memory, context) = unsafe {
            let memory = result::device::total_mem(device);
            let memory = memory.map_err(failed("reading the GPU's memory"))?;
            let context = result::primary_ctx::retain(device);
            (memory, context.map_err(failed("starting the GPU's context"))?)
        };
        let mut this = Self {
            device,
            context,
            stream: std::ptr::null_mut(),
            reading: std::ptr::null_mut(),
            name,
            capability,
            memory,
            processors,
            copies: Arc::default(),
        };
        this.bind()?;
        let stream = || result::stream::create(result::stream::StreamKind::NonBlocking);
        this.stream = stream().map_err(failed("making a stream"))?;
        this.reading = stream().map_err(failed("making a stream"))?;
        Ok(this)
    }

    /// Makes this GPU the calling thread's own; needed before any call of the driver.
    pub(crate) fn bind(&self) -> Result<()> {
        // SAFETY: the context is alive.
        unsafe { result::ctx::set_current(self.context) }.map_err(failed("binding the GPU"))
    }

    /// Shared memory that a block may have, in bytes.
    pub(super) fn shared_limit(&self) -> Result<usize> {
        let of = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        // SAFETY: the device is open.
        let limit = unsafe { result::device::get_attribute(self.device, of) };
        Ok(limit.map_err(failed("reading the GPU's properties"))? as usize)
    }

    /// The stream that work goes to: the one of the GPU, or where this thread records.
    pub(crate) fn stream(&self) -> sys::CUstream {
        graph::stream(self).unwrap_or(self.stream)
    }

    /// Single-precision numbers at an address, after all work before.
    pub(crate) fn read(&self, pointer: u64, target: &mut [f32]) -> Result<()> {
        self.read_elements(pointer, target)
    }

    /// Elements of any plain type at an address, after all work before.
    pub(super) fn read_elements<T: Copy>(&self, pointer: u64, target: &mut [T]) -> Result<()> {
        // Waited for first, so that waiting does not count as copying.
        self.reach()?;
        let begun = Instant::now();
        // SAFETY: callers own as many elements at the address, and the stream is waited for before
        // `target` is looked at.
        let copied = unsafe {
            result::memcpy_dtoh_async(target, pointer, self.reading)
                .and_then(|()| result::stream::synchronize(self.reading))
        };
        copied.map_err(failed("reading from the GPU"))?;
        self.copies.to_host.add(size_of_val(target), begun);
        Ok(())
    }

    /// Waits until the work is done that is on the stream now.
    fn reach(&self) -> Result<()> {
        use result::event;
        self.bind()?;
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING;
        let event = event::create(flags).map_err(failed("waiting for the GPU"))?;
        // SAFETY: stream and event are alive; the event is destroyed once, and a failure there has no remedy.
        let reached = unsafe {
            let reached =
                event::record(event, self.stream).and_then(|()| event::synchronize(event));
            let _ = event::destroy(event);
            reached
        };
        reached.map_err(failed("waiting for the GPU"))
    }

    /// Waits until all work is done.
    pub(crate) fn synchronize(&self) -> Result<()> {
        self.bind()?;
        // SAFETY: the stream is alive.
        unsafe { result::stream::synchronize(self.stream) }.map_err(failed("waiting for the GPU"))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.bind().is_err() {
            return;
        }
        // SAFETY: both are alive and nobody else holds them. A failure here has no remedy.
        unsafe {
            for stream in [self.stream, self.reading].into_iter().filter(|it| !it.is_null()) {
                let _ = result::stream::destroy(stream);
            }
            let _ = result::primary_ctx::release(self.device);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{assert_close, gpus, normal};
    use crate::{Precision, Tape};

    /// Threads whose work has one order, in memory that passes from one to another: each reads what it
    /// computed, in its own precision.
    #[test]
    fn threads_that_share_a_stream_read_their_own_results() {
        for (_, device) in gpus() {
            std::thread::scope(|scope| {
                for (number, precision) in (0..).zip(Precision::ALL) {
                    let device = device.in_precision(precision).unwrap();
                    scope.spawn(move || {
                        for round in 0..50 {
                            let x = normal([64, 96], 100 * number + round);
                            let expected: Vec<f32> = x.values().iter().map(|x| 2.0 * x).collect();
                            let doubled = Tape::inference(&device).affine(&x, 2.0, 0.0).unwrap();
                            assert_close(doubled.values(), &expected, 1e-2);
                        }
                    });
                }
            });
        }
    }
}
