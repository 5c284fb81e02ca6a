//! Moving numbers to the GPU, from it, and within it.

use super::context::failed;
use super::graph;
use super::memory::{CudaBuffer, Element};
use super::program::{Program, programs};
use super::{Cuda, Launch, arguments};
use crate::Result;
use cudarc::driver::result;
use std::time::Instant;

programs! {
    /// Conversions between element types.
    CONVERSION = "conversion": "run.cuh", "conversion.cu";
}

impl CudaBuffer {
    /// Its numbers on the host, after all work before; `target` has its length. Numbers that a recording
    /// of this thread has yet to compute are NaN.
    ///
    /// # Errors
    /// If the GPU has failed.
    pub(crate) fn read(&self, target: &mut [f32]) -> Result<()> {
        assert!(target.len() <= self.length(), "the buffer has that many numbers");
        if graph::spoil(self) {
            target.fill(f32::NAN);
            return Ok(());
        }
        let (pointer, context) = (self.pointer(), self.context());
        match self.element() {
            Element::F32 => context.read(pointer, target)?,
            Element::Bf16 => {
                let mut bits = vec![0_u16; target.len()];
                context.read_elements(pointer, &mut bits)?;
                for (target, bits) in target.iter_mut().zip(bits) {
                    *target = f32::from_bits(u32::from(bits) << 16);
                }
            }
        }
        Ok(())
    }
}

impl Cuda {
    /// A copy of numbers of the host, in f32.
    ///
    /// # Errors
    /// If the GPU has no room or has failed.
    pub(crate) fn upload(&self, values: &[f32]) -> Result<CudaBuffer> {
        let buffer = self.buffer(Element::F32, values.len())?;
        self.write(buffer.pointer(), values)?;
        Ok(buffer)
    }

    /// A copy of rows of the host, one behind another, in f32.
    ///
    /// # Errors
    /// If the GPU has no room or has failed.
    pub(crate) fn upload_rows(&self, rows: &[&[f32]]) -> Result<CudaBuffer> {
        let length = rows.iter().map(|row| row.len()).sum();
        let buffer = self.buffer(Element::F32, length)?;
        self.write_rows(buffer.pointer(), rows)?;
        Ok(buffer)
    }

    /// Writes plain numbers of the host to an address.
    ///
    /// # Errors
    /// If the GPU has failed.
    pub(crate) fn write<T: Copy + Send + Sync>(&self, pointer: u64, values: &[T]) -> Result<()> {
        self.write_rows(pointer, &[values])
    }

    /// Writes rows of plain numbers of the host, one behind another, to an address.
    ///
    /// # Errors
    /// If the GPU has failed.
    fn write_rows<T: Copy + Send + Sync>(&self, pointer: u64, rows: &[&[T]]) -> Result<()> {
        let bytes: usize = rows.iter().map(|row| size_of_val(*row)).sum();
        if bytes == 0 {
            return Ok(());
        }
        let context = self.context();
        graph::refuse(context, "numbers of the host were given")?;
        let begun = Instant::now();
        if !self.pool.staging().copy(context, pointer, rows)? {
            context.bind()?;
            let mut place = pointer;
            for row in rows.iter().filter(|row| !row.is_empty()) {
                // SAFETY: callers own as many bytes at the address. Memory of the host that is not
                // pinned is copied away before the call returns.
                let copied = unsafe { result::memcpy_htod_async(place, row, context.stream()) };
                copied.map_err(failed("writing to the GPU"))?;
                place += size_of_val(*row) as u64;
            }
        }
        context.copies.to_device.add(bytes, begun);
        Ok(())
    }

    /// The same numbers as another element type.
    ///
    /// # Errors
    /// If the GPU has no room or has failed.
    pub(crate) fn converted(&self, source: &CudaBuffer, element: Element) -> Result<CudaBuffer> {
        let target = self.buffer(element, source.length())?;
        let (from, length) = ((source.pointer(), source.element()), source.length());
        self.convert(from, (target.pointer(), element), length, false)?;
        Ok(target)
    }

    /// target ← source, or target + source, between any element types.
    ///
    /// # Errors
    /// If the GPU has failed.
    pub(crate) fn convert(
        &self,
        source: (u64, Element),
        target: (u64, Element),
        length: usize,
        accumulate: bool,
    ) -> Result<()> {
        if length == 0 {
            return Ok(());
        }
        let name = match source.1 {
            Element::F32 => "convert_f32_to",
            Element::Bf16 => "convert_bf16_to",
        };
        let kernel = CONVERSION.kernel(name);
        let arguments = arguments![source.0, target.0, length, accumulate];
        self.launch(kernel, target.1, Launch::elements(length.div_ceil(8)), arguments)
    }

    /// Sets bytes to zero.
    ///
    /// # Errors
    /// If the GPU has failed.
    pub(crate) fn zero(&self, pointer: u64, bytes: usize) -> Result<()> {
        self.fill_bytes(pointer, 0, bytes)
    }

    /// Sets bytes to a value.
    ///
    /// # Errors
    /// If the GPU has failed.
    pub(crate) fn fill_bytes(&self, pointer: u64, value: u8, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.context().bind()?;
        // SAFETY: callers own as many bytes at the address.
        let set =
            unsafe { result::memset_d8_async(pointer, value, bytes, self.context().stream()) };
        set.map_err(failed("clearing memory of the GPU"))
    }

    /// Copies bytes within the GPU.
    ///
    /// # Errors
    /// If the GPU has failed.
    pub(crate) fn copy(&self, target: u64, source: u64, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.context().bind()?;
        // SAFETY: callers own as many bytes at both addresses.
        let copied =
            unsafe { result::memcpy_dtod_async(target, source, bytes, self.context().stream()) };
        copied.map_err(failed("copying within the GPU"))
    }
}
