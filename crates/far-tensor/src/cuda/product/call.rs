//! A product in the library's words.

use super::{Answer, Cuda, Operand, Product, kind};
use cudarc::cublaslt::result;
use cudarc::cublaslt::sys;

/// A product in the library's words.
pub(super) struct Call<'a> {
    pub(super) product: &'a Product,
    pub(super) description: sys::cublasLtMatmulDesc_t,
    /// First, second and target.
    pub(super) layouts: [sys::cublasLtMatrixLayout_t; 3],
}

impl<'a> Call<'a> {
    pub(super) fn new(cuda: &Cuda, product: &'a Product) -> Answer<Self> {
        use sys::cublasLtMatmulDescAttributes_t as Of;
        let [rows, inner, columns] = product.sizes;
        let Product { left, right, epilogue, .. } = *product;
        let description = result::create_matmul_desc(
            cuda.compute_type(left.element),
            sys::cudaDataType::CUDA_R_32F,
        )?;
        let layout = |operand: Operand, height: usize, width: usize| {
            // What lies row by row as [height, width] is [width, height] column by column.
            let [height, width] =
                if operand.transposed { [width, height] } else { [height, width] };
            result::create_matrix_layout(
                kind(operand.element),
                width as u64,
                height as u64,
                width as i64,
            )
        };
        let target = Operand::plain(product.target, product.target_element);
        let layouts = [
            layout(right, inner, columns)?,
            layout(left, rows, inner)?,
            layout(target, rows, columns)?,
        ];
        let call = Self { product, description, layouts };
        call.set(Of::CUBLASLT_MATMUL_DESC_TRANSA, &i32::from(right.transposed))?;
        call.set(Of::CUBLASLT_MATMUL_DESC_TRANSB, &i32::from(left.transposed))?;
        call.set(Of::CUBLASLT_MATMUL_DESC_EPILOGUE, &(epilogue.code() as u32))?;
        if let Some(vector) = epilogue.vector() {
            call.set(Of::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &vector)?;
        }
        if let Some(matrix) = epilogue.matrix() {
            call.set(Of::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &matrix)?;
            call.set(Of::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &(columns as i64))?;
        }
        Ok(call)
    }

    fn set<T>(&self, of: sys::cublasLtMatmulDescAttributes_t, value: &T) -> Answer<()> {
        let size = size_of::<T>();
        // SAFETY: the description is alive, and the value has the size that is told.
        unsafe {
            let value = std::ptr::from_ref(value).cast();
            result::set_matmul_desc_attribute(self.description, of, value, size)
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        // SAFETY: all are alive and destroyed once. A failure here has no remedy.
        unsafe {
            for layout in self.layouts {
                let _ = result::destroy_matrix_layout(layout);
            }
            let _ = result::destroy_matmul_desc(self.description);
        }
    }
}
