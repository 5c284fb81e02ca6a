//! Work recorded once and launched again as a whole.
//!
//! While a thread records, what it launches goes to a stream of its own, where nothing runs: the
//! driver notes kernels with their arguments. Other threads go on as before. Memory that the recorded
//! work takes stays with the graph, in a [`Reserve`], until the graph is dropped: each launch uses the
//! same addresses. What the notes cannot hold is refused: numbers of the host, which would be read
//! anew at each launch, trials of products, and work that looks at what it has computed.

use super::context::{Context, failed};
use super::memory::{CudaBuffer, CudaPool, Reserve};
use super::{Cuda, Element};
use crate::{Error, Result};
use cudarc::driver::{result, sys};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

thread_local! {
    static RECORDING: RefCell<Option<Recording>> = const { RefCell::new(None) };
}

/// What this thread records.
struct Recording {
    reserve: Arc<Reserve>,
    stream: sys::CUstream,
    /// Whether numbers were asked for that are not there.
    spoiled: Cell<bool>,
}

/// The stream of this thread's recording on that GPU, if it records.
pub(super) fn stream(context: &Context) -> Option<sys::CUstream> {
    RECORDING.with_borrow(|recording| {
        let recording = recording.as_ref()?;
        std::ptr::eq(recording.reserve.pool().context(), context).then_some(recording.stream)
    })
}

/// Where this thread's recording in that pool keeps its memory, if it records.
pub(super) fn reserve(pool: &Arc<CudaPool>) -> Option<Arc<Reserve>> {
    RECORDING.with_borrow(|recording| {
        let reserve = &recording.as_ref()?.reserve;
        Arc::ptr_eq(reserve.pool(), pool).then(|| reserve.clone())
    })
}

/// Refuses while this thread records on that GPU.
///
/// # Errors
/// If it does.
pub(super) fn refuse(context: &Context, reason: &str) -> Result<()> {
    match stream(context) {
        None => Ok(()),
        Some(_) => Err(Error::Cuda { action: "recording work", reason: reason.to_owned() }),
    }
}

/// Whether this thread records and a buffer is of its recording: its numbers are not there. The
/// recording will be refused at its end, as those who ask for numbers cannot be told of errors.
pub(super) fn spoil(buffer: &CudaBuffer) -> bool {
    RECORDING.with_borrow(|recording| {
        let own = recording.as_ref().filter(|recording| buffer.is_of(&recording.reserve));
        own.is_some_and(|recording| {
            recording.spoiled.set(true);
            true
        })
    })
}

/// Ends a recording whatever happens in it, and gives back its stream.
struct Session {
    stream: sys::CUstream,
    /// Whether the driver still records.
    open: bool,
}

impl Session {
    fn begin(reserve: &Arc<Reserve>) -> Result<Self> {
        RECORDING.with_borrow_mut(|recording| {
            if recording.is_some() {
                let reason = "this thread records already".to_owned();
                return Err(Error::Cuda { action: "recording work", reason });
            }
            let context = reserve.pool().context();
            context.bind()?;
            let kind = result::stream::StreamKind::NonBlocking;
            let stream = result::stream::create(kind).map_err(failed("making a stream"))?;
            let mut session = Self { stream, open: false };
            // Others may go on as they please, and the pool may take memory.
            let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
            // SAFETY: the stream is alive.
            let begun = unsafe { result::stream::begin_capture(stream, mode) };
            begun.map_err(failed("recording work"))?;
            session.open = true;
            let (reserve, spoiled) = (reserve.clone(), Cell::new(false));
            *recording = Some(Recording { reserve, stream, spoiled });
            Ok(session)
        })
    }

    fn end(&mut self) -> Result<sys::CUgraph> {
        self.open = false;
        let recording = RECORDING.take();
        // SAFETY: the stream is alive and records.
        let graph = unsafe { result::stream::end_capture(self.stream) };
        let graph = graph.map_err(failed("recording work"))?;
        if graph.is_null() {
            let reason = "something that cannot be recorded was launched".to_owned();
            return Err(Error::Cuda { action: "recording work", reason });
        }
        if recording.is_some_and(|recording| recording.spoiled.get()) {
            // SAFETY: the graph is alive and nobody else has it. A failure here has no remedy.
            let _ = unsafe { result::graph::destroy(graph) };
            let reason = "the work looks at what it computes".to_owned();
            return Err(Error::Cuda { action: "recording work", reason });
        }
        Ok(graph)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.open
            && let Ok(graph) = self.end()
        {
            // SAFETY: the graph is alive and nobody else has it. A failure here has no remedy.
            let _ = unsafe { result::graph::destroy(graph) };
        }
        // SAFETY: the stream is alive and destroyed once. A failure here has no remedy.
        let _ = unsafe { result::stream::destroy(self.stream) };
    }
}

/// Recorded work with the memory it uses.
pub(crate) struct Graph {
    executable: sys::CUgraphExec,
    reserve: Arc<Reserve>,
}

// SAFETY: a graph belongs to its context, not to a thread.
unsafe impl Send for Graph {}
// SAFETY: as above; launching it takes no other access than one for the driver's own lock.
unsafe impl Sync for Graph {}

impl Graph {
    /// Records what `work` launches; nothing of it runs. The result of `work` holds what a launch will
    /// have computed. Tensors from outside that the work reads have to live as long as the graph.
    ///
    /// # Errors
    /// If something of the work cannot be recorded.
    pub(crate) fn record<T>(cuda: &Cuda, work: impl FnOnce() -> Result<T>) -> Result<(Self, T)> {
        let reserve = Reserve::new(&cuda.pool);
        let mut session = Session::begin(&reserve)?;
        let value = work()?;
        let graph = session.end()?;
        let flags = sys::CUgraphInstantiate_flags(0);
        // SAFETY: the graph was just recorded, is destroyed once, and the executable does not need it.
        let executable = unsafe {
            let made = result::graph::instantiate(graph, flags);
            let _ = result::graph::destroy(graph);
            made.map_err(failed("preparing recorded work"))?
        };
        Ok((Self { executable, reserve }, value))
    }

    /// Runs the recorded work, behind all work before.
    ///
    /// # Errors
    /// If the GPU has failed.
    pub(crate) fn launch(&self, cuda: &Cuda) -> Result<()> {
        let context = self.reserve.pool().context();
        context.bind()?;
        // Recorded products use the same scratch memory as others.
        let _workspace = cuda.lock_workspace();
        // SAFETY: the graph and its memory are alive; callers keep alive what it reads besides.
        let launched = unsafe { result::graph::launch(self.executable, context.stream()) };
        launched.map_err(failed("launching recorded work"))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // The driver may not be asked to destroy what still runs.
        let _ = self.reserve.pool().context().synchronize();
        // SAFETY: the executable is alive and destroyed once. A failure here has no remedy.
        let _ = unsafe { result::graph::exec_destroy(self.executable) };
    }
}

impl Cuda {
    /// The same numbers as another element type, for their owner to keep. While recording, only what the recording
    /// itself computed may be kept so: it would be there only after a launch.
    ///
    /// # Errors
    /// If this thread records and `source` is from outside.
    pub(crate) fn keep_converted(
        &self,
        source: &CudaBuffer,
        element: Element,
    ) -> Result<CudaBuffer> {
        if reserve(&self.pool).is_some_and(|reserve| !source.is_of(&reserve)) {
            refuse(self.context(), "a tensor from outside is not there in this precision")?;
        }
        self.converted(source, element)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::gpus;
    use std::sync::Weak;

    /// A recording's memory is nobody else's while it lives, and everybody's afterward.
    #[test]
    fn a_graph_keeps_its_memory_and_gives_it_back() {
        for (_, device) in gpus() {
            let cuda = device.gpu().unwrap();
            let record = || {
                let scratch = cuda.pool.take(Element::F32, 1000)?;
                cuda.zero(scratch.pointer(), scratch.size())?;
                let result = cuda.pool.take(Element::F32, 2000)?;
                cuda.zero(result.pointer(), result.size())?;
                Ok((scratch.pointer(), result))
            };
            let (graph, (scratch, result)) = Graph::record(cuda, record).unwrap();
            let reserve: Weak<Reserve> = Arc::downgrade(&graph.reserve);
            let others: Vec<CudaBuffer> =
                (0..20).map(|_| cuda.pool.take(Element::F32, 1000).unwrap()).collect();
            assert!(others.iter().all(|other| other.pointer() != scratch));
            graph.launch(cuda).unwrap();
            let mut numbers = vec![1.0; 2000];
            result.read(&mut numbers).unwrap();
            assert!(numbers.iter().all(|number| *number == 0.0));
            drop(graph);
            assert!(reserve.upgrade().is_some(), "the result is still held");
            drop(result);
            assert!(reserve.upgrade().is_none());
        }
    }

    #[test]
    fn a_failed_recording_leaves_the_thread_as_it_was() {
        for (_, device) in gpus() {
            let cuda = device.gpu().unwrap();
            let refused = Graph::record(cuda, || cuda.upload(&[1.0]).map(|_| ()));
            assert!(refused.err().unwrap().to_string().contains("numbers of the host"));
            assert!(stream(cuda.context()).is_none() && reserve(&cuda.pool).is_none());
            let buffer = cuda.upload(&[1.0, 2.0]).unwrap();
            let mut numbers = [0.0; 2];
            buffer.read(&mut numbers).unwrap();
            assert_eq!(numbers, [1.0, 2.0]);
        }
    }
}
