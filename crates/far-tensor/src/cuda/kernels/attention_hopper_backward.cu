// Attention on Hopper, backward, for heads of 64 channels in bf16: three kernels, in this order.
//
// attention_prepare_hopper_64   Σ upstream · output of every row, logarithms in base 2, zeros
//   grid     ceil(groups · padded · heads · 8 / 256), one dimension
//   block    256 threads, no dynamic shared memory
// attention_backward_hopper_64  gradients of keys and values; sums of the queries' gradient
//   grid     groups · heads · ceil(keys / 128), one dimension
//   block    256 threads
//   shared   200,704 bytes, dynamic
// attention_finish_hopper_64    the gradient of the queries from its sums
//   grid     groups · heads · padded / 64, one dimension
//   block    128 threads, no dynamic shared memory
//
// padded is `queries` rounded up to a multiple of 128. Scratch for all three, which nobody needs to
// zero: groups · heads · padded · 66 floats: the sums of the queries' gradient (64 each, in an order
// of their own), the logarithms, the sums of upstream · output. Its address is a multiple of 16.
//
// A block keeps 128 keys and values, and takes the queries 128 at a time: its two warpgroups
// compute transposed scores, 64 keys × 128 queries each, so that probabilities and their gradients
// are left operands of the products for values and keys without leaving the registers. The
// gradient of the queries needs them the other way around and of all keys: it goes through shared
// memory, and is added to device memory by atomics, 16 bytes at a time. The order of these
// additions changes from run to run, hence the last bits of the queries' gradient: computing them
// in a kernel of their own would repeat two of the five products.

static const int BLOCK = 128;
static const int BLOCK_BYTES = BLOCK * ROW_BYTES;

// Shared memory of a block of attention_backward.
static const int KEYS_AT = 0;
static const int VALUES_AT = BLOCK_BYTES;
// Gradients of the scores, [128 keys, 64 queries] for each half of the queries; two of them, so
// that one can be written while the other is multiplied.
static const int SCORES_AT = 2 * BLOCK_BYTES;
// Three stages of 128 queries and their upstream gradient.
static const int STAGES = 3;
static const int STAGES_AT = 6 * BLOCK_BYTES;
// Three stages of the logarithms of 128 queries and their sums.
static const int SUMS_AT = STAGES_AT + STAGES * 2 * BLOCK_BYTES;
static const int SUMS_BYTES = 2 * BLOCK * 4;

__device__ __forceinline__ i64 round_up(int queries) { return (queries + 127) / 128 * 128; }

extern "C" __global__ void __launch_bounds__(256)
    attention_prepare_hopper_64(const bf16 *output, const bf16 *upstream, const float *logarithm,
                                float *scratch, int groups, int heads, int queries,
                                i64 output_stride) {
    const i64 padded = round_up(queries), rows = groups * padded * heads;
    i64 thread = (i64)blockIdx.x * 256 + threadIdx.x;
    i64 row = thread / 8;
    bool exists = row < rows;
    int head = row % heads, place = row / heads % padded;
    i64 group = row / heads / padded;
    float sum = 0.0f;
    if (exists && place < queries) {
        i64 start = (group * queries + place) * output_stride + head * 64 + thread % 8 * 8;
        float left[8], right[8];
        load_vector(output + start, left);
        load_vector(upstream + start, right);
#pragma unroll
        for (int i = 0; i < 8; i++) sum += left[i] * right[i];
    }
#pragma unroll
    for (int offset = 4; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    if (!exists) return;
    float4 *zeros = (float4 *)scratch + thread * 2;
    zeros[0] = zeros[1] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (thread % 8 != 0) return;
    i64 pair = group * heads + head;
    // Rows that do not exist, and rows that see no key, get probabilities of zero.
    float log = place < queries ? logarithm[pair * queries + place] : MINUS_INFINITY;
    scratch[rows * 64 + pair * padded + place] =
        log == MINUS_INFINITY ? PLUS_INFINITY : log * 1.4426950408889634f;
    scratch[rows * 65 + pair * padded + place] = sum;
}

extern "C" __global__ void __launch_bounds__(256, 1)
    attention_backward_hopper_64(const bf16 *query, const bf16 *key, const bf16 *value,
                                 const bf16 *upstream, float *scratch, bf16 *key_gradient,
                                 bf16 *value_gradient, const float *key_mask, int groups,
                                 int heads, int queries, int keys, i64 query_stride,
                                 i64 key_stride, i64 output_stride, i64 key_gradient_stride,
                                 float scale) {
    extern __shared__ u8 dynamic[];
    const u32 base = (shared_address(dynamic) + 1023) & ~1023u;
    const int key_blocks = (keys + BLOCK - 1) / BLOCK, tiles = (queries + BLOCK - 1) / BLOCK;
    const int key_block = blockIdx.x % key_blocks, pair = blockIdx.x / key_blocks;
    const int head = pair % heads, group = pair / heads;
    const int warpgroup = threadIdx.x / 128, warp = threadIdx.x % 128 / 32;
    const int lane = threadIdx.x % 32;
    const int first_key = key_block * BLOCK, key_count = keys - first_key;
    const i64 padded = (i64)tiles * BLOCK, rows = (i64)groups * heads * padded;
    const i64 keys_start = ((i64)group * keys + first_key) * key_stride + head * 64;
    const float *logarithms = scratch + rows * 64 + pair * padded;
    query += (i64)group * queries * query_stride + head * 64;
    upstream += (i64)group * queries * output_stride + head * 64;
    scratch += (pair * padded + warpgroup * 64) * 64 + warp * 1024 + lane * 4;

    // Blocks of one head begin at different queries, so that their atomics do not meet.
    auto place_of = [&](int step) { return (step + key_block) % tiles; };
    auto fill = [&](int step) {
        if (step < tiles) {
            int first = place_of(step) * BLOCK, stage = step % STAGES;
            u32 to = base + STAGES_AT + stage * 2 * BLOCK_BYTES;
            copy_tile<BLOCK, 256>(to, query + first * query_stride, query_stride, queries - first,
                                  threadIdx.x);
            copy_tile<BLOCK, 256>(to + BLOCK_BYTES, upstream + first * output_stride,
                                  output_stride, queries - first, threadIdx.x);
            if (threadIdx.x < 64) {
                i64 half = threadIdx.x / 32 ? rows : 0;
                copy_chunk(base + SUMS_AT + stage * SUMS_BYTES + threadIdx.x * 16,
                           logarithms + half + first + lane * 4, true);
            }
        }
        copies_commit();
    };
    copy_tile<BLOCK, 256>(base + KEYS_AT, key + keys_start, key_stride, key_count, threadIdx.x);
    copy_tile<BLOCK, 256>(base + VALUES_AT, value + keys_start, key_stride, key_count,
                          threadIdx.x);
    fill(0);
    fill(1);

    // The two keys of this thread.
    const int own_row = warpgroup * 64 + warp * 16 + lane / 4;
    bool hidden[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int place = own_row + half * 8;
        hidden[half] = place >= key_count;
        if (key_mask && !hidden[half])
            hidden[half] = key_mask[(i64)group * keys + first_key + place] == 0.0f;
    }
    const bool hides = key_mask || key_count < BLOCK;

    const u64 keys_at = tile_descriptor(base + KEYS_AT);
    const u64 own_keys = tile_descriptor(base + KEYS_AT + warpgroup * 64 * ROW_BYTES);
    const u64 own_values = tile_descriptor(base + VALUES_AT + warpgroup * 64 * ROW_BYTES);
    const u64 stages_at = tile_descriptor(base + STAGES_AT);
    const float unit = scale * 1.4426950408889634f;
    float s[64], t[64], q[32], dk[32], dv[32];
    u32 p[32];
#pragma unroll
    for (int i = 0; i < 32; i++) dk[i] = dv[i] = 0.0f;

    auto add_queries = [&](int step) {
        hold(q);
        float *sum = scratch + place_of(step) * (i64)(BLOCK * 64);
#pragma unroll
        for (int j = 0; j < 8; j++)
            asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(sum + j * 128),
                         "f"(q[4 * j]), "f"(q[4 * j + 1]), "f"(q[4 * j + 2]), "f"(q[4 * j + 3])
                         : "memory");
    };

    copies_wait<1>();
    publish_shared();
    __syncthreads();
    products_begin();
#pragma unroll
    for (int k = 0; k < 4; k++)
        product<0, 0>(s, own_keys + k * STEP_ALONG, stages_at + k * STEP_ALONG, k > 0);
    products_commit();
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
        const u32 scores_at = SCORES_AT + step % 2 * 2 * BLOCK_BYTES;
#pragma unroll
        for (int k = 0; k < 8; k++)
            store_blocks(base + scores_at + k / 4 * BLOCK_BYTES +
                             swizzled(warpgroup * 64 + warp * 16 + lane % 16,
                                      2 * (k % 4) + lane / 16),
                         d + 4 * k);
        hold(dk);
        products_begin();
#pragma unroll
        for (int k = 0; k < 8; k++) product<1>(dk, d + 4 * k, queries_at + k * STEP_ACROSS, 1);
        products_commit();
        // The next queries have come; everybody's gradients of scores are written.
        copies_wait<0>();
        publish_shared();
        __syncthreads();
        fill(step + 2);
        const u64 gradient_at = tile_descriptor(base + scores_at + warpgroup * BLOCK_BYTES);
        hold(q);
        products_begin();
#pragma unroll
        for (int k = 0; k < 8; k++)
            product<1, 1>(q, gradient_at + k * STEP_ACROSS, keys_at + k * STEP_ACROSS, k > 0);
        products_commit();
        if (step + 1 == tiles) break;
        const u64 next = stages_at + (step + 1) % STAGES * (2 * BLOCK_BYTES >> 4);
        hold(s);
        products_begin();
#pragma unroll
        for (int k = 0; k < 4; k++)
            product<0, 0>(s, own_keys + k * STEP_ALONG, next + k * STEP_ALONG, k > 0);
        products_commit();
        products_wait<0>();
        add_queries(step);
    }
    products_wait<0>();
    add_queries(tiles - 1);
    hold(dk);
    hold(dv);
    // The keys and values are not read any more: their rows take the gradients on their way out.
    __syncthreads();
    const int count = key_count - warpgroup * 64;
    const i64 to = ((i64)group * keys + first_key + warpgroup * 64) * key_gradient_stride + head * 64;
    write_rows(dk, scale, scale, base + KEYS_AT + warpgroup * 64 * ROW_BYTES, warp * 16,
               key_gradient + to, key_gradient_stride, count);
    write_rows(dv, 1.0f, 1.0f, base + VALUES_AT + warpgroup * 64 * ROW_BYTES, warp * 16,
               value_gradient + to, key_gradient_stride, count);
}

extern "C" __global__ void __launch_bounds__(128)
    attention_finish_hopper_64(const float *scratch, bf16 *query_gradient, int groups, int heads,
                               int queries, i64 query_gradient_stride, float scale) {
    __shared__ __align__(1024) u8 tile[64 * ROW_BYTES];
    const int tiles = (int)(round_up(queries) / 64), pair = blockIdx.x / tiles;
    const int first = blockIdx.x % tiles * 64, head = pair % heads, group = pair / heads;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const float4 *from = (const float4 *)(scratch + (i64)blockIdx.x * 4096 + warp * 1024) + lane;
    float q[32];
#pragma unroll
    for (int j = 0; j < 8; j++) {
        float4 sum = from[j * 32];
        q[4 * j] = sum.x, q[4 * j + 1] = sum.y, q[4 * j + 2] = sum.z, q[4 * j + 3] = sum.w;
    }
    write_rows(q, scale, scale, shared_address(tile), warp * 16,
               query_gradient + ((i64)group * queries + first) * query_gradient_stride + head * 64,
               query_gradient_stride, queries - first);
}
