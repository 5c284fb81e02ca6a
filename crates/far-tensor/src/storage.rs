//! The values of a tensor: on the host, on a GPU, or on both.
//!
//! Each copy is made when it is first needed, and kept. An operation without a GPU kernel reads the
//! host's copy and runs there; the next one on the GPU reads its result.

use crate::buffer::Buffer;
use crate::cuda::{Cuda, CudaBuffer, Element};
use crate::{Error, Result};
use std::sync::OnceLock;

/// Values on the host, on a GPU in single precision, on a GPU in half precision: at least one.
pub(crate) struct Storage {
    pub(crate) length: usize,
    /// The type in which a GPU computed these values; `None` if they come from the host.
    pub(crate) born: Option<Element>,
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
    /// Values of the host that were moved to a GPU, in single precision, without a copy on the
    /// host.
    pub(crate) fn given(buffer: CudaBuffer) -> Self {
        Self { born: None, ..buffer.into() }
    }

    /// The values on the host.
    ///
    /// # Panics
    /// If they are on a GPU that has failed; nothing can be computed on it any more.
    pub(crate) fn host(&self) -> &Buffer {
        self.host.get_or_init(|| {
            let mut buffer = Buffer::zeroed(self.length);
            let read = self.on_gpu().expect("at least one copy exists").read(&mut buffer);
            read.unwrap_or_else(|error| panic!("{error}"));
            buffer
        })
    }

    fn on_gpu(&self) -> Option<&CudaBuffer> {
        self.single.get().or_else(|| self.half.get())
    }

    /// The values on the host, mutable; copies on a GPU are dropped.
    pub(crate) fn host_mut(&mut self) -> &mut Buffer {
        self.host();
        self.born = None;
        (self.single, self.half) = (OnceLock::new(), OnceLock::new());
        self.host.get_mut().expect("they were just fetched")
    }

    /// The values on a GPU.
    ///
    /// # Errors
    /// If it is out of memory, has failed, or is not the GPU that holds them.
    pub(crate) fn on(&self, cuda: &Cuda, element: Element) -> Result<&CudaBuffer> {
        let place = match element {
            Element::F32 => &self.single,
            Element::Bf16 => &self.half,
        };
        if place.get().is_none() {
            let made = self.made_on(cuda, element)?;
            // Two threads may both have made it; either is fine.
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

    /// The address of the values on a GPU, if there is no other copy.
    pub(crate) fn only_on(&mut self, cuda: &Cuda, element: Element) -> Option<u64> {
        let (place, other) = match element {
            Element::F32 => (&self.single, &self.half),
            Element::Bf16 => (&self.half, &self.single),
        };
        let elsewhere = self.host.get().is_some() || other.get().is_some();
        let buffer = place.get().filter(|buffer| !elsewhere && buffer.belongs_to(&cuda.pool))?;
        Some(buffer.pointer())
    }

    /// The values on a GPU, mutable, in single precision and, if requested, a half-precision buffer
    /// of the same length that the caller fills; the host's copy is dropped.
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
        Ok([single, self.half.get().map_or(0, |buffer| buffer.pointer())])
    }
}
