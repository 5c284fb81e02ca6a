// Attention on Hopper, backward, for heads of 64 channels in bf16. Compiled after prelude.cuh,
// hopper.cuh, which says what the tensor maps hold, and attention_hopper_backward.cuh, which says
// how the gradients are computed. All grids have one dimension.
//
// attention_prepare_hopper_64   Σ upstream · output of every row, logarithms in base 2, zeros
//   grid     ceil(groups · padded · heads / 32)
//   block    256 threads, no dynamic shared memory
// attention_backward_hopper_64  all gradients, after attention_prepare
//   grid     groups · heads · ceil(keys / 128)
//   block    256 threads
//   shared   200,736 bytes, dynamic
//
// padded is `queries` rounded up to a multiple of 128. Both share scratch, which nobody needs to
// zero: groups · heads · (padded · 66 + 1) floats: sums of the queries' gradient (64 each, in an
// order of their own), the logarithms, the sums of upstream · output, and a counter per head. Its
// address is a multiple of 16.
//
// A block has 128 keys, and adds what they give to the gradient of the queries to device memory by
// atomics. The order of these additions changes from run to run, hence the last bits of that
// gradient: computing it in a kernel of its own would repeat two of the five products.

extern "C" __global__ void __launch_bounds__(256)
    attention_prepare_hopper_64(const bf16 *output, const bf16 *upstream, const float *logarithm,
                                float *scratch, int groups, int heads, int queries,
                                i64 output_stride) {
    const i64 padded = (queries + BLOCK - 1) / BLOCK * BLOCK, rows = groups * padded * heads;
    const i64 thread = (i64)blockIdx.x * 256 + threadIdx.x, row = thread / 8;
    const int head = row % heads, place = row / heads % padded;
    const i64 group = row / heads / padded, pair = group * heads + head;
    const bool exists = row < rows && place < queries;
    const i64 start = (group * queries + place) * output_stride + head * 64 + thread % 8 * 8;
    float sum = 0.0f;
    if (exists) sum = dot(*(const uint4 *)(output + start), *(const uint4 *)(upstream + start));
#pragma unroll
    for (int offset = 4; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    if (row >= rows) return;
    float4 *zeros = (float4 *)scratch + thread * 2;
    zeros[0] = zeros[1] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (thread % 8 != 0) return;
    scratch[rows * 64 + pair * padded + place] =
        in_base_two(exists ? logarithm[pair * queries + place] : MINUS_INFINITY);
    scratch[rows * 65 + pair * padded + place] = sum;
    if (place == 0) ((u32 *)scratch)[rows * 66 + pair] = 0;
}

// Turns the sums of a head's queries into their gradient.
__device__ __forceinline__ void finish_queries(const Backward &a, const float *sums, u32 tile,
                                               const Place &at, int group, int head) {
#pragma unroll 2
    for (int first = at.warpgroup * 64; first < a.queries; first += BLOCK) {
        const float *from = sums + (i64)first * 64 + at.warp * 1024 + at.lane * 4;
        float q[32];
        // Past the first cache, which does not see what other blocks add.
#pragma unroll
        for (int j = 0; j < 8; j++)
            asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(q[4 * j]), "=f"(q[4 * j + 1]), "=f"(q[4 * j + 2]),
                           "=f"(q[4 * j + 3])
                         : "l"(from + 128 * j)
                         : "memory");
        write_queries(a, q, tile + at.warpgroup * 64 * ROW_BYTES, at, group, head, first);
    }
}

// Shared memory of attention_backward: keys, values, two buffers of gradients of scores, so that
// one can be written while the other is multiplied, stages of 128 queries and their upstream
// gradient, stages of logarithms and sums, a barrier for each stage, and a word.
static const int STAGES = 3;
static const int VALUES_AT = BLOCK_BYTES;
static const int SCORES_AT = 2 * BLOCK_BYTES;
static const int STAGES_AT = SCORES_AT + 2 * SCORES_BYTES;
static const int SUMS_AT = STAGES_AT + STAGES * 2 * BLOCK_BYTES;
static const int BARRIERS_AT = SUMS_AT + STAGES * SUMS_BYTES;
static const int WORD_AT = BARRIERS_AT + STAGES * 8;

extern "C" __global__ void __launch_bounds__(256, 1)
    attention_backward_hopper_64(const __grid_constant__ TensorMap query,
                                 const __grid_constant__ TensorMap key,
                                 const __grid_constant__ TensorMap value,
                                 const __grid_constant__ TensorMap upstream, float *scratch,
                                 bf16 *query_gradient, bf16 *key_gradient, bf16 *value_gradient,
                                 const float *key_mask, int groups, int heads, int queries,
                                 int keys, i64 query_gradient_stride, i64 key_gradient_stride,
                                 float scale) {
    const Backward a = {query_gradient, key_gradient, value_gradient, key_mask, queries, keys,
                        query_gradient_stride, key_gradient_stride, scale};
    extern __shared__ u8 dynamic[];
    const u32 base = (shared_address(dynamic) + 1023) & ~1023u;
    const int key_blocks = (keys + BLOCK - 1) / BLOCK, tiles = (queries + BLOCK - 1) / BLOCK;
    const int key_block = blockIdx.x % key_blocks, pair = blockIdx.x / key_blocks;
    const int head = pair % heads, group = pair / heads, first_key = key_block * BLOCK;
    const Place at;
    const i64 padded = (i64)tiles * BLOCK, rows = (i64)groups * heads * padded;
    float *const query_sums = scratch + pair * padded * 64;

    // Blocks of one head begin at different queries, so that their atomics do not meet.
    auto place_of = [&](int step) { return (step + key_block) % tiles; };
    // Copies 128 queries; one thread runs it.
    auto fill = [&](int step) {
        if (step >= tiles) return;
        const int first = place_of(step) * BLOCK, stage = step % STAGES;
        const u32 barrier = base + BARRIERS_AT + 8 * stage;
        const u32 to = base + STAGES_AT + stage * 2 * BLOCK_BYTES;
        const u32 sums = base + SUMS_AT + stage * SUMS_BYTES;
        const float *logarithms = scratch + rows * 64 + pair * padded + first;
        barrier_expect(barrier, (step == 0 ? 4 : 2) * BLOCK_BYTES + SUMS_BYTES);
        if (step == 0) {
            copy_rows<BLOCK, 64>(base, key, barrier, head, first_key, group);
            copy_rows<BLOCK, 64>(base + VALUES_AT, value, barrier, head, first_key, group);
        }
        copy_rows<BLOCK, 64>(to, query, barrier, head, first, group);
        copy_rows<BLOCK, 64>(to + BLOCK_BYTES, upstream, barrier, head, first, group);
        copy_bytes(sums, logarithms, SUMS_BYTES / 2, barrier);
        copy_bytes(sums + SUMS_BYTES / 2, logarithms + rows, SUMS_BYTES / 2, barrier);
    };
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++)
            barrier_begin(base + BARRIERS_AT + 8 * stage, 1);
        publish_shared();
        fill(0);
        fill(1);
    }
    __syncthreads();

    const Hidden hidden(a, at, group, first_key);
    const u64 keys_at = tile_descriptor(base);
    const u64 own_keys = tile_descriptor(base + at.warpgroup * 64 * ROW_BYTES);
    const u64 own_values = tile_descriptor(base + VALUES_AT + at.warpgroup * 64 * ROW_BYTES);
    const u64 stages_at = tile_descriptor(base + STAGES_AT);
    // Scores, gradients of probabilities, gradients of queries, keys and values.
    float s[64], t[64], q[32], dk[32], dv[32];
    u32 p[32], d[32];
#pragma unroll
    for (int i = 0; i < 32; i++) dk[i] = dv[i] = 0.0f;

    auto multiply_scores = [&](int step) {
        barrier_wait(base + BARRIERS_AT + 8 * (step % STAGES), step / STAGES & 1);
        multiply_along(s, own_keys, stages_at + step % STAGES * (2 * BLOCK_BYTES >> 4));
    };
    // Adds what a step gives to the gradient of its queries, by way of this warpgroup's gradients
    // of scores, which have been multiplied.
    auto add_queries = [&](int step) {
        hold(q);
        const u32 staged = base + SCORES_AT + (step % 2 * 2 + at.warpgroup) * BLOCK_BYTES;
        named_barrier(1 + at.warpgroup, 128);
        store_sums(staged, q);
        publish_shared();
        __syncwarp();
        if (at.lane == 0)
            add_bytes(query_sums + (i64)(place_of(step) * 2 + at.warpgroup) * 4096 + at.warp * 1024,
                      staged + at.warp * 4096, 4096);
    };

    multiply_scores(0);
    for (int step = 0;; step++) {
        const int stage = step % STAGES;
        const u64 queries_at = stages_at + stage * (2 * BLOCK_BYTES >> 4);
        const u64 upstream_at = queries_at + (BLOCK_BYTES >> 4);
        const u32 sums = base + SUMS_AT + stage * SUMS_BYTES;
        const u32 scores = base + SCORES_AT + step % 2 * SCORES_BYTES;
        multiply_along(t, own_values, upstream_at);
        products_wait<1>();
        hold(s);
        take_powers(s, p, sums, scale * LOG2_E, hidden, at.lane);
        multiply_across(dv, p, upstream_at);
        products_wait<1>();
        hold(t);
        take_gradients(s, t, d, sums, at.lane);
        store_gradients(scores, d, at);
        multiply_across(dk, d, queries_at);
        // Everybody's gradients of scores are written, and everybody is done with the step before:
        // its queries, and what it staged for the additions.
        publish_shared();
        if (at.lane == 0) writes_read();
        __syncthreads();
        if (threadIdx.x == 0) fill(step + 2);
        __syncwarp();
        hold(q);
        products_begin();
        multiply_keys(q, tile_descriptor(scores + at.warpgroup * BLOCK_BYTES), keys_at, false);
        products_commit();
        if (step + 1 == tiles) break;
        multiply_scores(step + 1);
        products_wait<0>();
        add_queries(step);
    }
    products_wait<0>();
    add_queries(tiles - 1);
    hold(dk);
    hold(dv);
    // The keys and values are not read any more: their rows take the gradients on their way out.
    __syncthreads();
    write_keys(a, dk, dv, base, base + VALUES_AT, at, group, head, first_key);
    // The last block of a head to add finishes its queries.
    if (at.lane == 0) writes_done();
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 before = atomicAdd((u32 *)scratch + rows * 66 + pair, 1u);
        store_shared(base + WORD_AT, before == (u32)key_blocks - 1 ? 1.0f : 0.0f);
    }
    __syncthreads();
    if (load_shared_pair(base + WORD_AT).x == 0.0f) return;
    __threadfence();
    finish_queries(a, query_sums, base + SCORES_AT, at, group, head);
}
