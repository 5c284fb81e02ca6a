// Attention on Hopper, forward: softmax(scale · q·kᵀ)·v for heads of 64 or 128 channels in bf16, with
// a positive scale. Compiled after prelude.cuh and hopper.cuh, which says what the tensor maps hold.
// All grids have one dimension.
//
// attention_forward_hopper_64
//   grid     groups · heads · ceil(queries / 128)
//   block    256 threads
//   shared   99,408 bytes, dynamic
// attention_forward_split_hopper_64, then attention_merge_hopper_64
//   the same for grids that would leave multiprocessors idle: from the block of rows `whole` on, the
//   keys of each are dealt out to `splits` blocks, whose results are merged
//   grid     whole + splits · rest, rest being the blocks of rows from there on; then 16 · rest
//   block    256 threads
//   shared   99,408 bytes, dynamic; then none
//   scratch  rest · splits · 128 · 65 floats: rows of 64 channels, then their logarithms
// attention_forward_short_hopper_64  up to 256 queries and 256 keys
//   grid     groups · heads
//   block    256 threads
//   shared   99,392 bytes, dynamic
// attention_forward_hopper_128
//   grid     groups · heads · ceil(queries / 192)
//   block    384 threads
//   shared   181,312 bytes, dynamic
//
// A block takes some query rows of one head: each of its warpgroups multiplies 64 of them. One
// thread copies keys and values into a ring of stages ahead of the products, so that nobody waits
// for device memory. Scores and probabilities stay in registers. The scores of a tile of keys are
// multiplied before the probabilities of the tile before meet their values, and the exponentials
// are taken while the latter run. With 64 channels two blocks share a multiprocessor, so that one
// multiplies while the other takes exponentials.

// Keys in a tile.
static const int TILE = 64;
static const int TILE_BYTES = TILE * ROW_BYTES;

// A block and its shared memory: queries, stages of keys and values, barriers of stages that have
// come, and of stages that every warp has used up. A stage is filled anew when its keys are BEHIND
// those whose scores are multiplied, so that the warpgroups need not keep the same pace. SHORT: a
// block has a whole head: the keys fit in the stages, the queries in two blocks of rows, the second
// of which has the first barrier of the latter kind to itself.
template <int CHANNELS, int WARPGROUPS, int STAGES, bool SHORT> struct ForwardPlan {
    static const int BEHIND = STAGES == 5 ? 3 : 2;
    // Tiles of 64 channels that make a head.
    static const int PANELS = CHANNELS / 64;
    static const int ROWS = WARPGROUPS * 64;
    static const int BLOCK_BYTES = ROWS * ROW_BYTES * PANELS;
    static const int QUERY_BYTES = (SHORT ? 2 : 1) * BLOCK_BYTES;
    static const int KEY_BYTES = TILE_BYTES * PANELS;
    static const int STAGE_BYTES = 2 * KEY_BYTES;
    static const int FILLED_AT = QUERY_BYTES + STAGES * STAGE_BYTES;
    static const int EMPTIED_AT = FILLED_AT + STAGES * 8;
};

// Probabilities are relative to the maximum of the first tile a row sees keys in; a new maximum is
// taken only when a sum of them exceeds this. The exponents of f32 and bf16 leave room far beyond
// it, and the relative precision is the same.
static const float LARGEST = 1.0e15f;

// The online softmax of the two rows a thread has a part of.
struct Softmax {
    // The maximum that the sums are relative to, in units of log2; infinite in a row that has not
    // seen a key yet, whose probabilities are zero then.
    float maximum[2];
    // This thread's part of the sums.
    float sum[2];
    // By how much the sums so far must be scaled, where `rescale`; the same in the whole warp.
    float factor[2];
    bool rescale;

    // Probabilities relative to the maximum, as bf16 pairs, and their sums. `unit` is
    // scale · log2 e.
    __device__ __forceinline__ void powers(const float (&s)[TILE / 2], u32 (&p)[TILE / 4],
                                           float unit, float (&total)[2]) {
        float part[2][2] = {{0.0f, 0.0f}, {0.0f, 0.0f}};
#pragma unroll
        for (int i = 0; i < TILE / 2; i += 2) {
            int half = i >> 1 & 1;
            float low = power_of_two(fmaf(s[i], unit, -maximum[half]));
            float high = power_of_two(fmaf(s[i + 1], unit, -maximum[half]));
            part[half][0] += low, part[half][1] += high;
            p[i / 2] = to_bf16_pair(low, high);
        }
        total[0] = part[0][0] + part[0][1], total[1] = part[1][0] + part[1][1];
    }
    // Takes a maximum that is no less than any of these scores.
    __device__ __forceinline__ void raise(const float (&s)[TILE / 2], float unit) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float peak = MINUS_INFINITY;
#pragma unroll
            for (int i = 2 * half; i < TILE / 2; i += 4) peak = fmaxf(peak, fmaxf(s[i], s[i + 1]));
            peak = fmaxf(peak, __shfl_xor_sync(0xffffffffu, peak, 1));
            peak = fmaxf(peak, __shfl_xor_sync(0xffffffffu, peak, 2)) * unit;
            const bool first = maximum[half] == PLUS_INFINITY;
            float next = first ? peak : fmaxf(maximum[half], peak);
            if (next == MINUS_INFINITY) next = PLUS_INFINITY;
            factor[half] = first ? 1.0f : power_of_two(maximum[half] - next);
            sum[half] *= factor[half];
            maximum[half] = next;
        }
    }
    // The first scores.
    __device__ __forceinline__ void begin(const float (&s)[TILE / 2], u32 (&p)[TILE / 4],
                                          float unit) {
        maximum[0] = maximum[1] = PLUS_INFINITY;
        sum[0] = sum[1] = 0.0f;
        raise(s, unit);
        powers(s, p, unit, sum);
    }
    // Further scores. Nearly always the maximum so far serves: that spares the search for a new
    // one, and the exponentials need not wait for it.
    __device__ __forceinline__ void proceed(const float (&s)[TILE / 2], u32 (&p)[TILE / 4],
                                            float unit) {
        float total[2];
        powers(s, p, unit, total);
        const bool serves = fmaxf(total[0], total[1]) < LARGEST &&
                            fmaxf(maximum[0], maximum[1]) < PLUS_INFINITY;
        rescale = __any_sync(0xffffffffu, !serves);
        if (rescale) {
            raise(s, unit);
            powers(s, p, unit, total);
        }
        sum[0] += total[0], sum[1] += total[1];
    }
};

struct Forward {
    bf16 *output;
    float *logarithm;
    const float *key_mask;
    int heads, queries, keys;
    i64 output_stride;
    float scale;
    // Of what is split: the results of parts of the keys, and of how many parts there are in all.
    float *scratch;
    int whole, splits, parts;
};

template <int CHANNELS, int WARPGROUPS, int STAGES, bool SHORT, bool SPLIT>
__device__ __forceinline__ void attend(const Forward &a, const TensorMap &query,
                                       const TensorMap &key, const TensorMap &value) {
    typedef ForwardPlan<CHANNELS, WARPGROUPS, STAGES, SHORT> Plan;
    const int ROWS = Plan::ROWS, PANELS = Plan::PANELS, BEHIND = Plan::BEHIND;
    const int queries = a.queries, keys = a.keys, heads = a.heads;
    extern __shared__ u8 dynamic[];
    const u32 base = (shared_address(dynamic) + 1023) & ~1023u;
    const int row_blocks = (queries + ROWS - 1) / ROWS;
    // The tiles of keys that this block reads, and its number among the parts, if it is one.
    int block = blockIdx.x, first = 0, tiles = (keys + TILE - 1) / TILE, part = -1;
    if (SPLIT && block >= a.whole) {
        part = block - a.whole;
        block = a.whole + part / a.splits;
        const int turn = part % a.splits, all = tiles;
        first = turn * all / a.splits;
        tiles = (turn + 1) * all / a.splits - first;
    }
    const int pair = SHORT ? block : block / row_blocks;
    int row_block = SHORT ? 0 : block % row_blocks;
    const int head = pair % heads, group = pair / heads;
    const int warpgroup = warpgroup_number(), warp = threadIdx.x % 128 / 32;
    const int lane = threadIdx.x % 32;

    // Copies a tile of keys and values, with the first the queries; one thread runs it.
    auto fill = [&](int tile) {
        if (tile >= tiles) return;
        const int stage = tile % STAGES;
        const u32 barrier = base + Plan::FILLED_AT + 8 * stage;
        const u32 to = base + Plan::QUERY_BYTES + stage * Plan::STAGE_BYTES;
        if (tile >= STAGES)
            barrier_wait(base + Plan::EMPTIED_AT + 8 * stage, (tile / STAGES + 1) & 1);
        barrier_expect(barrier, Plan::STAGE_BYTES + (tile == 0 ? Plan::BLOCK_BYTES : 0));
        if (tile == 0)
            copy_rows<ROWS, CHANNELS>(base, query, barrier, head, row_block * ROWS, group);
        const int from = (first + tile) * TILE;
        copy_rows<TILE, CHANNELS>(to, key, barrier, head, from, group);
        copy_rows<TILE, CHANNELS>(to + Plan::KEY_BYTES, value, barrier, head, from, group);
    };
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            barrier_begin(base + Plan::FILLED_AT + 8 * stage, 1);
            barrier_begin(base + Plan::EMPTIED_AT + 8 * stage, SHORT ? 1 : WARPGROUPS * 4);
        }
        publish_shared();
        for (int tile = 0; tile <= STAGES - (SHORT ? 1 : BEHIND); tile++) fill(tile);
        if (SHORT && row_blocks > 1) {
            barrier_expect(base + Plan::EMPTIED_AT, Plan::BLOCK_BYTES);
            copy_rows<ROWS, CHANNELS>(base + Plan::BLOCK_BYTES, query, base + Plan::EMPTIED_AT,
                                      head, ROWS, group);
        }
    }
    __syncthreads();

    u32 own = base + warpgroup * 64 * ROW_BYTES;
    u64 own_rows = tile_descriptor(own);
    const u64 stages_at = tile_descriptor(base + Plan::QUERY_BYTES);
    const float unit = a.scale * 1.4426950408889634f;
    const float *mask = a.key_mask ? a.key_mask + (i64)group * keys : nullptr;
    // Scores and output; probabilities of tiles with even and with odd numbers.
    float s[TILE / 2], o[PANELS][32];
    u32 even[TILE / 4], odd[TILE / 4];
    // Which keys of a tile are visible, a bit each.
    u32 visible[TILE / 32];
    Softmax softmax;

    auto hides = [&](int tile) { return mask || (first + tile + 1) * TILE > keys; };
    // Asks which keys are visible, before the scores are awaited.
    auto look = [&](int tile) {
        if (!hides(tile)) return;
#pragma unroll
        for (int half = 0; half < TILE / 32; half++) {
            int place = (first + tile) * TILE + half * 32 + lane;
            bool shows = place < keys && (!mask || mask[place] != 0.0f);
            visible[half] = __ballot_sync(0xffffffffu, shows);
        }
    };
    auto hide = [&](int tile) {
        if (!hides(tile)) return;
#pragma unroll
        for (int half = 0; half < TILE / 32; half++) {
            u32 bits = visible[half] >> 2 * (lane % 4);
#pragma unroll
            for (int i = 0; i < 16; i++)
                if (!(bits >> (i / 4 * 8 + i % 2) & 1)) s[16 * half + i] = MINUS_INFINITY;
        }
    };
    auto hold_output = [&]() {
#pragma unroll
        for (int panel = 0; panel < PANELS; panel++) hold(o[panel]);
    };
    auto multiply_scores = [&](int tile) {
        const int stage = tile % STAGES;
        barrier_wait(base + Plan::FILLED_AT + 8 * stage, tile / STAGES & 1);
        const u64 keys_at = stages_at + stage * (Plan::STAGE_BYTES >> 4);
        hold(s);
        hold_output();
        products_begin();
#pragma unroll
        for (int k = 0; k < 4 * PANELS; k++)
            product<0, 0>(s, own_rows + k / 4 * (ROWS * ROW_BYTES >> 4) + k % 4 * STEP_ALONG,
                          keys_at + k / 4 * (TILE_BYTES >> 4) + k % 4 * STEP_ALONG, k > 0);
        products_commit();
    };
    auto multiply_values = [&](int tile, const u32 (&p)[TILE / 4]) {
        const u64 values_at =
            stages_at + tile % STAGES * (Plan::STAGE_BYTES >> 4) + (Plan::KEY_BYTES >> 4);
#pragma unroll
        for (int panel = 0; panel < PANELS; panel++) {
#pragma unroll
            for (int k = 0; k < TILE / 16; k++)
                product<1>(o[panel], p + 4 * k,
                           values_at + panel * (TILE_BYTES >> 4) + k * STEP_ACROSS, 1);
        }
        products_commit();
    };
    auto take = [&](int tile, const u32 (&last)[TILE / 4], u32 (&next)[TILE / 4]) {
        multiply_scores(tile);
        multiply_values(tile - 1, last);
        if (!SHORT) {
            if (threadIdx.x == 0) fill(tile - BEHIND + STAGES);
            __syncwarp();
        }
        look(tile);
        products_wait<1>();
        hold(s);
        hide(tile);
        softmax.proceed(s, next, unit);
        // The branch comes after the exponentials: in one block with them, the compiler would wait
        // first. Both ways wait, with texts that differ so that they stay apart.
        if (softmax.rescale) {
            asm volatile("wgmma.wait_group.sync.aligned 0; // then scale" ::: "memory");
            hold_output();
#pragma unroll
            for (int i = 0; i < 32 * PANELS; i++) o[i / 32][i % 32] *= softmax.factor[i >> 1 & 1];
        } else {
            products_wait<0>();
            hold_output();
        }
        if (!SHORT && lane == 0)
            barrier_arrive(base + Plan::EMPTIED_AT + 8 * ((tile - 1) % STAGES));
    };
    auto finish = [&](int tile, const u32 (&last)[TILE / 4]) {
        hold_output();
        products_begin();
        multiply_values(tile, last);
        products_wait<0>();
        hold_output();
    };

#pragma unroll 1
    do {
#pragma unroll
        for (int i = 0; i < 32 * PANELS; i++) o[i / 32][i % 32] = 0.0f;
        multiply_scores(0);
        look(0);
        products_wait<0>();
        hold(s);
        hide(0);
        softmax.begin(s, even, unit);
        int tile = 1;
        for (; tile + 1 < tiles; tile += 2) {
            take(tile, even, odd);
            take(tile + 1, odd, even);
        }
        if (tile < tiles) {
            take(tile, even, odd);
            finish(tile, odd);
        } else {
            finish(tile - 1, even);
        }

        const int first_row = row_block * ROWS + warpgroup * 64, rows = queries - first_row;
        float inverse[2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float sum = softmax.sum[half];
            sum += __shfl_xor_sync(0xffffffffu, sum, 1);
            sum += __shfl_xor_sync(0xffffffffu, sum, 2);
            inverse[half] = sum > 0.0f ? 1.0f / sum : 0.0f;
            const int row = warp * 16 + lane / 4 + half * 8;
            const float logarithm =
                sum > 0.0f ? (softmax.maximum[half] + log2f(sum)) * 0.6931471805599453f
                           : MINUS_INFINITY;
            if (SPLIT && part >= 0) {
                const i64 place = (i64)part * ROWS + warpgroup * 64 + row;
                if (lane % 4 == 0) a.scratch[(i64)a.parts * ROWS * CHANNELS + place] = logarithm;
                float *to = a.scratch + place * CHANNELS + lane % 4 * 2;
#pragma unroll
                for (int i = 2 * half; i < 32; i += 4)
                    *(float2 *)(to + i / 4 * 8) =
                        make_float2(o[0][i] * inverse[half], o[0][i + 1] * inverse[half]);
            } else if (lane % 4 == 0 && row < rows) {
                a.logarithm[(i64)pair * queries + first_row + row] = logarithm;
            }
        }
        if (SPLIT && part >= 0) return;
        // The rows of the queries take the output on its way: nobody multiplies them any more.
        named_barrier(1 + warpgroup, 128);
#pragma unroll
        for (int panel = 0; panel < PANELS; panel++)
            write_rows(o[panel], inverse[0], inverse[1], own + panel * ROWS * ROW_BYTES, warp * 16,
                       a.output + ((i64)group * queries + first_row) * a.output_stride +
                           head * CHANNELS + panel * 64,
                       a.output_stride, rows);
        if (!SHORT || ++row_block == row_blocks) return;
        own += Plan::BLOCK_BYTES, own_rows += Plan::BLOCK_BYTES >> 4;
        barrier_wait(base + Plan::EMPTIED_AT, 0);
    } while (true);
}

#define ATTENTION_FORWARD(NAME, CHANNELS, WARPGROUPS, STAGES, SHORT, RESIDENT)                     \
    extern "C" __global__ void __launch_bounds__(WARPGROUPS * 128, RESIDENT)                       \
        NAME(const __grid_constant__ TensorMap query, const __grid_constant__ TensorMap key,       \
             const __grid_constant__ TensorMap value, bf16 *output, float *logarithm,              \
             const float *key_mask, int groups, int heads, int queries, int keys,                  \
             i64 output_stride, float scale) {                                                     \
        Forward arguments = {output, logarithm,     key_mask, heads,   queries,                    \
                             keys,   output_stride, scale,    nullptr, 0,       0, 0};             \
        attend<CHANNELS, WARPGROUPS, STAGES, SHORT, false>(arguments, query, key, value);          \
    }

ATTENTION_FORWARD(attention_forward_hopper_64, 64, 2, 5, false, 2)
ATTENTION_FORWARD(attention_forward_short_hopper_64, 64, 2, 4, true, 2)
ATTENTION_FORWARD(attention_forward_hopper_128, 128, 3, 4, false, 1)

extern "C" __global__ void __launch_bounds__(256, 2)
    attention_forward_split_hopper_64(const __grid_constant__ TensorMap query,
                                      const __grid_constant__ TensorMap key,
                                      const __grid_constant__ TensorMap value, bf16 *output,
                                      float *logarithm, const float *key_mask, int groups,
                                      int heads, int queries, int keys, i64 output_stride,
                                      float scale, float *scratch, int whole, int splits) {
    Forward arguments = {output, logarithm,     key_mask, heads,   queries, keys,
                         output_stride, scale, scratch,  whole,   splits,  (int)gridDim.x - whole};
    attend<64, 2, 5, false, true>(arguments, query, key, value);
}

// A warp merges what the parts of the keys gave to one row; each lane has two channels.
extern "C" __global__ void __launch_bounds__(256)
    attention_merge_hopper_64(const float *scratch, bf16 *output, float *logarithm, int heads,
                              int queries, i64 output_stride, int whole, int splits) {
    const int ROWS = 128, CHANNELS = 64, PER_BLOCK = 8;
    const int rest = blockIdx.x / (ROWS / PER_BLOCK), lane = threadIdx.x % 32;
    const int row = blockIdx.x % (ROWS / PER_BLOCK) * PER_BLOCK + threadIdx.x / 32;
    const int row_blocks = (queries + ROWS - 1) / ROWS, block = whole + rest;
    const int pair = block / row_blocks, place = block % row_blocks * ROWS + row;
    if (place >= queries) return;
    const i64 parts = (i64)(gridDim.x / (ROWS / PER_BLOCK)) * splits;
    const i64 first = (i64)rest * splits * ROWS + row;
    const float *logarithms = scratch + parts * ROWS * CHANNELS + first;
    float peak = MINUS_INFINITY;
    for (int part = 0; part < splits; part++) peak = fmaxf(peak, logarithms[part * ROWS]);
    float sum = 0.0f, low = 0.0f, high = 0.0f;
    if (peak > MINUS_INFINITY)
        for (int part = 0; part < splits; part++) {
            const float weight = __expf(logarithms[part * ROWS] - peak);
            const float2 given =
                *(const float2 *)(scratch + (first + part * ROWS) * CHANNELS + 2 * lane);
            sum += weight, low += weight * given.x, high += weight * given.y;
        }
    const float inverse = sum > 0.0f ? 1.0f / sum : 0.0f;
    const i64 target = ((i64)(pair / heads) * queries + place) * output_stride;
    *(u32 *)(output + target + pair % heads * CHANNELS + 2 * lane) =
        to_bf16_pair(low * inverse, high * inverse);
    if (lane == 0)
        logarithm[(i64)pair * queries + place] =
            sum > 0.0f ? peak + logf(sum) : MINUS_INFINITY;
}
