//! Contiguous row-major tensors.

use crate::buffer::Buffer;
use crate::cuda::{Cuda, Element};
use crate::storage::Storage;
use crate::{Device, Error, Result, Shape};
use std::fmt;
use std::sync::Arc;

/// The origin of a tensor, which determines where its gradient flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A constant: no gradient flows here.
    Constant,
    /// The output of a recorded operation, or a variable, of the tape with this number.
    Node { tape: u64, index: usize },
    /// A trained parameter.
    Parameter { arena: u64, index: usize },
}

/// A contiguous row-major array with a shape; clones share the elements. The elements are f32; a GPU
/// may compute them as bfloat16.
#[derive(Clone)]
pub struct Tensor {
    shape: Shape,
    storage: Arc<Storage>,
    offset: usize,
    pub(crate) origin: Origin,
}

impl Tensor {
    /// A constant tensor, copied from a slice.
    ///
    /// # Errors
    /// If the number of values does not match the shape.
    pub fn from_slice(values: &[f32], shape: impl Into<Shape>) -> Result<Self> {
        Self::filled("from_slice", values.into(), shape.into())
    }

    /// A tensor that takes over these values.
    ///
    /// # Errors
    /// If `values` does not have exactly one value per element of the shape.
    pub fn from_buffer(values: Buffer, shape: impl Into<Shape>) -> Result<Self> {
        Self::filled("tensor", values, shape.into())
    }

    fn filled(operation: &'static str, values: Buffer, shape: Shape) -> Result<Self> {
        if values.len() != shape.elements() {
            let requirement = format!("{} values were given", values.len());
            return Err(Error::Unsupported { operation, shape, requirement });
        }
        Ok(Self::of_host(shape, values, Origin::Constant))
    }

    /// A tensor of zeros.
    pub fn zeros(shape: impl Into<Shape>) -> Self {
        let shape = shape.into();
        Self::of_host(shape, Buffer::zeroed(shape.elements()), Origin::Constant)
    }

    pub(crate) fn of_host(shape: Shape, buffer: Buffer, origin: Origin) -> Self {
        Self::new(shape, Arc::new(buffer.into()), 0, origin)
    }

    pub(crate) fn new(shape: Shape, storage: Arc<Storage>, offset: usize, origin: Origin) -> Self {
        debug_assert!(offset + shape.elements() <= storage.length);
        Self { shape, storage, offset, origin }
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The elements in row-major order. If they are on a GPU, this waits for it and copies them.
    ///
    /// # Panics
    /// If they are on a GPU that has failed.
    pub fn values(&self) -> &[f32] {
        &self.storage.host()[self.offset..self.offset + self.shape.elements()]
    }

    /// The element type in which a GPU computes with this tensor and its gradient.
    pub(crate) fn element(&self, cuda: &Cuda) -> Element {
        self.storage.born.unwrap_or(cuda.element())
    }

    /// The address of the elements on a GPU.
    ///
    /// # Errors
    /// If it is out of memory, has failed, or is not the GPU that holds them.
    pub(crate) fn pointer(&self, cuda: &Cuda, element: Element) -> Result<u64> {
        let buffer = self.storage.on(cuda, element)?;
        Ok(buffer.pointer() + (self.offset * element.size()) as u64)
    }

    /// Overwrites the elements on a GPU with those of a tensor of the same shape; they must not
    /// have been read on the host.
    ///
    /// # Errors
    /// If the GPU is out of memory or has failed.
    pub(crate) fn copy_from(&self, cuda: &Cuda, source: &Self) -> Result<()> {
        let element = self.element(cuda);
        let bytes = self.shape.elements() * element.size();
        cuda.copy(self.pointer(cuda, element)?, source.pointer(cuda, element)?, bytes)
    }

    /// The address of the elements on a GPU, if there is no other copy and no other reference: they
    /// may be overwritten.
    pub(crate) fn owned_pointer(&mut self, cuda: &Cuda, element: Element) -> Option<u64> {
        let place = Arc::get_mut(&mut self.storage)?.only_on(cuda, element)?;
        Some(place + (self.offset * element.size()) as u64)
    }

    /// Copies the elements to the device now rather than when they are first needed there.
    ///
    /// # Errors
    /// If a GPU is out of memory or has failed.
    pub fn prepare(&self, device: &Device) -> Result<()> {
        match device.gpu() {
            Some(cuda) => self.pointer(cuda, self.element(cuda)).map(|_| ()),
            None => Ok(()),
        }
    }

    /// The only element of a one-element tensor.
    ///
    /// # Errors
    /// If there is not exactly one.
    pub fn item(&self) -> Result<f32> {
        match self.values() {
            [value] => Ok(*value),
            _ => Err(Error::Unsupported {
                operation: "item",
                shape: self.shape,
                requirement: "one element is needed".into(),
            }),
        }
    }

    /// The same elements with another shape; costs nothing, and gradients flow through.
    ///
    /// # Errors
    /// If the number of elements differs.
    pub fn reshape(&self, shape: impl Into<Shape>) -> Result<Self> {
        let shape = shape.into();
        let (fit, shapes) = (shape.elements() == self.shape.elements(), [&self.shape, &shape]);
        Error::expect_fit(fit, "reshape", shapes, "the number of elements must stay the same")?;
        Ok(Self { shape, ..self.clone() })
    }

    /// The elements from `start` as a constant with a shape; clones share them.
    pub(crate) fn part(&self, start: usize, shape: Shape) -> Self {
        Self::new(shape, self.storage.clone(), self.offset + start, Origin::Constant)
    }

    /// The same values as a constant: no gradient flows back through the result (stop-gradient).
    pub fn detach(&self) -> Self {
        Self { origin: Origin::Constant, ..self.clone() }
    }

    pub(crate) fn expect_same(&self, operation: &'static str, other: &Self) -> Result<()> {
        let shapes = [&self.shape, &other.shape];
        Error::expect_fit(shapes[0] == shapes[1], operation, shapes, "the shapes must be equal")
    }

    pub(crate) fn expect_elements(
        &self,
        operation: &'static str,
        elements: usize,
        other: &Self,
        requirement: &'static str,
    ) -> Result<()> {
        let fit = self.shape.elements() == elements;
        Error::expect_fit(fit, operation, [&self.shape, &other.shape], requirement)
    }

    pub(crate) fn expect(
        &self,
        operation: &'static str,
        accepted: bool,
        requirement: impl FnOnce() -> String,
    ) -> Result<()> {
        if accepted {
            return Ok(());
        }
        Err(Error::Unsupported { operation, shape: self.shape, requirement: requirement() })
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = self.values();
        let shown = &values[..values.len().min(8)];
        let more = if values.len() > shown.len() { ", …" } else { "" };
        write!(formatter, "Tensor{} {shown:?}{more}", self.shape)
    }
}
