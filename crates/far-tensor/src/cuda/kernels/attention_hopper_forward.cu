// Attention on Hopper, forward: softmax(scale · q·kᵀ)·v for heads of 64 channels in bf16. Compiled
// after prelude.cuh and hopper.cuh, which says what the tensor maps hold.
//
// attention_forward_hopper_64
//   grid     groups · heads · ceil(queries / 128), one dimension
//   block    256 threads
//   shared   99,408 bytes, dynamic
//   scratch  none
//
// A block takes 128 query rows of one head: each of its two warpgroups multiplies 64 of them. One
// thread copies keys and values into a ring of stages ahead of the products, so that nobody waits
// for device memory. Scores and probabilities stay in registers. The scores of a tile of keys are
// multiplied before the probabilities of the tile before meet their values, and the exponentials
// are taken while the latter run. Two blocks share a multiprocessor, so that one multiplies while
// the other takes exponentials.

// Keys in a tile.
static const int TILE = 64;
static const int TILE_BYTES = TILE * ROW_BYTES;
// Query rows of a block.
static const int ROWS = 128;
// Stages of a tile of keys and one of values. A stage is filled anew when its tile is BEHIND that
// whose scores are multiplied, so that the warpgroups need not keep the same pace.
static const int STAGES = 5;
static const int BEHIND = 3;

// Shared memory of a block: queries, stages, barriers of stages that have come, and of stages that
// every warp has used up.
static const int STAGES_AT = ROWS * ROW_BYTES;
static const int FILLED_AT = STAGES_AT + STAGES * 2 * TILE_BYTES;
static const int EMPTIED_AT = FILLED_AT + STAGES * 8;

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

extern "C" __global__ void __launch_bounds__(256, 2)
    attention_forward_hopper_64(const __grid_constant__ TensorMap query,
                                const __grid_constant__ TensorMap key,
                                const __grid_constant__ TensorMap value, bf16 *output,
                                float *logarithm, const float *key_mask, int groups, int heads,
                                int queries, int keys, i64 output_stride, float scale) {
    extern __shared__ u8 dynamic[];
    const u32 base = (shared_address(dynamic) + 1023) & ~1023u;
    const int row_blocks = (queries + ROWS - 1) / ROWS, tiles = (keys + TILE - 1) / TILE;
    const int row_block = blockIdx.x % row_blocks, pair = blockIdx.x / row_blocks;
    const int head = pair % heads, group = pair / heads;
    const int warpgroup = warpgroup_number(), warp = threadIdx.x % 128 / 32;
    const int lane = threadIdx.x % 32;

    // Copies a tile of keys and values, with the first the queries; one thread runs it.
    auto fill = [&](int tile) {
        if (tile >= tiles) return;
        const int stage = tile % STAGES;
        const u32 barrier = base + FILLED_AT + 8 * stage;
        const u32 to = base + STAGES_AT + stage * 2 * TILE_BYTES;
        if (tile >= STAGES) barrier_wait(base + EMPTIED_AT + 8 * stage, (tile / STAGES + 1) & 1);
        barrier_expect(barrier, 2 * TILE_BYTES + (tile == 0 ? ROWS * ROW_BYTES : 0));
        if (tile == 0) copy_rows<ROWS>(base, query, barrier, head, row_block * ROWS, group);
        copy_rows<TILE>(to, key, barrier, head, tile * TILE, group);
        copy_rows<TILE>(to + TILE_BYTES, value, barrier, head, tile * TILE, group);
    };
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            barrier_begin(base + FILLED_AT + 8 * stage, 1);
            barrier_begin(base + EMPTIED_AT + 8 * stage, 8);
        }
        publish_shared();
        for (int tile = 0; tile <= STAGES - BEHIND; tile++) fill(tile);
    }
    __syncthreads();

    const u32 own = base + warpgroup * 64 * ROW_BYTES;
    const u64 own_rows = tile_descriptor(own), stages_at = tile_descriptor(base + STAGES_AT);
    const float unit = scale * 1.4426950408889634f;
    const float *mask = key_mask ? key_mask + (i64)group * keys : nullptr;
    // Scores and output; probabilities of tiles with even and with odd numbers.
    float s[TILE / 2], o[32];
    u32 even[TILE / 4], odd[TILE / 4];
    // Which keys of a tile are visible, a bit each.
    u32 visible[TILE / 32];
    Softmax softmax;

    auto hides = [&](int tile) { return mask || (tile + 1) * TILE > keys; };
    // Asks which keys are visible, before the scores are awaited.
    auto look = [&](int tile) {
        if (!hides(tile)) return;
#pragma unroll
        for (int part = 0; part < TILE / 32; part++) {
            int place = tile * TILE + part * 32 + lane;
            bool shows = place < keys && (!mask || mask[place] != 0.0f);
            visible[part] = __ballot_sync(0xffffffffu, shows);
        }
    };
    auto hide = [&](int tile) {
        if (!hides(tile)) return;
#pragma unroll
        for (int part = 0; part < TILE / 32; part++) {
            u32 bits = visible[part] >> 2 * (lane % 4);
#pragma unroll
            for (int i = 0; i < 16; i++)
                if (!(bits >> (i / 4 * 8 + i % 2) & 1)) s[16 * part + i] = MINUS_INFINITY;
        }
    };
    auto multiply_scores = [&](int tile) {
        const int stage = tile % STAGES;
        barrier_wait(base + FILLED_AT + 8 * stage, tile / STAGES & 1);
        const u64 keys_at = stages_at + stage * (2 * TILE_BYTES >> 4);
        hold(s);
        hold(o);
        products_begin();
#pragma unroll
        for (int k = 0; k < 4; k++)
            product<0, 0>(s, own_rows + k * STEP_ALONG, keys_at + k * STEP_ALONG, k > 0);
        products_commit();
    };
    auto multiply_values = [&](int tile, const u32 (&p)[TILE / 4]) {
        const u64 values_at =
            stages_at + tile % STAGES * (2 * TILE_BYTES >> 4) + (TILE_BYTES >> 4);
#pragma unroll
        for (int k = 0; k < TILE / 16; k++)
            product<1>(o, p + 4 * k, values_at + k * STEP_ACROSS, 1);
        products_commit();
    };
    auto take = [&](int tile, const u32 (&last)[TILE / 4], u32 (&next)[TILE / 4]) {
        multiply_scores(tile);
        multiply_values(tile - 1, last);
        if (threadIdx.x == 0) fill(tile - BEHIND + STAGES);
        __syncwarp();
        look(tile);
        products_wait<1>();
        hold(s);
        hide(tile);
        softmax.proceed(s, next, unit);
        // The branch comes after the exponentials: in one block with them, the compiler would wait
        // first. Both ways wait, with texts that differ so that they stay apart.
        if (softmax.rescale) {
            asm volatile("wgmma.wait_group.sync.aligned 0; // then scale" ::: "memory");
            hold(o);
#pragma unroll
            for (int i = 0; i < 32; i++) o[i] *= softmax.factor[i >> 1 & 1];
        } else {
            products_wait<0>();
            hold(o);
        }
        if (lane == 0) barrier_arrive(base + EMPTIED_AT + 8 * ((tile - 1) % STAGES));
    };
    auto finish = [&](int tile, const u32 (&last)[TILE / 4]) {
        hold(o);
        products_begin();
        multiply_values(tile, last);
        products_wait<0>();
        hold(o);
    };

#pragma unroll
    for (int i = 0; i < 32; i++) o[i] = 0.0f;
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
        if (lane % 4 == 0 && row < rows)
            logarithm[(i64)pair * queries + first_row + row] =
                sum > 0.0f ? (softmax.maximum[half] + log2f(sum)) * 0.6931471805599453f
                           : MINUS_INFINITY;
    }
    // The rows of the queries take the output on its way: nobody multiplies them any more.
    named_barrier(1 + warpgroup, 128);
    write_rows(o, inverse[0], inverse[1], own, warp * 16,
               output + ((i64)group * queries + first_row) * output_stride + head * 64,
               output_stride, rows);
}
