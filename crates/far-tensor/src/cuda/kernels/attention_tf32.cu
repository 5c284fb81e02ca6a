// Attention for f32 tensors on tensor cores with tf32 products, for head dimensions 32, 64 and 128 and
// devices of compute capability 8.0 and newer.
//
// Source: prelude.cuh + attention.cuh + attention_forward.cuh + attention_backward.cuh + this file.
// Element (group g, token i, head h, channel c) of q lies at q + (g·queries + i)·q_stride + h·HEAD + c;
// k and v likewise with `keys` and kv_stride, out and dout with out_stride, dq with dq_stride, dk and
// dv with dkv_stride. Strides are in elements; addresses and rows are aligned to 16 bytes. lse and
// delta are f32 [groups, heads, queries], key_mask f32 [groups, keys] (0 hides a key) or null.
// `scale` is positive. A query with every key hidden has output 0, lse −inf and gradients 0.
//
//   attention_forward_tf32_HEAD(q, k, v, out, lse, key_mask, groups, heads, queries, keys,
//                               q_stride, kv_stride, out_stride, scale)
//     blocks: groups · heads · ⌈queries / 128⌉, 128 threads
//   attention_delta_tf32_HEAD(out, dout, delta, groups, heads, queries, out_stride)
//     blocks: ⌈groups · heads · queries / rows⌉, 256 threads, no shared memory
//   attention_backward_tf32_HEAD(q, k, v, dout, lse, delta, key_mask, dq, dk, dv, scratch, groups,
//                                heads, queries, keys, q_stride, kv_stride, out_stride, dq_stride,
//                                dkv_stride, scale), after attention_delta
//     blocks: (groups · heads, splits) with 1 ≤ splits ≤ ⌈keys / key rows⌉
//     scratch: f32, need not be cleared, 16-byte aligned, splits · groups · heads · ⌈queries / query rows⌉ ·
//     query rows · HEAD elements; may be null if splits = 1 and keys ≤ key rows
//   attention_sum_splits_tf32_HEAD(scratch, dq, groups, heads, queries, splits, dq_stride, scale),
//     after attention_backward, and only where splits > 1
//     blocks: (groups · heads, ⌈queries / query rows⌉), threads as for backward, no shared memory
// Splits are for few heads: 1 where groups · heads ≥ twice the multiprocessors, else as many as bring
// groups · heads · splits there. Dynamic shared bytes (above 49,152 to be allowed by the caller):
//
//   HEAD | forward | delta rows | backward: key rows, query rows, threads, shared bytes
//     32 |  49,152 |         32 | 128, 64, 128, 99,328
//     64 |  98,304 |         16 | 128, 32, 128, 115,200
//    128 | 131,072 |          8 | 64, 32, 128, 139,776

#define FORWARD(HEAD, ROW_TILES, KEYS, RESIDENT_BLOCKS)                                                               \
    extern "C" __global__ void __launch_bounds__(128, RESIDENT_BLOCKS) attention_forward_tf32_##HEAD(                 \
        const float *q, const float *k, const float *v, float *out, float *lse, const float *key_mask, int groups, int heads,\
        int queries, int keys, i64 q_stride, i64 kv_stride, i64 out_stride, float scale) {                            \
        attention_forward<SingleCore, HEAD, ROW_TILES, KEYS>(q, k, v, out, lse, key_mask, heads, queries, keys, q_stride,\
                                                      kv_stride, out_stride, scale);                                  \
    }
FORWARD(32, 2, 64, 2)
FORWARD(64, 2, 64, 2)
FORWARD(128, 2, 32, 1)

#define BACKWARD(HEAD, KEY_TILES, WARPS, QUERIES, CHUNK, RESIDENT_BLOCKS)                                             \
    extern "C" __global__ void __launch_bounds__(256) attention_delta_tf32_##HEAD(                                    \
        const float *out, const float *dout, float *delta, int groups, int heads, int queries, i64 out_stride) {      \
        attention_delta<float, HEAD>(out, dout, delta, groups, heads, queries, out_stride);                           \
    }                                                                                                                 \
    extern "C" __global__ void __launch_bounds__(32 * WARPS, RESIDENT_BLOCKS) attention_backward_tf32_##HEAD(         \
        const float *q, const float *k, const float *v, const float *dout, const float *lse, const float *delta,      \
        const float *key_mask, float *dq, float *dk, float *dv, float *scratch, int groups, int heads, int queries,   \
        int keys, i64 q_stride, i64 kv_stride, i64 out_stride, i64 dq_stride, i64 dkv_stride, float scale) {          \
        attention_backward<SingleCore, HEAD, KEY_TILES, WARPS, QUERIES, CHUNK>(                                       \
            q, k, v, dout, lse, delta, key_mask, dq, dk, dv, scratch, heads, queries, keys, q_stride, kv_stride,      \
            out_stride, dq_stride, dkv_stride, scale);                                                                \
    }                                                                                                                 \
    extern "C" __global__ void __launch_bounds__(32 * WARPS) attention_sum_splits_tf32_##HEAD(                        \
        const float *scratch, float *dq, int groups, int heads, int queries, int splits, i64 dq_stride, float scale) {\
        attention_sum_splits<SingleCore, HEAD, KEY_TILES, WARPS, QUERIES>(scratch, dq, heads, queries, splits, dq_stride,\
                                                                   scale);                                            \
    }
BACKWARD(32, 2, 4, 64, 32, 2)
BACKWARD(64, 2, 4, 32, 32, 2)
BACKWARD(128, 1, 4, 32, 32, 1)
