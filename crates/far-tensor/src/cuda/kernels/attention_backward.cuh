// The backward pass of attention on tensor cores, as a template; instantiated by attention_bf16.cu
// and attention_tf32.cu. With P the probabilities, O the output and D = Σ dO·O:
//     dV = Pᵀ·dO,  dS = P∘(dO·Vᵀ − D),  dQ = scale·dS·K,  dK = scale·dSᵀ·Q.
//
// A block takes one head of one group and walks over its keys, KEYS at a time, and for each over all
// queries. Scores are computed transposed, a warp owning 16·KEY_TILES keys: then P and dS are left
// operands of dV and dK as they stand in registers, and dK and dV stay in registers as well. Only dS
// crosses warps, through shared memory, for dQ, which the block carries from one key block to the
// next in f32 in global scratch that no other block touches. So nothing is added atomically and the
// result is the same every time.
//
// Where heads are too few to fill the device, the key blocks of a head are divided among `splits`
// blocks (gridDim.y), each with its own part of the scratch; `attention_sum_splits` adds the parts.

// Stands for the lse of a query that sees no key.
static const float LOWEST = -1e30f;

template <class Core, int HEAD, int KEY_TILES, int WARPS_, int QUERIES_> struct BackwardShape {
    typedef typename Core::Element T;
    static const int WARPS = WARPS_, THREADS = 32 * WARPS_, QUERIES = QUERIES_;
    static const int KEYS = 16 * KEY_TILES * WARPS;
    static const int KEY_BYTES = KEYS * HEAD * (int)sizeof(T);
    static const int QUERY_BYTES = QUERIES * HEAD * (int)sizeof(T);
    static const int SLOPE_BYTES = KEYS * QUERIES * (int)sizeof(T);
    // Keys, values, two stages of queries and of upstream gradients, dS, two stages of lse and D.
    static const int SHARED = 2 * KEY_BYTES + 4 * QUERY_BYTES + SLOPE_BYTES + 4 * QUERIES * 4;
    // Warps are laid over dQ [QUERIES, HEAD] with 32 rows each.
    static const int ROW_WARPS = QUERIES / 32, COLUMN_WARPS = WARPS / ROW_WARPS;
    static const int COLUMNS = HEAD / COLUMN_WARPS;
    static_assert(COLUMNS % 16 == 0, "a warp takes pairs of 8 columns");
    static const int EIGHTS = COLUMNS / 8;
};

// The scratch of one tile of dQ keeps the order that the registers have: [2][EIGHTS][THREADS] float4.
template <class Shape>
__device__ __forceinline__ float4 *scratch_tile(float *scratch, i64 split, i64 pairs, i64 pair, i64 tiles, i64 tile) {
    return (float4 *)scratch + ((split * pairs + pair) * tiles + tile) * (2 * Shape::EIGHTS * Shape::THREADS) +
           threadIdx.x;
}

// Writes this thread's part of a tile of dQ whose first query is `dq`'s.
template <class Shape, typename T>
__device__ __forceinline__ void write_query_gradient(T *dq, i64 stride, int valid,
                                                     const float (&sums)[2][Shape::EIGHTS][4], float scale) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int row = warp / Shape::COLUMN_WARPS * 32 + lane / 4;
    int column = warp % Shape::COLUMN_WARPS * Shape::COLUMNS + lane % 4 * 2;
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            if (row + 16 * m + 8 * half < valid) {
#pragma unroll
                for (int n = 0; n < Shape::EIGHTS; n++)
                    write_pair(dq + (row + 16 * m + 8 * half) * stride + column + 8 * n,
                               sums[m][n][2 * half] * scale, sums[m][n][2 * half + 1] * scale);
            }
}

// Grid: (groups · heads, splits) blocks of THREADS threads, SHARED bytes; 1 ≤ splits ≤ ⌈keys / KEYS⌉.
template <class Core, int HEAD, int KEY_TILES, int WARPS, int QUERIES, int CHUNK, typename T>
__device__ __forceinline__ void
attention_backward(const T *q, const T *k, const T *v, const T *out, const T *dout, const float *lse, float *delta,
                   const float *key_mask, T *dq, T *dk, T *dv, float *scratch, int heads, int queries, int keys,
                   i64 q_stride, i64 kv_stride, i64 out_stride, i64 dq_stride, i64 dkv_stride, float scale) {
    typedef BackwardShape<Core, HEAD, KEY_TILES, WARPS, QUERIES> Shape;
    const int THREADS = Shape::THREADS, KEYS = Shape::KEYS, STEPS = HEAD / Core::STEP, EIGHTS = CHUNK / 8;

    extern __shared__ __align__(128) char shared[];
    char *key_space = shared, *value_space = key_space + Shape::KEY_BYTES;
    char *query_space = value_space + Shape::KEY_BYTES, *upstream_space = query_space + 2 * Shape::QUERY_BYTES;
    char *slope_space = upstream_space + 2 * Shape::QUERY_BYTES;
    float *statistics = (float *)(slope_space + Shape::SLOPE_BYTES);
    u32 key_tile = shared_address(key_space), value_tile = shared_address(value_space);
    u32 query_tiles = shared_address(query_space), upstream_tiles = shared_address(upstream_space);
    u32 slope_tile = shared_address(slope_space);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, own = warp * 16 * KEY_TILES;

    i64 pair = blockIdx.x, group = pair / heads, head = pair % heads;
    q += group * queries * q_stride + head * HEAD;
    dq += group * queries * dq_stride + head * HEAD;
    out += group * queries * out_stride + head * HEAD;
    dout += group * queries * out_stride + head * HEAD;
    lse += pair * queries, delta += pair * queries;
    k += group * keys * kv_stride + head * HEAD, v += group * keys * kv_stride + head * HEAD;
    dk += group * keys * dkv_stride + head * HEAD, dv += group * keys * dkv_stride + head * HEAD;
    if (key_mask) key_mask += group * keys;

    int tiles = (queries + QUERIES - 1) / QUERIES, blocks = (keys + KEYS - 1) / KEYS;
    int split = blockIdx.y, splits = gridDim.y;
    int from = (i64)blocks * split / splits, to = (i64)blocks * (split + 1) / splits;

    auto start_copy = [&](int tile, int stage) {
        int start = tile * QUERIES;
        i64 row = start;
        copy_tile<T, HEAD, QUERIES, THREADS>(query_tiles + stage * Shape::QUERY_BYTES, q + row * q_stride, q_stride,
                                             queries - start);
        copy_tile<T, HEAD, QUERIES, THREADS>(upstream_tiles + stage * Shape::QUERY_BYTES, dout + row * out_stride,
                                             out_stride, queries - start);
    };
    // lse and, where an earlier key block has left it in `delta`, D.
    auto start_statistics = [&](int tile, int stage, bool known) {
        int index = threadIdx.x % QUERIES, query = tile * QUERIES + index;
        bool exists = query < queries;
        u32 place = shared_address(statistics + stage * 2 * QUERIES + index);
        if (threadIdx.x < QUERIES) copy_word(place, lse + (exists ? query : 0), exists);
        else if (known && threadIdx.x < 2 * QUERIES)
            copy_word(place + QUERIES * 4, delta + (exists ? query : 0), exists);
    };

    // For the first keys D is computed on the way: each thread holds the part of the output that
    // belongs to the chunks of dO it copies, and multiplies them as soon as those are there.
    const int CHUNKS = Tile<T, HEAD>::CHUNKS, ROWS = THREADS / CHUNKS, HELD = QUERIES / ROWS;
    const int held_chunk = threadIdx.x % CHUNKS, held_row = threadIdx.x / CHUNKS;
    uint4 held[HELD];
    auto hold_output = [&](int tile) {
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            i64 query = tile * QUERIES + held_row + i * ROWS;
            held[i] = query < queries ? *(const uint4 *)(out + query * out_stride + held_chunk * Vector<T>::width)
                                      : make_uint4(0, 0, 0, 0);
        }
    };
    auto compute_delta = [&](int tile, int stage) {
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            int row = held_row + i * ROWS;
            float left[Vector<T>::width], right[Vector<T>::width], sum = 0.0f;
            load_vector((const T *)&held[i], left);
            const char *upstream = upstream_space + stage * Shape::QUERY_BYTES;
            load_vector((const T *)(upstream + Tile<T, HEAD>::place(row, held_chunk)), right);
#pragma unroll
            for (int j = 0; j < Vector<T>::width; j++) sum = fmaf(left[j], right[j], sum);
#pragma unroll
            for (int offset = CHUNKS / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(EVERY_LANE, sum, offset);
            if (held_chunk == 0) {
                statistics[stage * 2 * QUERIES + QUERIES + row] = sum;
                if (tile * QUERIES + row < queries) delta[tile * QUERIES + row] = sum;
            }
        }
    };

    u32 left_place = Core::template left_rows_place<HEAD>(lane);
    u32 right_place = Core::template right_rows_place<HEAD>(lane);
    u32 turned_place = Core::template right_columns_place<HEAD>(lane);
    u32 slope_place = Core::template left_columns_place<QUERIES>(lane);
    u32 lay_place = pair_place<T, QUERIES>(lane);
    const float factor = scale * LOG2_E;

    auto start_keys = [&](int block) {
        i64 first = block * KEYS;
        copy_tile<T, HEAD, KEYS, THREADS>(key_tile, k + first * kv_stride, kv_stride, keys - (int)first);
        copy_tile<T, HEAD, KEYS, THREADS>(value_tile, v + first * kv_stride, kv_stride, keys - (int)first);
    };

    int stage = 0;
    start_keys(from);
    start_copy(0, 0);
    start_statistics(0, 0, false);
    hold_output(0);
    for (int block = from; block < to; block++) {
        int first = block * KEYS;
        i64 first_row = first;
        if (block > from) start_keys(block);

        bool masked = key_mask != 0 || first + KEYS > keys;
        bool hidden[KEY_TILES][2];
#pragma unroll
        for (int m = 0; m < KEY_TILES; m++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                int key = first + own + 16 * m + 8 * half + lane / 4;
                hidden[m][half] = masked && (key >= keys || (key_mask && key_mask[key] == 0.0f));
            }
        float key_sums[KEY_TILES][HEAD / 8][4], value_sums[KEY_TILES][HEAD / 8][4];
        clear(key_sums);
        clear(value_sums);

        for (int tile = 0; tile < tiles; tile++, stage ^= 1) {
            close_copies();
            await_older_copies<0>();
            if (block == from) compute_delta(tile, stage);
            if (tile == 0) {
                Core::template prepare<HEAD, KEYS, THREADS>(key_space);
                Core::template prepare<HEAD, KEYS, THREADS>(value_space);
            }
            Core::template prepare<HEAD, QUERIES, THREADS>(query_space + stage * Shape::QUERY_BYTES);
            Core::template prepare<HEAD, QUERIES, THREADS>(upstream_space + stage * Shape::QUERY_BYTES);
            __syncthreads();
            // The queries of the next step: after the last tile they begin again for the next keys.
            if (tile + 1 < tiles || block + 1 < to) {
                int later = tile + 1 < tiles ? tile + 1 : 0;
                start_copy(later, stage ^ 1);
                start_statistics(later, stage ^ 1, block > from || later == 0);
            }
            u32 query_tile = query_tiles + stage * Shape::QUERY_BYTES;
            u32 upstream_tile = upstream_tiles + stage * Shape::QUERY_BYTES;
            const float *logarithms = statistics + stage * 2 * QUERIES, *deltas = logarithms + QUERIES;

#pragma unroll 1
            for (int chunk = 0; chunk < QUERIES; chunk += CHUNK) {
                // Products of one step stand in turns with the arithmetic of the other factor, since the
                // two run on different units.
                float chances[KEY_TILES][EIGHTS][4], slopes[KEY_TILES][EIGHTS][4];
                clear(chances);
                clear(slopes);
#pragma unroll
                for (int step = 0; step < STEPS; step++)
                    multiply_step<Core, HEAD>(chances, key_tile, own, left_place, query_tile, chunk, right_place, step);
                if (masked) {
#pragma unroll
                    for (int m = 0; m < KEY_TILES; m++)
#pragma unroll
                        for (int n = 0; n < EIGHTS; n++)
#pragma unroll
                            for (int i = 0; i < 4; i++)
                                if (hidden[m][i / 2]) chances[m][n][i] = -infinity();
                }
#pragma unroll
                for (int n = 0; n < EIGHTS; n++) {
#pragma unroll
                    for (int step = n * STEPS / EIGHTS; step < (n + 1) * STEPS / EIGHTS; step++)
                        multiply_step<Core, HEAD>(slopes, value_tile, own, left_place, upstream_tile, chunk,
                                                  right_place, step);
                    float2 logarithm = *(const float2 *)(logarithms + chunk + 8 * n + lane % 4 * 2);
                    // A query without visible keys has −inf here, which must not meet that of the score.
                    float shift[2] = {fmaxf(logarithm.x, LOWEST) * -LOG2_E, fmaxf(logarithm.y, LOWEST) * -LOG2_E};
#pragma unroll
                    for (int m = 0; m < KEY_TILES; m++)
#pragma unroll
                        for (int i = 0; i < 4; i++)
                            chances[m][n][i] = power_of_two(fmaf(chances[m][n][i], factor, shift[i % 2]));
                }
#pragma unroll
                for (int step = 0; step < CHUNK / Core::STEP; step++) {
                    weigh_step<Core, HEAD>(value_sums, chances, upstream_tile, chunk, turned_place, step);
#pragma unroll
                    for (int n = step * Core::STEP / 8; n < (step + 1) * Core::STEP / 8; n++) {
                        float2 shared_part = *(const float2 *)(deltas + chunk + 8 * n + lane % 4 * 2);
                        float part[2] = {shared_part.x, shared_part.y};
#pragma unroll
                        for (int m = 0; m < KEY_TILES; m++) {
#pragma unroll
                            for (int i = 0; i < 4; i++)
                                slopes[m][n][i] = chances[m][n][i] * (slopes[m][n][i] - part[i % 2]);
#pragma unroll
                            for (int half = 0; half < 2; half++)
                                lay_pair<T, QUERIES>(slope_space, own + 16 * m + 8 * half, chunk / 8 + n, lay_place,
                                                     Core::operand(slopes[m][n][2 * half]),
                                                     Core::operand(slopes[m][n][2 * half + 1]));
                        }
                    }
                }
#pragma unroll
                for (int step = 0; step < CHUNK / Core::STEP; step++)
                    weigh_step<Core, HEAD>(key_sums, slopes, query_tile, chunk, turned_place, step);
            }

            // The sums of earlier key blocks; on their way while the block gathers.
            float query_sums[2][Shape::EIGHTS][4];
            clear(query_sums);
            float4 *carried = scratch_tile<Shape>(scratch, split, gridDim.x, pair, tiles, tile);
            if (block > from) {
#pragma unroll
                for (int m = 0; m < 2; m++)
#pragma unroll
                    for (int n = 0; n < Shape::EIGHTS; n++) {
                        float4 before = carried[(m * Shape::EIGHTS + n) * THREADS];
                        query_sums[m][n][0] = before.x, query_sums[m][n][1] = before.y;
                        query_sums[m][n][2] = before.z, query_sums[m][n][3] = before.w;
                    }
            }
            if (block == from && tile + 1 < tiles) hold_output(tile + 1);
            __syncthreads();
            int row_pair = warp / Shape::COLUMN_WARPS * 2;
            int column_pair = warp % Shape::COLUMN_WARPS * (Shape::COLUMNS / 16);
#pragma unroll 8
            for (int row = 0; row < KEYS; row += Core::STEP) {
                u32 a[2][4];
                Core::template left_columns<QUERIES>(a[0], slope_tile, row, row_pair, slope_place);
                Core::template left_columns<QUERIES>(a[1], slope_tile, row, row_pair + 1, slope_place);
#pragma unroll
                for (int n = 0; n < Shape::EIGHTS / 2; n++) {
                    u32 b[4];
                    Core::template right_columns<HEAD>(b, key_tile, row, column_pair + n, turned_place);
#pragma unroll
                    for (int m = 0; m < 2; m++) {
                        Core::multiply(query_sums[m][2 * n], a[m], b[0], b[1]);
                        Core::multiply(query_sums[m][2 * n + 1], a[m], b[2], b[3]);
                    }
                }
            }
            if (block + 1 == to && splits == 1) {
                i64 row = tile * QUERIES;
                write_query_gradient<Shape>(dq + row * dq_stride, dq_stride, queries - tile * QUERIES, query_sums,
                                            scale);
            } else {
#pragma unroll
                for (int m = 0; m < 2; m++)
#pragma unroll
                    for (int n = 0; n < Shape::EIGHTS; n++)
                        carried[(m * Shape::EIGHTS + n) * THREADS] = make_float4(
                            query_sums[m][n][0], query_sums[m][n][1], query_sums[m][n][2], query_sums[m][n][3]);
            }
        }

        // Keys and values have been used: their places carry dK and dV on the way out.
        __syncthreads();
        u32 place = pair_place<T, HEAD>(lane);
#pragma unroll
        for (int m = 0; m < KEY_TILES; m++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                int row = own + 16 * m + 8 * half;
#pragma unroll
                for (int n = 0; n < HEAD / 8; n++) {
                    lay_pair<T, HEAD>(key_space, row, n, place, key_sums[m][n][2 * half] * scale,
                                      key_sums[m][n][2 * half + 1] * scale);
                    lay_pair<T, HEAD>(value_space, row, n, place, value_sums[m][n][2 * half],
                                      value_sums[m][n][2 * half + 1]);
                }
            }
        __syncwarp();
        write_rows<T, HEAD, 16 * KEY_TILES>(dk + first_row * dkv_stride, dkv_stride, keys - first, key_space, own);
        write_rows<T, HEAD, 16 * KEY_TILES>(dv + first_row * dkv_stride, dkv_stride, keys - first, value_space, own);
        __syncthreads();
    }
}

// dQ = scale · Σ over splits of the scratch. Grid: (groups · heads, ⌈queries / QUERIES⌉) blocks of the
// backward kernel's THREADS threads, no shared memory.
template <class Core, int HEAD, int KEY_TILES, int WARPS, int QUERIES, typename T>
__device__ __forceinline__ void attention_sum_splits(const float *scratch, T *dq, int heads, int queries, int splits,
                                                     i64 dq_stride, float scale) {
    typedef BackwardShape<Core, HEAD, KEY_TILES, WARPS, QUERIES> Shape;
    i64 pair = blockIdx.x, group = pair / heads, head = pair % heads, first = (i64)blockIdx.y * QUERIES;
    float sums[2][Shape::EIGHTS][4];
    clear(sums);
    for (int split = 0; split < splits; split++) {
        const float4 *part = scratch_tile<Shape>((float *)scratch, split, gridDim.x, pair, gridDim.y, blockIdx.y);
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int n = 0; n < Shape::EIGHTS; n++) {
                float4 value = part[(m * Shape::EIGHTS + n) * Shape::THREADS];
                sums[m][n][0] += value.x, sums[m][n][1] += value.y;
                sums[m][n][2] += value.z, sums[m][n][3] += value.w;
            }
    }
    write_query_gradient<Shape>(dq + (group * queries + first) * dq_stride + head * HEAD, dq_stride,
                                queries - (int)first, sums, scale);
}

#define ATTENTION_BACKWARD(NAME, T, CORE, HEAD, KEY_TILES, WARPS, QUERIES, CHUNK, RESIDENT_BLOCKS)                    \
    extern "C" __global__ void __launch_bounds__(32 * WARPS, RESIDENT_BLOCKS) attention_backward_##NAME##_##HEAD(     \
        const T *q, const T *k, const T *v, const T *out, const T *dout, const float *lse, float *delta,              \
        const float *key_mask, T *dq, T *dk, T *dv, float *scratch, int groups, int heads, int queries, int keys,     \
        i64 q_stride, i64 kv_stride, i64 out_stride, i64 dq_stride, i64 dkv_stride, float scale) {                    \
        attention_backward<CORE, HEAD, KEY_TILES, WARPS, QUERIES, CHUNK>(                                             \
            q, k, v, out, dout, lse, delta, key_mask, dq, dk, dv, scratch, heads, queries, keys, q_stride, kv_stride, \
            out_stride, dq_stride, dkv_stride, scale);                                                                \
    }                                                                                                                 \
    extern "C" __global__ void __launch_bounds__(32 * WARPS) attention_sum_splits_##NAME##_##HEAD(                    \
        const float *scratch, T *dq, int groups, int heads, int queries, int splits, i64 dq_stride, float scale) {    \
        attention_sum_splits<CORE, HEAD, KEY_TILES, WARPS, QUERIES>(scratch, dq, heads, queries, splits, dq_stride,   \
                                                                    scale);                                           \
    }
