// Attention on Hopper, backward, for heads of 64 channels in bf16 with few queries and keys.
// Compiled after prelude.cuh, hopper.cuh, which says what the tensor maps hold, and
// attention_hopper_backward.cuh, which says how the gradients are computed.
//
// attention_backward_short_hopper_64  all gradients: up to 256 queries and 256 keys
//   grid     groups · heads, one dimension
//   block    256 threads
//   shared   232,448 bytes, dynamic
//   scratch  none
//
// A block has a whole head: nothing is added by atomics, and every bit is the same in each run.

// Shared memory of attention_backward_short: keys and values of two blocks, queries and upstream
// gradients of two tiles, gradients of scores of the first keys with either tile and of the second
// keys, logarithms and sums of two tiles, barriers. The outputs begin where gradients of scores
// will be.
static const int SHORT_QUERIES_AT = 4 * BLOCK_BYTES;
static const int SHORT_SCORES_AT = 8 * BLOCK_BYTES;
static const int SHORT_SUMS_AT = SHORT_SCORES_AT + 3 * SCORES_BYTES;
static const int SHORT_BARRIERS_AT = SHORT_SUMS_AT + 2 * SUMS_BYTES;

extern "C" __global__ void __launch_bounds__(256, 1)
    attention_backward_short_hopper_64(const __grid_constant__ TensorMap query,
                                       const __grid_constant__ TensorMap key,
                                       const __grid_constant__ TensorMap value,
                                       const __grid_constant__ TensorMap upstream,
                                       const __grid_constant__ TensorMap output,
                                       const float *logarithm, bf16 *query_gradient,
                                       bf16 *key_gradient, bf16 *value_gradient,
                                       const float *key_mask, int groups, int heads, int queries,
                                       int keys, i64 query_gradient_stride,
                                       i64 key_gradient_stride, float scale) {
    const Backward a = {query_gradient, key_gradient, value_gradient, key_mask, queries, keys,
                        query_gradient_stride, key_gradient_stride, scale};
    extern __shared__ __align__(1024) u8 dynamic[];
    const u32 base = shared_address(dynamic);
    const int pair = blockIdx.x, head = pair % heads, group = pair / heads;
    const Place at;
    if (threadIdx.x == 0) {
        const u32 barrier = base + SHORT_BARRIERS_AT;
        for (int i = 0; i < 3; i++) barrier_begin(barrier + 8 * i, 1);
        publish_shared();
        // What the first step needs, then the queries of the second, then the keys of the third.
        for (int i = 0; i < 2; i++) {
            const u32 to = base + SHORT_QUERIES_AT + i * 2 * BLOCK_BYTES;
            barrier_expect(barrier + 8 * i, (i == 0 ? 5 : 3) * BLOCK_BYTES);
            if (i == 0) {
                copy_rows<BLOCK, 64>(base, key, barrier, head, 0, group);
                copy_rows<BLOCK, 64>(base + BLOCK_BYTES, value, barrier, head, 0, group);
            }
            copy_rows<BLOCK, 64>(to, query, barrier + 8 * i, head, i * BLOCK, group);
            copy_rows<BLOCK, 64>(to + BLOCK_BYTES, upstream, barrier + 8 * i, head, i * BLOCK,
                                 group);
            copy_rows<BLOCK, 64>(base + SHORT_SCORES_AT + i * BLOCK_BYTES, output, barrier + 8 * i,
                                 head, i * BLOCK, group);
        }
        barrier_expect(barrier + 16, 2 * BLOCK_BYTES);
        copy_rows<BLOCK, 64>(base + 2 * BLOCK_BYTES, key, barrier + 16, head, BLOCK, group);
        copy_rows<BLOCK, 64>(base + 3 * BLOCK_BYTES, value, barrier + 16, head, BLOCK, group);
    }
    __syncthreads();

    const u64 keys_at = tile_descriptor(base);
    const u64 own_keys = tile_descriptor(base + at.warpgroup * 64 * ROW_BYTES);
    const u64 queries_at = tile_descriptor(base + SHORT_QUERIES_AT);
    float s[64], t[64], q[32], dk[32], dv[32];
    u32 p[32], d[32];

    // Steps take the first keys with the first and the second queries, then the second keys.
    auto multiply_scores = [&](int step) {
        if (step < 3) barrier_wait(base + SHORT_BARRIERS_AT + 8 * step, 0);
        multiply_along(s, own_keys + step / 2 * (2 * BLOCK_BYTES >> 4),
                       queries_at + step % 2 * (2 * BLOCK_BYTES >> 4));
    };
    // From scores to the gradients of keys and values, and the gradients of scores.
    auto take = [&](int step, const Hidden &hidden) {
        const u64 tile = queries_at + step % 2 * (2 * BLOCK_BYTES >> 4);
        const u64 upstream_at = tile + (BLOCK_BYTES >> 4);
        const u32 sums = base + SHORT_SUMS_AT + step % 2 * SUMS_BYTES;
        multiply_along(t, own_keys + (step / 2 * 2 + 1) * (BLOCK_BYTES >> 4), upstream_at);
        products_wait<1>();
        hold(s);
        take_powers(s, p, sums, scale * LOG2_E, hidden, at.lane);
        multiply_across(dv, p, upstream_at);
        products_wait<1>();
        hold(t);
        take_gradients(s, t, d, sums, at.lane);
        // The second keys' gradients of scores have one place: both warpgroups are done with it.
        if (step == 3) __syncthreads();
        store_gradients(base + SHORT_SCORES_AT + (step < 2 ? step : 2) * SCORES_BYTES, d, at);
        multiply_across(dk, d, tile);
    };
    auto clear = [&]() {
#pragma unroll
        for (int i = 0; i < 32; i++) dk[i] = dv[i] = 0.0f;
    };
    auto multiply_queries = [&](int step) {
        const u32 half = base + SHORT_SCORES_AT + at.warpgroup * BLOCK_BYTES;
        publish_shared();
        __syncthreads();
        hold(q);
        products_begin();
        multiply_keys(q, tile_descriptor(half + (step - 2) * SCORES_BYTES), keys_at, false);
        multiply_keys(q, tile_descriptor(half + 2 * SCORES_BYTES),
                      keys_at + (2 * BLOCK_BYTES >> 4), true);
        products_commit();
    };
    // By way of the first keys' gradients of scores, which only this warpgroup has multiplied.
    auto write = [&](int step) {
        hold(q);
        named_barrier(1 + at.warpgroup, 128);
        write_queries(a, q,
                      base + SHORT_SCORES_AT + (step - 2) * SCORES_BYTES +
                          at.warpgroup * BLOCK_BYTES,
                      at, group, head, (step - 2) * BLOCK + at.warpgroup * 64);
    };

    // Σ upstream · output, and the logarithm, of the row of this thread.
    auto prepare = [&]() {
        const int row = threadIdx.x % BLOCK, place = threadIdx.x;
        const u32 gradients = base + SHORT_QUERIES_AT + (at.warpgroup * 2 + 1) * BLOCK_BYTES;
        const u32 outputs = base + SHORT_SCORES_AT + at.warpgroup * BLOCK_BYTES;
        const u32 to = base + SHORT_SUMS_AT + at.warpgroup * SUMS_BYTES + row * 4;
        float log = place < queries ? logarithm[(i64)pair * queries + place] : MINUS_INFINITY;
        float sum = 0.0f;
        barrier_wait(base + SHORT_BARRIERS_AT + 8 * at.warpgroup, 0);
#pragma unroll
        for (int chunk = 0; chunk < 8; chunk++)
            sum += dot(load_shared_chunk(gradients + swizzled(row, chunk)),
                       load_shared_chunk(outputs + swizzled(row, chunk)));
        store_shared(to, in_base_two(log));
        store_shared(to + SUMS_BYTES / 2, sum);
        // Everybody's are there; the outputs make room for gradients of scores.
        __syncthreads();
    };

    prepare();
    const Hidden first(a, at, group, 0);
    clear();
    multiply_scores(0);
#pragma unroll 1
    for (int step = 0; step < 2; step++) {
        take(step, first);
        multiply_scores(step + 1);
        products_wait<0>();
    }
    hold(dk);
    hold(dv);
    // The keys stay for the queries' gradient; the first values have been multiplied.
    named_barrier(1 + at.warpgroup, 128);
    write_keys(a, dk, dv, base + BLOCK_BYTES, base + BLOCK_BYTES, at, group, head, 0);
    clear();
    const Hidden second(a, at, group, BLOCK);
#pragma unroll 1
    for (int step = 2;; step++) {
        take(step, second);
        multiply_queries(step);
        if (step == 3) break;
        multiply_scores(step + 1);
        products_wait<0>();
        write(step);
    }
    products_wait<0>();
    write(3);
    hold(dk);
    hold(dv);
    write_keys(a, dk, dv, base + 3 * BLOCK_BYTES, base + 3 * BLOCK_BYTES, at, group, head, BLOCK);
}
