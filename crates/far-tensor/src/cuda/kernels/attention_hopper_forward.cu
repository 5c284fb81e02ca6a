// Attention on Hopper, forward: softmax(scale · q·kᵀ)·v for heads of 64 channels in bf16.
//
// attention_forward_hopper_64
//   grid     groups · heads · ceil(queries / 128), one dimension
//   block    256 threads
//   shared   100,688 bytes, dynamic
//   scratch  none
//
// A block takes 128 query rows of one head: each of its two warpgroups multiplies 64 of them. All
// copy keys and values into a ring of tiles ahead of the products, so that nobody waits for device
// memory. Scores and probabilities stay in registers. The scores of the next tile are
// multiplied before this tile's probabilities meet their values, and the exponentials are taken
// while the latter run.

struct Forward {
    const bf16 *query, *key, *value;
    bf16 *output;
    float *logarithm;
    const float *key_mask;
    int groups, heads, queries, keys;
    i64 query_stride, key_stride, output_stride;
    float scale;
};

// How much log2 of a probability may exceed zero before the sums are scaled down anew. Below it
// the old maximum serves: bf16 keeps its relative precision, and 256 times the largest sum fits.
static const float SLACK = 8.0f;
// A stage is filled anew when its tile is this far behind the one whose scores are multiplied, so
// that warpgroups need not keep the same pace.
static const int BEHIND = 3;


// A block of `CONSUMERS` warpgroups and its shared memory: the queries, then `STAGES` stages of a tile
// of keys and one of values, then a bias per key (0, or minus infinity where hidden), barriers.
template <int CONSUMERS, int TILE, int STAGES> struct ForwardPlan {
    static const int rows = CONSUMERS * 64;
    static const int threads = CONSUMERS * 128;
    static const int tile_bytes = TILE * ROW_BYTES;
    static const int ring = rows * ROW_BYTES;
    static const int bias = ring + STAGES * 2 * tile_bytes;
    static const int filled = bias + STAGES * TILE * 4;
    static const int emptied = filled + STAGES * 8;
    // The first tile begins at a multiple of 1,024, which the allocation may not.
    static const int shared = emptied + STAGES * 8 + 1024;
};

// The ring of stages that all threads fill together and every warpgroup empties at its own pace.
template <int CONSUMERS, int TILE, int STAGES> struct Ring {
    typedef ForwardPlan<CONSUMERS, TILE, STAGES> Plan;
    u32 base;
    const bf16 *key, *value;
    const float *mask;
    i64 stride;
    int keys;

    // Begins to copy a tile; every thread commits one group, of no copies behind the last tile.
    __device__ __forceinline__ void fill(int tile) {
        int first = tile * TILE, stage = tile % STAGES;
        if (first < keys) {
            // The stage must be empty in every warpgroup: of a tile that is long done.
            if (tile >= STAGES)
                barrier_wait(base + Plan::emptied + 8 * stage, (tile / STAGES + 1) & 1);
            u32 to = base + Plan::ring + stage * 2 * Plan::tile_bytes;
            i64 start = first * stride;
            copy_tile<TILE, Plan::threads>(to, key + start, stride, keys - first, threadIdx.x);
            copy_tile<TILE, Plan::threads>(to + Plan::tile_bytes, value + start, stride,
                                           keys - first, threadIdx.x);
            if (hides(tile) && threadIdx.x < TILE) {
                int place = first + threadIdx.x;
                bool visible = place < keys && (!mask || mask[place] != 0.0f);
                store_shared(base + Plan::bias + (stage * TILE + threadIdx.x) * 4,
                             visible ? 0.0f : MINUS_INFINITY);
            }
        }
        copies_commit();
    }
    // Tells everybody that this warp's part of a tile has come; all but the last PENDING groups
    // have.
    template <int PENDING> __device__ __forceinline__ void announce(int tile) {
        copies_wait<PENDING>();
        publish_shared();
        __syncwarp();
        if (threadIdx.x % 32 == 0) barrier_arrive(base + Plan::filled + 8 * (tile % STAGES));
    }
    __device__ __forceinline__ void wait(int tile) {
        barrier_wait(base + Plan::filled + 8 * (tile % STAGES), (tile / STAGES) & 1);
    }
    __device__ __forceinline__ void release(int tile) {
        __syncwarp();
        if (threadIdx.x % 32 == 0) barrier_arrive(base + Plan::emptied + 8 * (tile % STAGES));
    }
    // Whether some keys of the tile may be hidden.
    __device__ __forceinline__ bool hides(int tile) { return mask || (tile + 1) * TILE > keys; }
};

// The online softmax of the two rows a thread has a part of.
struct Softmax {
    // The maximum that the sums are relative to, and this thread's part of the sums.
    float maximum[2], sum[2];
    // By how much the sums so far must be scaled, where `rescale`; the same in the whole warp.
    float factor[2];
    bool rescale;

    // Turns scores into probabilities relative to the maximum. `unit` is scale · log2 e.
    template <int COUNT> __device__ __forceinline__ void apply(float (&s)[COUNT], float unit) {
        float peak[2][2] = {{s[0], s[1]}, {s[2], s[3]}};
#pragma unroll
        for (int i = 4; i < COUNT; i++)
            peak[i >> 1 & 1][i & 1] = fmaxf(peak[i >> 1 & 1][i & 1], s[i]);
        bool grows = false;
        float top[2], offset[2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float x = fmaxf(peak[half][0], peak[half][1]);
            x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
            top[half] = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2)) * unit;
            grows = grows || top[half] > maximum[half] + SLACK;
        }
        rescale = __any_sync(0xffffffffu, grows);
        if (rescale) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float next = fmaxf(maximum[half], top[half]);
                factor[half] = next == MINUS_INFINITY ? 1.0f : power_of_two(maximum[half] - next);
                sum[half] *= factor[half];
                maximum[half] = next;
            }
        }
#pragma unroll
        for (int half = 0; half < 2; half++)
            offset[half] = maximum[half] == MINUS_INFINITY ? 0.0f : -maximum[half];
        float part[2][2] = {{0.0f, 0.0f}, {0.0f, 0.0f}};
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            s[i] = power_of_two(fmaf(s[i], unit, offset[i >> 1 & 1]));
            part[i >> 1 & 1][i & 1] += s[i];
        }
        sum[0] += part[0][0] + part[0][1];
        sum[1] += part[1][0] + part[1][1];
    }
};

template <int CONSUMERS, int TILE, int STAGES>
__device__ __forceinline__ void attend(const Forward &a) {
    typedef ForwardPlan<CONSUMERS, TILE, STAGES> Plan;
    extern __shared__ u8 dynamic[];
    u32 base = (shared_address(dynamic) + 1023) & ~1023u;
    int row_blocks = (a.queries + Plan::rows - 1) / Plan::rows;
    int row_block = blockIdx.x % row_blocks, pair = blockIdx.x / row_blocks;
    int head = pair % a.heads, group = pair / a.heads;
    int warpgroup = threadIdx.x / 128, thread = threadIdx.x % 128, lane = threadIdx.x % 32;
    int first_row = row_block * Plan::rows + warpgroup * 64, rows = a.queries - first_row;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            barrier_begin(base + Plan::filled + 8 * stage, CONSUMERS * 4);
            barrier_begin(base + Plan::emptied + 8 * stage, CONSUMERS * 4);
        }
    }
    u32 own = base + warpgroup * 64 * ROW_BYTES;
    copy_tile<64, 128>(own,
                       a.query + ((i64)group * a.queries + (rows > 0 ? first_row : 0)) *
                                     a.query_stride + head * 64,
                       a.query_stride, rows, thread);
    i64 keys_start = (i64)group * a.keys * a.key_stride + head * 64;
    Ring<CONSUMERS, TILE, STAGES> ring = {base, a.key + keys_start, a.value + keys_start,
                                          a.key_mask ? a.key_mask + (i64)group * a.keys : nullptr,
                                          a.key_stride, a.keys};
    for (int tile = 0; tile <= STAGES - BEHIND; tile++) ring.fill(tile);
    copies_wait<STAGES - BEHIND>();
    publish_shared();
    // The queries and the first tile have come, the barriers are ready.
    __syncthreads();
    ring.template announce<STAGES - BEHIND>(0);

    const u64 query = tile_descriptor(own);
    const u64 tiles_at = tile_descriptor(base + Plan::ring);
    const float unit = a.scale * 1.4426950408889634f;
    int tiles = (a.keys + TILE - 1) / TILE;
    float s[TILE / 2], o[32];
    u32 p[TILE / 4];
    Softmax softmax;
    softmax.maximum[0] = softmax.maximum[1] = MINUS_INFINITY;
    softmax.sum[0] = softmax.sum[1] = 0.0f;

    auto scores = [&](int tile) {
        u64 key = tiles_at + (tile % STAGES) * (Plan::tile_bytes >> 3);
#pragma unroll
        for (int step = 0; step < 4; step++)
            product<0, 0>(s, query + step * STEP_ALONG, key + step * STEP_ALONG, step > 0);
        products_commit();
    };
    auto values = [&](int tile) {
        u64 value = tiles_at + (tile % STAGES) * (Plan::tile_bytes >> 3) + (Plan::tile_bytes >> 4);
#pragma unroll
        for (int step = 0; step < TILE / 16; step++)
            product<1>(o, p + 4 * step, value + step * STEP_ACROSS, 1);
        products_commit();
    };
    auto hide = [&](int tile) {
        if (!ring.hides(tile)) return;
        u32 bias = base + Plan::bias + (tile % STAGES) * TILE * 4 + lane % 4 * 8;
#pragma unroll
        for (int j = 0; j < TILE / 8; j++) {
            float2 hidden = load_shared_pair(bias + 32 * j);
            s[4 * j] += hidden.x, s[4 * j + 1] += hidden.y;
            s[4 * j + 2] += hidden.x, s[4 * j + 3] += hidden.y;
        }
    };
    auto pack = [&]() {
#pragma unroll
        for (int i = 0; i < TILE / 4; i++) p[i] = to_bf16_pair(s[2 * i], s[2 * i + 1]);
    };

    ring.wait(0);
    products_begin();
    scores(0);
    ring.template announce<STAGES - BEHIND - 1>(1);
#pragma unroll
    for (int i = 0; i < 32; i++) o[i] = 0.0f;
    products_wait<0>();
    hold(s);
    hide(0);
    softmax.apply(s, unit);
    pack();
    for (int tile = 1; tile < tiles; tile++) {
        ring.wait(tile);
        hold(s);
        hold(o);
        products_begin();
        scores(tile);
        values(tile - 1);
        // Announced before the next copies begin, for the fence may wait for whatever is on its way.
        ring.template announce<STAGES - BEHIND - 2>(tile + 1);
        ring.fill(tile - BEHIND + STAGES);
        products_wait<1>();
        hold(s);
        hide(tile);
        softmax.apply(s, unit);
        // The branch comes after the exponentials: in one block with them, the compiler would wait
        // first. Both ways wait, with texts that differ so that they stay apart.
        hold(s);
        if (softmax.rescale) {
            asm volatile("wgmma.wait_group.sync.aligned 0; // then scale" ::: "memory");
            hold(o);
#pragma unroll
            for (int i = 0; i < 32; i++) o[i] *= softmax.factor[i >> 1 & 1];
        } else {
            products_wait<0>();
            hold(o);
        }
        ring.release(tile - 1);
        pack();
    }
    hold(o);
    products_begin();
    values(tiles - 1);
    products_wait<0>();
    hold(o);

    float inverse[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float sum = softmax.sum[half];
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        inverse[half] = sum > 0.0f ? 1.0f / sum : 0.0f;
        int row = thread / 32 * 16 + lane / 4 + half * 8;
        if (lane % 4 == 0 && row < rows)
            a.logarithm[((i64)group * a.heads + head) * a.queries + first_row + row] =
                sum > 0.0f ? (softmax.maximum[half] + log2f(sum)) * 0.6931471805599453f
                           : MINUS_INFINITY;
    }
    // The rows of the queries hold the output on its way: nobody multiplies them any more.
    named_barrier(1 + warpgroup, 128);
    write_rows(o, inverse[0], inverse[1], own, thread / 32 * 16,
               a.output + ((i64)group * a.queries + first_row) * a.output_stride + head * 64,
               a.output_stride, rows);
}

#define ATTENTION_FORWARD(NAME, CONSUMERS, TILE, STAGES, RESIDENT)                                  \
    extern "C" __global__ void __launch_bounds__(CONSUMERS * 128, RESIDENT)                         \
        NAME(const bf16 *query, const bf16 *key, const bf16 *value, bf16 *output,                  \
             float *logarithm, const float *key_mask, int groups, int heads, int queries,          \
             int keys, i64 query_stride, i64 key_stride, i64 output_stride, float scale) {         \
        Forward arguments = {query,        key,        value,         output, logarithm,           \
                             key_mask,     groups,     heads,         queries, keys,               \
                             query_stride, key_stride, output_stride, scale};                      \
        attend<CONSUMERS, TILE, STAGES>(arguments);                                                 \
    }

ATTENTION_FORWARD(attention_forward_hopper_64, 2, 64, 5, 2)
