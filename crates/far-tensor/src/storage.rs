//! The numbers of a tensor, wherever they are: on the host, on a GPU, or on both.
//!
//! Each place is filled when somebody first asks for it and kept. An operation that a GPU has no
//! kernel for reads the host's copy and runs there; the next one on the GPU reads its result.

use crate::buffer::Buffer;
use crate::cuda::{Cuda, CudaBuffer, Element};
use crate::{Error, Result};
use std::sync::OnceLock;

/// Numbers on the host, on a GPU in single precision, on a GPU in half precision: at least one.
pub(crate) struct Storage {
    length: usize,
    /// What a GPU computed these numbers as; `None` where they come from the host.
    born: Option<Element>,
    host: OnceLock<Buffer>,
    single: OnceLock<CudaBuffer>,
    half: OnceLock<CudaBuffer>,
}

impl From<Buffer> for Storage {
    fn from(buffer: Buffer) -> Self {
        let length = buffer.len();
        let host = OnceLock::from(buffer);
        Self { length, born: None, host, single: OnceLock::new(), half: OnceLock::new() }
    }
}

impl From<CudaBuffer> for Storage {
    fn from(buffer: CudaBuffer) -> Self {
        let (length, born) = (buffer.length(), Some(buffer.element()));
        let (single, half) = match buffer.element() {
            Element::F32 => (OnceLock::from(buffer), OnceLock::new()),
            Element::Bf16 => (OnceLock::new(), OnceLock::from(buffer)),
        };
        Self { length, born, host: OnceLock::new(), single, half }
    }
}

impl Storage {
    /// Numbers of the host that went to a GPU, in single precision, without being kept.
    pub(crate) fn given(buffer: CudaBuffer) -> Self {
        Self { born: None, ..buffer.into() }
    }

    /// How many numbers there are.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// What a GPU computed these numbers as, and so what it computes their gradient as.
    pub(crate) fn born(&self) -> Option<Element> {
        self.born
    }

    /// The numbers on the host.
    ///
    /// # Panics
    /// If they are on a GPU that has failed; nothing can be computed on it any more.
    pub(crate) fn host(&self) -> &Buffer {
        self.host.get_or_init(|| {
            let mut buffer = Buffer::zeroed(self.length);
            let read = self.on_gpu().expect("numbers are somewhere").read(&mut buffer);
            read.unwrap_or_else(|error| panic!("{error}"));
            buffer
        })
    }

    fn on_gpu(&self) -> Option<&CudaBuffer> {
        self.single.get().or_else(|| self.half.get())
    }

    /// The numbers on the host to change; copies on a GPU are forgotten.
    pub(crate) fn host_mut(&mut self) -> &mut Buffer {
        self.host();
        self.born = None;
        (self.single, self.half) = (OnceLock::new(), OnceLock::new());
        self.host.get_mut().expect("they were just fetched")
    }

    /// The numbers on a GPU.
    ///
    /// # Errors
    /// If it has no room, has failed, or is another than the one that they are on.
    pub(crate) fn on(&self, cuda: &Cuda, element: Element) -> Result<&CudaBuffer> {
        let place = match element {
            Element::F32 => &self.single,
            Element::Bf16 => &self.half,
        };
        if place.get().is_none() {
            let made = self.made_on(cuda, element)?;
            // Two threads may both have made it; either will do.
            let _ = place.set(made);
        }
        let buffer = place.get().expect("it was just set");
        if buffer.belongs_to(&cuda.pool) { Ok(buffer) } else { Err(Error::other_device()) }
    }

    /// A copy on a GPU, from the most precise one there is.
    fn made_on(&self, cuda: &Cuda, element: Element) -> Result<CudaBuffer> {
        if let Some(single) = self.single.get().filter(|single| single.belongs_to(&cuda.pool)) {
            return cuda.keep_converted(single, element);
        }
        match (self.host.get(), self.half.get()) {
            (Some(host), _) => {
                let uploaded = cuda.upload(host)?;
                if element == Element::F32 {
                    Ok(uploaded)
                } else {
                    cuda.converted(&uploaded, element)
                }
            }
            (None, Some(half)) if half.belongs_to(&cuda.pool) => cuda.keep_converted(half, element),
            _ => Err(Error::other_device()),
        }
    }

    /// Where the numbers are on a GPU, if they are nowhere else.
    pub(crate) fn only_on(&mut self, cuda: &Cuda, element: Element) -> Option<u64> {
        let (place, other) = match element {
            Element::F32 => (&self.single, &self.half),
            Element::Bf16 => (&self.half, &self.single),
        };
        let elsewhere = self.host.get().is_some() || other.get().is_some();
        let buffer = place.get().filter(|buffer| !elsewhere && buffer.belongs_to(&cuda.pool))?;
        Some(buffer.pointer())
    }

    /// The numbers on a GPU to change, in single precision and, if asked, a place for all of them in
    /// half precision beside it, which the caller fills; the host's copy is forgotten.
    ///
    /// # Errors
    /// As [`Storage::on`].
    pub(crate) fn on_mut(&mut self, cuda: &Cuda, with_half: bool) -> Result<[u64; 2]> {
        let single = self.on(cuda, Element::F32)?.pointer();
        self.host = OnceLock::new();
        if !with_half {
            self.half = OnceLock::new();
            return Ok([single, 0]);
        }
        if self.half.get().is_none() {
            self.half = OnceLock::from(cuda.buffer(Element::Bf16, self.length)?);
        }
        Ok([single, self.half.get().map_or(0, CudaBuffer::pointer)])
    }
}
