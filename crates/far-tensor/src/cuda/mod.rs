//! The GPU: its libraries, its memory, its kernels, its matrix products.
//!
//! Nothing here is needed to build or to run without a GPU: the driver, the compiler of kernels and
//! the matrix library are looked for when a device is opened.

mod context;
mod copies;
mod graph;
mod kernel;
mod library;
mod memory;
mod operation;
mod optimizer;
mod precision;
mod product;
mod program;
mod staging;
mod tensor_map;
mod transfer;

use crate::profile::Profile;
use crate::{Error, Result};
use cudarc::cublaslt::sys::cublasComputeType_t;
use std::fmt;
use std::sync::{Arc, OnceLock};

pub(crate) use context::Context;
pub use copies::{Copied, Copies};
pub(crate) use graph::Graph;
pub(crate) use kernel::{Argument, Kernel, Launch, argument_groups, arguments};
pub use memory::MemoryUse;
pub(crate) use memory::{CudaBuffer, CudaPool, Element};
pub(crate) use operation::{ChannelGroups, Pooling, Rotation};
pub(crate) use optimizer::UpdatePlaces;
pub use precision::Precision;
pub(crate) use product::{Epilogue, Operand, Product};
pub(crate) use program::{Program, programs};
pub(crate) use tensor_map::TensorMap;

/// A GPU ready for work.
pub(crate) struct Cuda {
    pub(crate) pool: Arc<CudaPool>,
    precision: Precision,
    versions: library::Versions,
    kernels: kernel::Kernels,
    products: product::Products,
    /// Shared memory that a block may have.
    shared_limit: usize,
    /// Whether kernels for one kind of chip are left alone.
    general: bool,
    profile: OnceLock<Arc<Profile>>,
    poisoned: bool,
}

impl Cuda {
    /// The GPU with that number.
    ///
    /// # Errors
    /// If a library is missing or too old, or there is no such GPU.
    pub(crate) fn open(ordinal: usize, precision: Precision, poisoned: bool) -> Result<Arc<Self>> {
        let versions = library::find()?;
        Self::new(CudaPool::of(ordinal)?, versions, precision, poisoned)
    }

    /// The same GPU in another precision, with the same stream and memory.
    ///
    /// # Errors
    /// If the GPU has no room.
    pub(crate) fn in_precision(&self, precision: Precision) -> Result<Arc<Self>> {
        Self::new(self.pool.clone(), self.versions, precision, self.poisoned)
    }

    fn new(
        pool: Arc<CudaPool>,
        versions: library::Versions,
        precision: Precision,
        poisoned: bool,
    ) -> Result<Arc<Self>> {
        let products = product::Products::new(&pool)?;
        let shared_limit = pool.context().shared_limit()?;
        Ok(Arc::new(Self {
            pool,
            precision,
            versions,
            kernels: kernel::Kernels::default(),
            products,
            shared_limit,
            general: general_kernels(),
            profile: OnceLock::new(),
            poisoned,
        }))
    }

    /// The chip and its stream.
    pub(crate) fn context(&self) -> &Context {
        self.pool.context()
    }

    /// The precision of what is computed.
    pub(crate) fn precision(&self) -> Precision {
        self.precision
    }

    /// What activations are made of.
    pub(crate) fn element(&self) -> Element {
        match self.precision {
            Precision::Bf16 => Element::Bf16,
            Precision::F32 | Precision::Tf32 => Element::F32,
        }
    }

    /// Whether the chip is a Hopper, whose own instructions some kernels use, and they may.
    pub(crate) fn is_hopper(&self) -> bool {
        self.context().capability == [9, 0] && !self.general
    }

    /// Shared memory that a block may have, in bytes.
    pub(crate) fn shared_limit(&self) -> usize {
        self.shared_limit
    }

    fn compute_type(&self, element: Element) -> cublasComputeType_t {
        match (element, self.precision) {
            (Element::F32, Precision::Tf32 | Precision::Bf16) => {
                cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32
            }
            _ => cublasComputeType_t::CUBLAS_COMPUTE_32F,
        }
    }

    /// Records the time of each kernel from now on: one record for all who ask.
    pub(crate) fn record_times(&self) -> Arc<Profile> {
        let profile = self.profile.get_or_init(Arc::default);
        profile.resume();
        profile.clone()
    }

    /// Whether the time of each kernel is recorded now.
    pub(crate) fn is_timed(&self) -> bool {
        self.profile().is_some()
    }

    fn profile(&self) -> Option<&Profile> {
        self.profile.get().map(|profile| &**profile).filter(|profile| profile.is_running())
    }

    /// A fresh buffer in the pool's memory.
    ///
    /// # Errors
    /// If the GPU has no room.
    pub(crate) fn buffer(&self, element: Element, length: usize) -> Result<CudaBuffer> {
        let buffer = self.pool.take(element, length)?;
        if self.poisoned {
            // All ones is a NaN in both element types. What lies behind the last element is filled too: a
            // kernel that reads on must be found.
            self.fill_bytes(buffer.pointer(), 0xff, buffer.block())?;
        }
        Ok(buffer)
    }

    /// A buffer of zeros.
    ///
    /// # Errors
    /// If the GPU has no room.
    pub(crate) fn zeroed(&self, element: Element, length: usize) -> Result<CudaBuffer> {
        let buffer = self.pool.take(element, length)?;
        self.zero(buffer.pointer(), buffer.size())?;
        Ok(buffer)
    }
}

/// Whether the environment variable `FAR_KERNELS` asks for the kernels that every chip has.
fn general_kernels() -> bool {
    std::env::var("FAR_KERNELS").is_ok_and(|kernels| kernels == "general")
}

impl fmt::Display for Cuda {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { versions, precision, .. } = self;
        let context = self.context();
        let gigabytes = context.memory as f64 / f64::from(1 << 30);
        let kernels = if self.general { ", general kernels" } else { "" };
        let name = &context.name;
        write!(formatter, "{name} ({gigabytes:.0} GiB; {versions}), {precision}{kernels}")
    }
}

impl Error {
    /// The error of a tensor that lives on another GPU than the one it is given to.
    pub(crate) fn other_device() -> Self {
        let reason = "a tensor of another device was given; pass its values instead".to_owned();
        Self::Cuda { action: "reading a tensor", reason }
    }
}
