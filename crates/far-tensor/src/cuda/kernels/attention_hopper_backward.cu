// Attention on Hopper, backward, for heads of 64 channels in bf16. Compiled after prelude.cuh and
// hopper.cuh, which says what the tensor maps hold. All grids have one dimension.
//
// attention_prepare_hopper_64         Σ upstream · output of every row, logarithms in base 2, zeros
//   grid     ceil(groups · padded · heads / 32)
//   block    256 threads, no dynamic shared memory
// attention_backward_hopper_64        all gradients, after attention_prepare
//   grid     groups · heads · ceil(keys / 128)
//   block    256 threads
//   shared   200,736 bytes, dynamic
// attention_backward_short_hopper_64  all gradients on its own: up to 256 queries and 256 keys
//   grid     2 · groups · heads, in clusters of two (the kernel says so itself)
//   block    256 threads
//   shared   200,736 bytes, dynamic
//
// padded is `queries` rounded up to a multiple of 128. attention_prepare and attention_backward
// share scratch, which nobody needs to zero: groups · heads · (padded · 66 + 1) floats: sums of the
// queries' gradient (64 each, in an order of their own), the logarithms, the sums of
// upstream · output, and a counter per head. Its address is a multiple of 16.
//
// A block keeps 128 keys and values, and takes the queries 128 at a time: its two warpgroups
// compute transposed scores, 64 keys × 128 queries each, so that probabilities and their gradients
// are left operands of the products for values and keys without leaving the registers. The
// gradient of the queries needs them the other way around and of all keys: it goes through shared
// memory, and is added to device memory by atomics. The order of these additions changes from run
// to run, hence the last bits of the queries' gradient: computing them in a kernel of their own
// would repeat two of the five products. Where two blocks cover all keys and all queries, they
// exchange their parts instead, and every bit is the same in each run.

static const int BLOCK = 128;
static const int BLOCK_BYTES = BLOCK * ROW_BYTES;
static const float LOG2_E = 1.4426950408889634f;

// Shared memory of a block of attention_backward.
static const int KEYS_AT = 0;
static const int VALUES_AT = BLOCK_BYTES;
// Gradients of the scores, [128 keys, 64 queries] for each half of the queries; two of them, so
// that one can be written while the other is multiplied.
static const int SCORES_AT = 2 * BLOCK_BYTES;
// Stages of 128 queries and their upstream gradient.
static const int STAGES = 3;
static const int STAGES_AT = 6 * BLOCK_BYTES;
// Stages of the logarithms of 128 queries and their sums.
static const int SUMS_AT = STAGES_AT + STAGES * 2 * BLOCK_BYTES;
static const int SUMS_BYTES = 2 * BLOCK * 4;
// A barrier for each stage, and a word.
static const int BARRIERS_AT = SUMS_AT + STAGES * SUMS_BYTES;
static const int WORD_AT = BARRIERS_AT + STAGES * 8;

struct Backward {
    const bf16 *output, *upstream;
    const float *logarithm;
    float *scratch;
    bf16 *query_gradient, *key_gradient, *value_gradient;
    const float *key_mask;
    int groups, heads, queries, keys;
    i64 output_stride, query_gradient_stride, key_gradient_stride;
    float scale;
};

// A logarithm in base 2, or one that makes every probability zero for a row that sees no key.
__device__ __forceinline__ float in_base_two(float logarithm) {
    return logarithm == MINUS_INFINITY ? PLUS_INFINITY : logarithm * LOG2_E;
}

// The sum of products of `COUNT` vectors of 8.
template <int COUNT>
__device__ __forceinline__ float dot(const bf16 *left, const bf16 *right) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        float x[8], y[8];
        load_vector(left + 8 * i, x);
        load_vector(right + 8 * i, y);
#pragma unroll
        for (int j = 0; j < 8; j++) sum += x[j] * y[j];
    }
    return sum;
}

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
    float sum = exists ? dot<1>(output + start, upstream + start) : 0.0f;
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
                                               int group, int head) {
    const int warpgroup = warpgroup_number(), warp = threadIdx.x % 128 / 32;
    const int lane = threadIdx.x % 32;
#pragma unroll 2
    for (int first = warpgroup * 64; first < a.queries; first += BLOCK) {
        const float *from = sums + (i64)first * 64 + warp * 1024 + lane * 4;
        float q[32];
        // Past the first cache, which does not see what other blocks add.
#pragma unroll
        for (int j = 0; j < 8; j++)
            asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(q[4 * j]), "=f"(q[4 * j + 1]), "=f"(q[4 * j + 2]),
                           "=f"(q[4 * j + 3])
                         : "l"(from + 128 * j)
                         : "memory");
        write_rows(q, a.scale, a.scale, tile + warpgroup * 64 * ROW_BYTES, warp * 16,
                   a.query_gradient + ((i64)group * a.queries + first) * a.query_gradient_stride +
                       head * 64,
                   a.query_gradient_stride, a.queries - first);
    }
}

// SHORT: two blocks, one cluster, cover all queries and all keys.
template <bool SHORT>
__device__ __forceinline__ void differentiate(const Backward &a, const TensorMap &query,
                                              const TensorMap &key, const TensorMap &value,
                                              const TensorMap &upstream) {
    extern __shared__ u8 dynamic[];
    const u32 base = (shared_address(dynamic) + 1023) & ~1023u;
    const int key_blocks = SHORT ? 2 : (a.keys + BLOCK - 1) / BLOCK;
    const int tiles = SHORT ? 2 : (a.queries + BLOCK - 1) / BLOCK;
    const int key_block = blockIdx.x % key_blocks, pair = blockIdx.x / key_blocks;
    const int head = pair % a.heads, group = pair / a.heads;
    const int warpgroup = warpgroup_number(), warp = threadIdx.x % 128 / 32;
    const int lane = threadIdx.x % 32;
    const int first_key = key_block * BLOCK, key_count = a.keys - first_key;
    const i64 padded = (i64)tiles * BLOCK, rows = (i64)a.groups * a.heads * padded;
    float *const query_sums = a.scratch + pair * padded * 64;

    // Blocks of one head begin at different queries, so that their atomics do not meet.
    auto place_of = [&](int step) { return (step + key_block) % tiles; };
    // Copies 128 queries; one thread runs it.
    auto fill = [&](int step) {
        if (step >= tiles) return;
        const int first = place_of(step) * BLOCK, stage = step % STAGES;
        const u32 barrier = base + BARRIERS_AT + 8 * stage;
        const u32 to = base + STAGES_AT + stage * 2 * BLOCK_BYTES;
        barrier_expect(barrier, (step == 0 ? 4 : 2) * BLOCK_BYTES + (SHORT ? 0 : SUMS_BYTES));
        copy_rows<BLOCK>(to, query, barrier, head, first, group);
        copy_rows<BLOCK>(to + BLOCK_BYTES, upstream, barrier, head, first, group);
        if (step == 0) {
            copy_rows<BLOCK>(base + KEYS_AT, key, barrier, head, first_key, group);
            copy_rows<BLOCK>(base + VALUES_AT, value, barrier, head, first_key, group);
        }
        if (SHORT) return;
        const u32 sums = base + SUMS_AT + stage * SUMS_BYTES;
        const float *logarithms = a.scratch + rows * 64 + pair * padded + first;
        copy_bytes(sums, logarithms, SUMS_BYTES / 2, barrier);
        copy_bytes(sums + SUMS_BYTES / 2, logarithms + rows, SUMS_BYTES / 2, barrier);
    };
    auto wait = [&](int step) {
        barrier_wait(base + BARRIERS_AT + 8 * (step % STAGES), step / STAGES & 1);
    };
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) barrier_begin(base + BARRIERS_AT + 8 * stage, 1);
        publish_shared();
        fill(0);
        fill(1);
    }
    if (SHORT) {
        cluster_arrive();
#pragma unroll
        for (int step = 0; step < 2; step++) {
            const int row = threadIdx.x / 2, place = place_of(step) * BLOCK + row;
            const bool exists = place < a.queries;
            const i64 start = ((i64)group * a.queries + place) * a.output_stride + head * 64 +
                              threadIdx.x % 2 * 32;
            float sum = exists ? dot<4>(a.output + start, a.upstream + start) : 0.0f;
            sum += __shfl_xor_sync(0xffffffffu, sum, 1);
            const u32 to = base + SUMS_AT + step * SUMS_BYTES + row * 4;
            if (threadIdx.x % 2 == 0) {
                store_shared(to, in_base_two(exists ? a.logarithm[(i64)pair * a.queries + place]
                                                    : MINUS_INFINITY));
                store_shared(to + SUMS_BYTES / 2, sum);
            }
        }
    }
    __syncthreads();

    // The two keys of this thread.
    bool hidden[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int place = warpgroup * 64 + warp * 16 + lane / 4 + half * 8;
        hidden[half] = place >= key_count;
        if (a.key_mask && !hidden[half])
            hidden[half] = a.key_mask[(i64)group * a.keys + first_key + place] == 0.0f;
    }
    const bool hides = a.key_mask || key_count < BLOCK;

    const u64 keys_at = tile_descriptor(base + KEYS_AT);
    const u64 own_keys = tile_descriptor(base + KEYS_AT + warpgroup * 64 * ROW_BYTES);
    const u64 own_values = tile_descriptor(base + VALUES_AT + warpgroup * 64 * ROW_BYTES);
    const u64 stages_at = tile_descriptor(base + STAGES_AT);
    const float unit = a.scale * LOG2_E;
    // Scores, gradients of probabilities, gradients of queries, keys and values.
    float s[64], t[64], q[32], dk[32], dv[32];
    u32 p[32];
#pragma unroll
    for (int i = 0; i < 32; i++) dk[i] = dv[i] = 0.0f;

    auto multiply_scores = [&](int step) {
        wait(step);
        const u64 queries_at = stages_at + step % STAGES * (2 * BLOCK_BYTES >> 4);
        hold(s);
        products_begin();
#pragma unroll
        for (int k = 0; k < 4; k++)
            product<0, 0>(s, own_keys + k * STEP_ALONG, queries_at + k * STEP_ALONG, k > 0);
        products_commit();
    };
    // Passes on what a step adds to the gradient of its queries, from the place of this warpgroup's
    // gradients of scores, which have been multiplied.
    auto add_queries = [&](int step) {
        hold(q);
        const u32 staged = base + SCORES_AT + (step % 2 * 2 + warpgroup) * BLOCK_BYTES;
        if (SHORT && step == 1) {
            // These queries are the other block's: it keeps its own part of them in its first place
            // of the gradients of scores, and takes ours in a stage that is not used.
            cluster_wait();
            store_sums(address_in(base + STAGES_AT + (4 + warpgroup) * BLOCK_BYTES, key_block ^ 1),
                       q);
            cluster_arrive();
            return;
        }
        named_barrier(1 + warpgroup, 128);
        store_sums(staged, q);
        if (SHORT) return;
        publish_shared();
        __syncwarp();
        if (lane == 0)
            add_bytes(query_sums + (i64)(place_of(step) * 2 + warpgroup) * 4096 + warp * 1024,
                      staged + warp * 4096, 4096);
    };

    multiply_scores(0);
    for (int step = 0;; step++) {
        const int stage = step % STAGES;
        const u64 queries_at = stages_at + stage * (2 * BLOCK_BYTES >> 4);
        const u64 upstream_at = queries_at + (BLOCK_BYTES >> 4);
        const u32 sums = base + SUMS_AT + stage * SUMS_BYTES + lane % 4 * 8;
        hold(t);
        products_begin();
#pragma unroll
        for (int k = 0; k < 4; k++)
            product<0, 0>(t, own_values + k * STEP_ALONG, upstream_at + k * STEP_ALONG, k > 0);
        products_commit();
        products_wait<1>();
        hold(s);
#pragma unroll
        for (int j = 0; j < 16; j++) {
            float2 log = load_shared_pair(sums + 32 * j);
            s[4 * j] = power_of_two(fmaf(s[4 * j], unit, -log.x));
            s[4 * j + 1] = power_of_two(fmaf(s[4 * j + 1], unit, -log.y));
            s[4 * j + 2] = power_of_two(fmaf(s[4 * j + 2], unit, -log.x));
            s[4 * j + 3] = power_of_two(fmaf(s[4 * j + 3], unit, -log.y));
        }
        if (hides) {
#pragma unroll
            for (int i = 0; i < 64; i++) s[i] = hidden[i >> 1 & 1] ? 0.0f : s[i];
        }
#pragma unroll
        for (int i = 0; i < 32; i++) p[i] = to_bf16_pair(s[2 * i], s[2 * i + 1]);
        hold(dv);
        products_begin();
#pragma unroll
        for (int k = 0; k < 8; k++) product<1>(dv, p + 4 * k, upstream_at + k * STEP_ACROSS, 1);
        products_commit();
        products_wait<1>();
        hold(t);
        u32 d[32];
#pragma unroll
        for (int j = 0; j < 16; j++) {
            float2 sum = load_shared_pair(sums + BLOCK * 4 + 32 * j);
            d[2 * j] = to_bf16_pair(s[4 * j] * (t[4 * j] - sum.x),
                                    s[4 * j + 1] * (t[4 * j + 1] - sum.y));
            d[2 * j + 1] = to_bf16_pair(s[4 * j + 2] * (t[4 * j + 2] - sum.x),
                                        s[4 * j + 3] * (t[4 * j + 3] - sum.y));
        }
        const u32 scores_at = base + SCORES_AT + step % 2 * 2 * BLOCK_BYTES;
#pragma unroll
        for (int k = 0; k < 8; k++)
            store_blocks(scores_at + k / 4 * BLOCK_BYTES +
                             swizzled(warpgroup * 64 + warp * 16 + lane % 16,
                                      2 * (k % 4) + lane / 16),
                         d + 4 * k);
        hold(dk);
        products_begin();
#pragma unroll
        for (int k = 0; k < 8; k++) product<1>(dk, d + 4 * k, queries_at + k * STEP_ACROSS, 1);
        products_commit();
        // Everybody's gradients of scores are written, and everybody is done with the step before:
        // its queries, and what it staged for the additions.
        publish_shared();
        if (!SHORT && lane == 0) additions_read();
        __syncthreads();
        if (threadIdx.x == 0) fill(step + 2);
        __syncwarp();
        const u64 gradient_at = tile_descriptor(scores_at + warpgroup * BLOCK_BYTES);
        hold(q);
        products_begin();
#pragma unroll
        for (int k = 0; k < 8; k++)
            product<1, 1>(q, gradient_at + k * STEP_ACROSS, keys_at + k * STEP_ACROSS, k > 0);
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
    const u32 own_rows = warpgroup * 64 * ROW_BYTES;
    const i64 to = ((i64)group * a.keys + first_key + warpgroup * 64) * a.key_gradient_stride +
                   head * 64;
    write_rows(dk, a.scale, a.scale, base + KEYS_AT + own_rows, warp * 16, a.key_gradient + to,
               a.key_gradient_stride, key_count - warpgroup * 64);
    write_rows(dv, 1.0f, 1.0f, base + VALUES_AT + own_rows, warp * 16, a.value_gradient + to,
               a.key_gradient_stride, key_count - warpgroup * 64);
    if (SHORT) {
        cluster_wait();
        const u32 part = warpgroup * BLOCK_BYTES + warp * 4096 + lane * 16;
#pragma unroll
        for (int j = 0; j < 8; j++) {
            float4 kept = load_shared_floats(base + SCORES_AT + part + 512 * j);
            float4 come = load_shared_floats(base + STAGES_AT + 4 * BLOCK_BYTES + part + 512 * j);
            q[4 * j] = kept.x + come.x, q[4 * j + 1] = kept.y + come.y;
            q[4 * j + 2] = kept.z + come.z, q[4 * j + 3] = kept.w + come.w;
        }
        const int first = key_block * BLOCK + warpgroup * 64;
        write_rows(q, a.scale, a.scale, base + SCORES_AT + 2 * BLOCK_BYTES + own_rows, warp * 16,
                   a.query_gradient + ((i64)group * a.queries + first) * a.query_gradient_stride +
                       head * 64,
                   a.query_gradient_stride, a.queries - first);
        return;
    }
    // The last block of a head to add finishes its queries.
    if (lane == 0) additions_done();
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        store_shared(base + WORD_AT, atomicAdd((u32 *)a.scratch + rows * 66 + pair, 1u) ==
                                             (u32)key_blocks - 1
                                         ? 1.0f
                                         : 0.0f);
    __syncthreads();
    if (load_shared_pair(base + WORD_AT).x == 0.0f) return;
    __threadfence();
    finish_queries(a, query_sums, base + SCORES_AT, group, head);
}

extern "C" __global__ void __launch_bounds__(256, 1)
    attention_backward_hopper_64(const __grid_constant__ TensorMap query,
                                 const __grid_constant__ TensorMap key,
                                 const __grid_constant__ TensorMap value,
                                 const __grid_constant__ TensorMap upstream, float *scratch,
                                 bf16 *query_gradient, bf16 *key_gradient, bf16 *value_gradient,
                                 const float *key_mask, int groups, int heads, int queries,
                                 int keys, i64 query_gradient_stride, i64 key_gradient_stride,
                                 float scale) {
    Backward arguments = {nullptr,      nullptr,        nullptr,  scratch, query_gradient,
                          key_gradient, value_gradient, key_mask, groups,  heads,
                          queries,      keys,           0,        query_gradient_stride,
                          key_gradient_stride, scale};
    differentiate<false>(arguments, query, key, value, upstream);
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(256, 1)
    attention_backward_short_hopper_64(const __grid_constant__ TensorMap query,
                                       const __grid_constant__ TensorMap key,
                                       const __grid_constant__ TensorMap value,
                                       const __grid_constant__ TensorMap upstream_map,
                                       const bf16 *output, const bf16 *upstream,
                                       const float *logarithm, bf16 *query_gradient,
                                       bf16 *key_gradient, bf16 *value_gradient,
                                       const float *key_mask, int groups, int heads, int queries,
                                       int keys, i64 output_stride, i64 query_gradient_stride,
                                       i64 key_gradient_stride, float scale) {
    Backward arguments = {output,       upstream,       logarithm, nullptr, query_gradient,
                          key_gradient, value_gradient, key_mask,  groups,  heads,
                          queries,      keys,           output_stride, query_gradient_stride,
                          key_gradient_stride, scale};
    differentiate<true>(arguments, query, key, value, upstream_map);
}
