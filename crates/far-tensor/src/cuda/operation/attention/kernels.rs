//! Names and sizes of the attention kernels; each kernel's own file says the same.

use crate::cuda::{Element, Program, programs};

programs! {
    /// On tensor cores, bf16.
    ATTENTION_BF16 = "attention_bf16":
        "copy.cuh", "tensor_core.cuh", "attention_forward.cuh", "attention_backward.cuh", "attention_bf16.cu";
    /// On tensor cores, f32 with 10 bits of mantissa.
    ATTENTION_TF32 = "attention_tf32":
        "copy.cuh", "tensor_core.cuh", "attention_forward.cuh", "attention_backward.cuh", "attention_tf32.cu";
    /// On plain units, any head.
    ATTENTION_PLAIN = "attention_plain": "attention_plain.cu";
    /// On Hopper's own instructions, forward.
    HOPPER_FORWARD = "attention_hopper_forward": "hopper.cuh", "attention_hopper_forward.cu";
    /// On Hopper's own instructions, backward.
    HOPPER_BACKWARD = "attention_hopper_backward":
        "hopper.cuh", "attention_hopper_backward.cuh", "attention_hopper_backward.cu";
    /// The same for few queries and keys.
    HOPPER_BACKWARD_SHORT = "attention_hopper_backward_short":
        "hopper.cuh", "attention_hopper_backward.cuh", "attention_hopper_backward_short.cu";
}

/// Queries of a block of the tensor cores' forward, and its threads.
pub(super) const TENSOR_CORE_FORWARD: [usize; 2] = [128, 128];

/// Names and sizes of the tensor cores' kernels for one head.
pub(super) struct TensorCoreKernels {
    pub program: &'static Program,
    pub forward: &'static str,
    pub backward: &'static str,
    pub sum_splits: &'static str,
    pub forward_shared: usize,
    /// Keys and queries of a block of the backward, its threads and its shared memory.
    pub keys: usize,
    pub queries: usize,
    pub threads: usize,
    pub backward_shared: usize,
}

macro_rules! tensor_core {
    ($program:ident, $kind:literal, $head:literal, $forward:expr, $backward:expr) => {{
        let [keys, queries, threads, backward_shared] = $backward;
        TensorCoreKernels {
            program: &$program,
            forward: concat!("attention_forward_", $kind, "_", $head),
            backward: concat!("attention_backward_", $kind, "_", $head),
            sum_splits: concat!("attention_sum_splits_", $kind, "_", $head),
            forward_shared: $forward,
            keys,
            queries,
            threads,
            backward_shared,
        }
    }};
}

impl TensorCoreKernels {
    /// Those for heads of 32, 64 or 128 channels; `None` for others.
    pub(super) fn of(element: Element, channels: usize) -> Option<Self> {
        Some(match (element, channels) {
            (Element::Bf16, 32) => {
                tensor_core!(ATTENTION_BF16, "bf16", 32, 24_576, [128, 64, 128, 50_176])
            }
            (Element::Bf16, 64) => {
                tensor_core!(ATTENTION_BF16, "bf16", 64, 65_536, [128, 64, 128, 82_944])
            }
            (Element::Bf16, 128) => {
                tensor_core!(ATTENTION_BF16, "bf16", 128, 65_536, [128, 64, 256, 148_480])
            }
            (Element::F32, 32) => {
                tensor_core!(ATTENTION_TF32, "tf32", 32, 49_152, [128, 64, 128, 99_328])
            }
            (Element::F32, 64) => {
                tensor_core!(ATTENTION_TF32, "tf32", 64, 98_304, [128, 32, 128, 115_200])
            }
            (Element::F32, 128) => {
                tensor_core!(ATTENTION_TF32, "tf32", 128, 131_072, [64, 32, 128, 139_776])
            }
            _ => return None,
        })
    }
}

/// Names and sizes of the plain kernels for heads of up to some channels.
pub(super) struct PlainKernels {
    pub forward: &'static str,
    pub backward_query: &'static str,
    pub backward_key: &'static str,
    /// Rows of a block of the forward and its shared memory; the same of the backward.
    pub forward_block: [usize; 2],
    pub backward_block: [usize; 2],
}

macro_rules! plain {
    ($kind:literal, $bound:literal, $forward_block:expr, $backward_block:expr) => {
        PlainKernels {
            forward: concat!("attention_forward_plain_", $kind, "_", $bound),
            backward_query: concat!("attention_backward_query_plain_", $kind, "_", $bound),
            backward_key: concat!("attention_backward_key_plain_", $kind, "_", $bound),
            forward_block: $forward_block,
            backward_block: $backward_block,
        }
    };
}

macro_rules! plain_bounds {
    ($kind:literal, $channels:expr) => {
        match $channels {
            ..=32 => plain!($kind, 32, [32, 16_640], [32, 24_832]),
            ..=64 => plain!($kind, 64, [32, 28_928], [32, 41_216]),
            ..=128 => plain!($kind, 128, [32, 53_504], [32, 73_984]),
            _ => plain!($kind, 256, [16, 84_224], [8, 84_224]),
        }
    };
}

impl PlainKernels {
    /// Threads of every block.
    pub(super) const THREADS: usize = 128;

    /// Those for heads of so many channels, at most 256.
    pub(super) fn of(element: Element, channels: usize) -> Self {
        match element {
            Element::F32 => plain_bounds!("f32", channels),
            Element::Bf16 => plain_bounds!("bf16", channels),
        }
    }
}
