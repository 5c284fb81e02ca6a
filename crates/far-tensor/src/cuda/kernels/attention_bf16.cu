// Attention for bf16 tensors on tensor cores with bf16 products, for head dimensions 32, 64 and 128 and
// devices of compute capability 8.0 and newer.
//
// Source: prelude.cuh + copy.cuh + tensor_core.cuh + attention_forward.cuh + attention_backward.cuh + this file.
// Element (group g, token i, head h, channel c) of q lies at q + (g·queries + i)·q_stride + h·HEAD + c;
// k and v likewise with `keys` and kv_stride, out and dout with out_stride, dq with dq_stride, dk and
// dv with dkv_stride. Strides are in elements; addresses and rows are aligned to 16 bytes. lse and
// delta are f32 [groups, heads, queries], key_mask f32 [groups, keys] (0 hides a key) or null.
// `scale` is positive. A query with every key hidden has output 0, lse −inf and gradients 0.
//
//   attention_forward_bf16_HEAD(q, k, v, out, lse, key_mask, groups, heads, queries, keys,
//                               q_stride, kv_stride, out_stride, scale)
//     blocks: groups · heads · ⌈queries / 128⌉, 128 threads
//   attention_backward_bf16_HEAD(q, k, v, out, dout, lse, delta, key_mask, dq, dk, dv, scratch,
//                                groups, heads, queries, keys, q_stride, kv_stride, out_stride, dq_stride,
//                                dkv_stride, scale)
//     fills delta = Σ dout·out itself; every output is overwritten
//     blocks: (groups · heads, splits) with 1 ≤ splits ≤ ⌈keys / key rows⌉
//     scratch: f32, need not be cleared, 16-byte aligned, splits · groups · heads · ⌈queries / query rows⌉ ·
//     query rows · HEAD elements; may be null if splits = 1 and keys ≤ key rows
//   attention_sum_splits_bf16_HEAD(scratch, dq, groups, heads, queries, splits, dq_stride, scale),
//     after attention_backward, and only where splits > 1
//     blocks: (groups · heads, ⌈queries / query rows⌉), threads as for backward, no shared memory
// Splits fill the device where heads are few: the fewest, up to 8 and to the number of key blocks, for
// which groups · heads · splits blocks leave less than a tenth of the places of their last round idle;
// else the number with the fewest idle. Places: multiprocessors times the blocks that fit on one, which
// is 2 on the largest devices, 1 for backward with 256 threads or where shared memory allows no more.
//
// Dynamic shared bytes (above 49,152 to be allowed by the caller):
//
//   HEAD | forward | backward: key rows, query rows, threads, shared bytes
//     32 |  24,576 | 128, 64, 128, 50,176
//     64 |  65,536 | 128, 64, 128, 82,944
//    128 |  65,536 | 128, 64, 256, 148,480

ATTENTION_FORWARD(bf16, bf16, BrainCore, 32, 2, 64, 2, 3)
ATTENTION_FORWARD(bf16, bf16, BrainCore, 64, 2, 64, 3, 2)
ATTENTION_FORWARD(bf16, bf16, BrainCore, 128, 2, 32, 2, 2)

ATTENTION_BACKWARD(bf16, bf16, BrainCore, 32, 2, 4, 64, 64, 2)
ATTENTION_BACKWARD(bf16, bf16, BrainCore, 64, 2, 4, 64, 32, 2)
ATTENTION_BACKWARD(bf16, bf16, BrainCore, 128, 1, 8, 64, 64, 1)
