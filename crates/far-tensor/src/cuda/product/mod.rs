//! Matrix products by cuBLASLt, with what can be fused behind them.
//!
//! Matrices are row-major here and column-major there: target = left·right becomes
//! targetᵀ = rightᵀ·leftᵀ, so our right-hand matrix is the library's first.

mod call;
mod choice;

use super::memory::{CudaBuffer, Element};
use super::{Cuda, graph};
use crate::{Error, Result};
use call::Call;
use cudarc::cublaslt::result::{self, CublasError};
use cudarc::cublaslt::sys;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard};

/// Scratch memory of the library: twice what its makers advise for Hopper, for the parts of long sums.
const WORKSPACE: usize = 64 << 20;

/// What the library answers.
type Answer<T> = std::result::Result<T, CublasError>;

/// A matrix on the GPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand {
    /// Where it begins.
    pub pointer: u64,
    /// What its numbers are.
    pub element: Element,
    /// Whether it lies as its transpose, row by row.
    pub transposed: bool,
}

impl Operand {
    /// A matrix that lies row by row.
    pub(crate) fn plain(pointer: u64, element: Element) -> Self {
        Self { pointer, element, transposed: false }
    }

    /// A matrix whose transpose lies row by row.
    pub(crate) fn transposed(pointer: u64, element: Element) -> Self {
        Self { pointer, element, transposed: true }
    }
}

/// What follows a product, fused.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Epilogue {
    /// Nothing.
    None,
    /// A bias [columns] is added.
    Bias(u64),
    /// A bias is added, the sum kept at `before`, and GELU (tanh) applied.
    BiasGelu { bias: u64, before: u64 },
    /// The product is multiplied by the slope of GELU at what was before it, which is here.
    GeluSlope(u64),
}

impl Epilogue {
    fn code(self) -> sys::cublasLtEpilogue_t {
        use sys::cublasLtEpilogue_t as Code;
        match self {
            Self::None => Code::CUBLASLT_EPILOGUE_DEFAULT,
            Self::Bias(_) => Code::CUBLASLT_EPILOGUE_BIAS,
            Self::BiasGelu { before: 0, .. } => Code::CUBLASLT_EPILOGUE_GELU_BIAS,
            Self::BiasGelu { .. } => Code::CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
            Self::GeluSlope(_) => Code::CUBLASLT_EPILOGUE_DGELU,
        }
    }

    /// The vector of the width of the target.
    fn vector(self) -> Option<u64> {
        match self {
            Self::None | Self::GeluSlope(_) => None,
            Self::Bias(bias) | Self::BiasGelu { bias, .. } => Some(bias),
        }
    }

    /// The matrix of the size of the target.
    fn matrix(self) -> Option<u64> {
        match self {
            Self::BiasGelu { before, .. } | Self::GeluSlope(before) => {
                Some(before).filter(|pointer| *pointer != 0)
            }
            _ => None,
        }
    }
}

/// target [rows, columns] ← left [rows, inner]·right [inner, columns].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    /// Rows, inner and columns.
    pub sizes: [usize; 3],
    pub left: Operand,
    pub right: Operand,
    /// The target lies row by row.
    pub target: u64,
    pub target_element: Element,
    /// Whether to add to what is there.
    pub accumulate: bool,
    pub epilogue: Epilogue,
}

/// What decides how a product is computed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Plan {
    sizes: [usize; 3],
    elements: [Element; 3],
    transposed: [bool; 2],
    accumulate: bool,
    epilogue: u32,
    /// Largest power of two, at most 256, that divides each address.
    alignment: [u32; 3],
}

/// The library's handle, its scratch memory and what was found to be fast.
pub(super) struct Products {
    handle: sys::cublasLtHandle_t,
    /// Held while a product is put on the stream: one may be several kernels that hand partial sums
    /// on there, and another thread's must not come between them.
    workspace: Mutex<CudaBuffer>,
    /// `None` where the library knows no way.
    plans: Mutex<HashMap<Plan, Option<sys::cublasLtMatmulAlgo_t>>>,
    /// By the sizes of a product, whether what follows it is better fused with it.
    fused: Mutex<HashMap<[usize; 3], bool>>,
}

// SAFETY: the handle may be used from any thread; the scratch memory in the order of one stream.
unsafe impl Send for Products {}
// SAFETY: as above.
unsafe impl Sync for Products {}

impl Drop for Products {
    fn drop(&mut self) {
        // SAFETY: the handle is alive and destroyed once. A failure here has no remedy.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

impl Products {
    pub(super) fn new(pool: &std::sync::Arc<super::CudaPool>) -> Result<Self> {
        let handle = result::create_handle().map_err(refused)?;
        let workspace = pool.take(Element::F32, WORKSPACE / 4)?;
        Ok(Self {
            handle,
            workspace: Mutex::new(workspace),
            plans: Mutex::default(),
            fused: Mutex::default(),
        })
    }
}

fn refused(error: CublasError) -> Error {
    Error::Cuda { action: "multiplying matrices", reason: format!("{error:?}") }
}

fn alignment(pointer: u64) -> u32 {
    1 << pointer.trailing_zeros().min(8)
}

fn kind(element: Element) -> sys::cudaDataType {
    match element {
        Element::F32 => sys::cudaDataType::CUDA_R_32F,
        Element::Bf16 => sys::cudaDataType::CUDA_R_16BF,
    }
}

impl Cuda {
    /// Computes a product.
    ///
    /// # Errors
    /// If the library knows no way for these sizes and this epilogue, or the GPU has failed.
    pub(crate) fn multiply(&self, product: &Product) -> Result<()> {
        if self.try_multiply(product)? {
            return Ok(());
        }
        Err(refused(CublasError(sys::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED)))
    }

    /// Computes a product, or says that the library knows no way for these sizes and this epilogue:
    /// odd widths have no fused ones.
    ///
    /// # Errors
    /// If the GPU has failed.
    pub(crate) fn try_multiply(&self, product: &Product) -> Result<bool> {
        let [rows, inner, columns] = product.sizes;
        if rows * columns == 0 {
            return Ok(true);
        }
        if inner == 0 {
            let bytes = rows * columns * product.target_element.size();
            if !product.accumulate {
                self.zero(product.target, bytes)?;
            }
            return Ok(matches!(product.epilogue, Epilogue::None));
        }
        let (call, plan) = self.prepare(product)?;
        let plans = || self.products.plans.lock().expect("nobody panics while looking");
        let known = plans().get(&plan).copied();
        let algorithm = match known {
            Some(algorithm) => algorithm,
            None => {
                graph::refuse(self.context(), "a product is met for the first time")?;
                let found = self.choose(&call, &plan).ok();
                plans().insert(plan, found);
                found
            }
        };
        let Some(algorithm) = algorithm else { return Ok(false) };
        self.timed("matrix product", || self.call(&call, &algorithm).map_err(refused))?;
        Ok(true)
    }

    /// A product in the library's words, and what decides how it is computed.
    fn prepare<'a>(&self, product: &'a Product) -> Result<(Call<'a>, Plan)> {
        self.context().bind()?;
        let plan = Plan {
            sizes: product.sizes,
            elements: [product.left.element, product.right.element, product.target_element],
            transposed: [product.left.transposed, product.right.transposed],
            accumulate: product.accumulate,
            epilogue: product.epilogue.code() as u32,
            alignment: [product.left.pointer, product.right.pointer, product.target].map(alignment),
        };
        Ok((Call::new(self, product).map_err(refused)?, plan))
    }

    /// Keeps others from using the scratch memory while work that uses it is put on the stream.
    pub(super) fn lock_workspace(&self) -> MutexGuard<'_, CudaBuffer> {
        self.products.workspace.lock().expect("nobody panics while multiplying")
    }

    fn call(&self, call: &Call, algorithm: &sys::cublasLtMatmulAlgo_t) -> Answer<()> {
        let one = 1.0_f32;
        let beta = if call.product.accumulate { 1.0_f32 } else { 0.0 };
        let Product { left, right, target, .. } = *call.product;
        let workspace = self.lock_workspace();
        // SAFETY: the descriptions are alive and say the sizes of the matrices, which callers keep
        // alive in the order of the stream.
        unsafe {
            result::matmul(
                self.products.handle,
                call.description,
                std::ptr::from_ref(&one).cast(),
                std::ptr::from_ref(&beta).cast(),
                right.pointer as *const c_void,
                call.layouts[0],
                left.pointer as *const c_void,
                call.layouts[1],
                target as *const c_void,
                call.layouts[2],
                target as *mut c_void,
                call.layouts[2],
                algorithm,
                workspace.pointer() as *mut c_void,
                WORKSPACE,
                self.context().stream().cast(),
            )
        }
    }
}
