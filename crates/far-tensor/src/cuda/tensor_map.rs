//! Descriptions of tensors for Hopper's copy engine.

use super::context::failed;
use super::{Context, Element};
use crate::Result;
use cudarc::driver::sys;
use std::ffi::c_void;

/// Channels of a head and tokens of a box that the attention kernels copy at a time.
const BOX: u32 = 64;

/// A description as the driver encodes it; kernels take it by value.
#[derive(Debug)]
pub(crate) struct TensorMap(sys::CUtensorMap);

impl TensorMap {
    /// bf16 numbers [groups, tokens, heads, channels] with `stride` numbers from token to token.
    ///
    /// # Errors
    /// If the driver refuses.
    pub(crate) fn heads(
        context: &Context,
        pointer: u64,
        [groups, tokens, heads]: [usize; 3],
        channels: usize,
        stride: usize,
    ) -> Result<Self> {
        let size = Element::Bf16.size();
        let row = (stride * size) as u64;
        let sizes = [channels, heads, tokens, groups].map(|size| size as u64);
        let strides = [(channels * size) as u64, row, row * tokens as u64];
        Self::encode(context, pointer, sizes, strides, [BOX, 1, BOX, 1])
    }

    /// Dense bf16 numbers of these sizes, the innermost first, in boxes.
    ///
    /// # Errors
    /// If the driver refuses.
    pub(crate) fn dense(
        context: &Context,
        pointer: u64,
        sizes: [usize; 4],
        boxes: [u32; 4],
    ) -> Result<Self> {
        let [row, rows, planes, _] = sizes;
        let strides = [row, row * rows, row * rows * planes];
        Self::spaced(context, pointer, sizes, strides, boxes)
    }

    /// The same with so many numbers from one row, plane or group of planes to the next; each is a
    /// multiple of the one before.
    ///
    /// # Errors
    /// If the driver refuses.
    pub(crate) fn spaced(
        context: &Context,
        pointer: u64,
        sizes: [usize; 4],
        strides: [usize; 3],
        boxes: [u32; 4],
    ) -> Result<Self> {
        let strides = strides.map(|stride| (stride * Element::Bf16.size()) as u64);
        Self::encode(context, pointer, sizes.map(|size| size as u64), strides, boxes)
    }

    fn encode(
        context: &Context,
        pointer: u64,
        sizes: [u64; 4],
        strides: [u64; 3],
        boxes: [u32; 4],
    ) -> Result<Self> {
        use sys::{
            CUtensorMapDataType as Type, CUtensorMapFloatOOBfill as Outside,
            CUtensorMapInterleave as Interleave, CUtensorMapL2promotion as Promotion,
            CUtensorMapSwizzle as Swizzle,
        };
        let steps = [1; 4];
        context.bind()?;
        let mut map = sys::CUtensorMap { opaque: [0; 16] };
        // SAFETY: the arrays have the lengths that four dimensions need; the address is only noted.
        let encoded = unsafe {
            sys::cuTensorMapEncodeTiled(
                &mut map,
                Type::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                4,
                pointer as *mut c_void,
                sizes.as_ptr(),
                strides.as_ptr(),
                boxes.as_ptr(),
                steps.as_ptr(),
                Interleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                Swizzle::CU_TENSOR_MAP_SWIZZLE_128B,
                Promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                Outside::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        };
        encoded.result().map_err(failed("describing a tensor"))?;
        Ok(Self(map))
    }

    /// Where its bytes are, for a launch.
    pub(super) fn bytes(&self) -> *mut c_void {
        std::ptr::from_ref(&self.0).cast_mut().cast()
    }
}
