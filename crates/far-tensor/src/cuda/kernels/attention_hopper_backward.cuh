// What the backward kernels of attention on Hopper share, for heads of 64 channels in bf16.
//
// A block takes 128 keys and values with 128 queries at a time: its two warpgroups compute
// transposed scores, 64 keys × 128 queries each, so that probabilities and their gradients are left
// operands of the products for values and keys without leaving the registers. The gradient of the
// queries needs them the other way around and of all keys: it takes them from shared memory.

static const int BLOCK = 128;
static const int BLOCK_BYTES = BLOCK * ROW_BYTES;
static const float LOG2_E = 1.4426950408889634f;

// The logarithms of 128 queries and their sums of upstream · output, in shared memory.
static const int SUMS_BYTES = 2 * BLOCK * 4;
// Gradients of the scores of 128 keys and 128 queries: [128 keys, 64 queries] for each half.
static const int SCORES_BYTES = 2 * BLOCK_BYTES;

// Where the gradients go, and what all keys and queries share.
struct Backward {
    bf16 *query_gradient, *key_gradient, *value_gradient;
    const float *key_mask;
    int queries, keys;
    i64 query_gradient_stride, key_gradient_stride;
    float scale;
};

// Where a thread stands: its warpgroup has 64 keys, and its warp 16 of them.
struct Place {
    int warpgroup, warp, lane;

    __device__ __forceinline__ Place()
        : warpgroup(warpgroup_number()), warp(threadIdx.x % 128 / 32), lane(threadIdx.x % 32) {}
};

// Which of the two keys of a thread are hidden.
struct Hidden {
    bool keys[2];
    // Whether any key of the block may be.
    bool any;

    __device__ __forceinline__ Hidden(const Backward &a, const Place &at, int group,
                                      int first_key) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int key = first_key + at.warpgroup * 64 + at.warp * 16 + at.lane / 4 + half * 8;
            keys[half] = key >= a.keys;
            if (a.key_mask && !keys[half])
                keys[half] = a.key_mask[(i64)group * a.keys + key] == 0.0f;
        }
        any = a.key_mask || first_key + BLOCK > a.keys;
    }
};

// Turns scores into probabilities; `sums` is the address of the logarithms.
__device__ __forceinline__ void take_powers(float (&s)[64], u32 (&p)[32], u32 sums, float unit,
                                            const Hidden &hidden, int lane) {
#pragma unroll
    for (int j = 0; j < 16; j++) {
        float2 log = load_shared_pair(sums + lane % 4 * 8 + 32 * j);
        s[4 * j] = power_of_two(fmaf(s[4 * j], unit, -log.x));
        s[4 * j + 1] = power_of_two(fmaf(s[4 * j + 1], unit, -log.y));
        s[4 * j + 2] = power_of_two(fmaf(s[4 * j + 2], unit, -log.x));
        s[4 * j + 3] = power_of_two(fmaf(s[4 * j + 3], unit, -log.y));
    }
    if (hidden.any) {
#pragma unroll
        for (int i = 0; i < 64; i++) s[i] = hidden.keys[i >> 1 & 1] ? 0.0f : s[i];
    }
#pragma unroll
    for (int i = 0; i < 32; i++) p[i] = to_bf16_pair(s[2 * i], s[2 * i + 1]);
}

// The gradients of scores from probabilities and their gradients.
__device__ __forceinline__ void take_gradients(const float (&s)[64], const float (&t)[64],
                                               u32 (&d)[32], u32 sums, int lane) {
#pragma unroll
    for (int j = 0; j < 16; j++) {
        float2 sum = load_shared_pair(sums + SUMS_BYTES / 2 + lane % 4 * 8 + 32 * j);
        d[2 * j] = to_bf16_pair(s[4 * j] * (t[4 * j] - sum.x),
                                s[4 * j + 1] * (t[4 * j + 1] - sum.y));
        d[2 * j + 1] = to_bf16_pair(s[4 * j + 2] * (t[4 * j + 2] - sum.x),
                                    s[4 * j + 3] * (t[4 * j + 3] - sum.y));
    }
}

// Writes them where the products for the queries take them from.
__device__ __forceinline__ void store_gradients(u32 scores, const u32 (&d)[32], const Place &at) {
    int row = at.warpgroup * 64 + at.warp * 16 + at.lane % 16;
#pragma unroll
    for (int k = 0; k < 8; k++)
        store_blocks(scores + k / 4 * BLOCK_BYTES + swizzled(row, 2 * (k % 4) + at.lane / 16),
                     d + 4 * k);
}

// Products of 64 own rows with 128 others, over their channels.
__device__ __forceinline__ void multiply_along(float (&to)[64], u64 own, u64 other) {
    hold(to);
    products_begin();
#pragma unroll
    for (int k = 0; k < 4; k++)
        product<0, 0>(to, own + k * STEP_ALONG, other + k * STEP_ALONG, k > 0);
    products_commit();
}
// Adds products of 64 keys × 128 queries in registers with the rows of the queries.
__device__ __forceinline__ void multiply_across(float (&to)[32], const u32 (&own)[32], u64 other) {
    hold(to);
    products_begin();
#pragma unroll
    for (int k = 0; k < 8; k++) product<1>(to, own + 4 * k, other + k * STEP_ACROSS, 1);
    products_commit();
}
// Products of a warpgroup's half of the queries' gradients of scores with 128 keys.
__device__ __forceinline__ void multiply_keys(float (&to)[32], u64 scores, u64 keys, bool add) {
#pragma unroll
    for (int k = 0; k < 8; k++)
        product<1, 1>(to, scores + k * STEP_ACROSS, keys + k * STEP_ACROSS, add || k > 0);
}

// Writes the gradients of a warpgroup's keys and values by way of its rows of two tiles.
__device__ __forceinline__ void write_keys(const Backward &a, float (&dk)[32], float (&dv)[32],
                                           u32 key_tile, u32 value_tile, const Place &at,
                                           int group, int head, int first_key) {
    const u32 own = at.warpgroup * 64 * ROW_BYTES;
    const int first = first_key + at.warpgroup * 64;
    const i64 to = ((i64)group * a.keys + first) * a.key_gradient_stride + head * 64;
    write_rows(dk, a.scale, a.scale, key_tile + own, at.warp * 16, a.key_gradient + to,
               a.key_gradient_stride, a.keys - first);
    write_rows(dv, 1.0f, 1.0f, value_tile + own, at.warp * 16, a.value_gradient + to,
               a.key_gradient_stride, a.keys - first);
}
// Writes the gradients of 64 queries by way of a tile.
__device__ __forceinline__ void write_queries(const Backward &a, float (&q)[32], u32 tile,
                                              const Place &at, int group, int head, int first) {
    write_rows(q, a.scale, a.scale, tile, at.warp * 16,
               a.query_gradient + ((i64)group * a.queries + first) * a.query_gradient_stride +
                   head * 64,
               a.query_gradient_stride, a.queries - first);
}

// A logarithm in base 2, or one that makes every probability zero for a row that sees no key.
__device__ __forceinline__ float in_base_two(float logarithm) {
    return logarithm == MINUS_INFINITY ? PLUS_INFINITY : logarithm * LOG2_E;
}

// The sum of products of 8 elements.
__device__ __forceinline__ float dot(uint4 left, uint4 right) {
    u32 x[4] = {left.x, left.y, left.z, left.w}, y[4] = {right.x, right.y, right.z, right.w};
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        sum += __uint_as_float(x[i] << 16) * __uint_as_float(y[i] << 16);
        sum += __uint_as_float(x[i] & 0xffff0000u) * __uint_as_float(y[i] & 0xffff0000u);
    }
    return sum;
}
