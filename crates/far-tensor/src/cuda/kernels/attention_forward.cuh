// The forward pass of attention on tensor cores, as a template; instantiated by attention_bf16.cu
// and attention_tf32.cu. Follows FlashAttention-2 (Dao, 2023): a block keeps its queries and sums
// and walks over the keys, whose scores exist for one tile at a time.

// How far scores (as powers of two) may rise above the one that a row is measured from before its
// sums are rescaled. Sums in f32 have room for far more, and after the first tiles rescaling is rare.
static const float SLACK = 8.0f;

// Which of the keys [first, first + 32) exist and are visible, as bits.
__device__ __forceinline__ u32 visible_keys(const float *key_mask, int first, int keys) {
    int key = first + threadIdx.x % 32;
    bool visible = key < keys;
    if (visible && key_mask) visible = key_mask[key] != 0.0f;
    return __ballot_sync(EVERY_LANE, visible);
}

template <class Core, int HEAD, int ROW_TILES> struct ForwardShape {
    typedef typename Core::Element T;
    static const int WARPS = 4, THREADS = 32 * WARPS;
    static const int QUERIES = 16 * ROW_TILES * WARPS;
    static const int KEYS = 32, STAGES = 3;
    static const int QUERY_BYTES = QUERIES * HEAD * (int)sizeof(T);
    static const int KEY_BYTES = KEYS * HEAD * (int)sizeof(T);
    // The queries, and for each stage keys and values.
    static const int SHARED = QUERY_BYTES + 2 * STAGES * KEY_BYTES;
};

// Grid: groups · heads · ⌈queries / QUERIES⌉ blocks of THREADS threads, SHARED bytes.
//
// The scores of the next tile are multiplied while the powers of this one are computed: the two use
// different units, and the instructions of one warp stand in turns.
template <class Core, int HEAD, int ROW_TILES>
__device__ __forceinline__ void attention_forward(const typename Core::Element *q, const typename Core::Element *k,
                                                  const typename Core::Element *v, typename Core::Element *out,
                                                  float *lse, const float *key_mask, int heads, int queries, int keys,
                                                  i64 q_stride, i64 kv_stride, i64 out_stride, float scale) {
    typedef typename Core::Element T;
    typedef ForwardShape<Core, HEAD, ROW_TILES> Shape;
    const int THREADS = Shape::THREADS, KEYS = Shape::KEYS, ROW_BYTES = Tile<T, HEAD>::ROW_BYTES;
    const int STEPS = HEAD / Core::STEP, PARTS = 2 * ROW_TILES;
    // Queries stay in registers where there is room, else they are read again for every tile.
    const bool RESIDENT = STEPS * ROW_TILES * 4 <= 32;

    extern __shared__ __align__(128) char shared[];
    u32 query_tile = shared_address(shared), key_tiles = query_tile + Shape::QUERY_BYTES;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    int blocks = (queries + Shape::QUERIES - 1) / Shape::QUERIES;
    int pair = blockIdx.x / blocks, first = blockIdx.x % blocks * Shape::QUERIES;
    i64 group = pair / heads, head = pair % heads;
    q += (group * queries + first) * q_stride + head * HEAD;
    out += (group * queries + first) * out_stride + head * HEAD;
    k += group * keys * kv_stride + head * HEAD;
    v += group * keys * kv_stride + head * HEAD;
    if (key_mask) key_mask += group * keys;
    int valid = min(queries - first, Shape::QUERIES);
    int own = warp * 16 * ROW_TILES;
    int tiles = (keys + KEYS - 1) / KEYS;

    auto start_copy = [&](int tile) {
        int start = tile * KEYS, place = tile % Shape::STAGES * 2 * Shape::KEY_BYTES;
        if (tile < tiles) {
            copy_tile<T, HEAD, KEYS, THREADS>(key_tiles + place, k + start * kv_stride, kv_stride, keys - start);
            copy_tile<T, HEAD, KEYS, THREADS>(key_tiles + place + Shape::KEY_BYTES, v + start * kv_stride, kv_stride,
                                              keys - start);
        }
        close_copies();
    };
    auto prepare = [&](int tile) {
        char *place = shared + Shape::QUERY_BYTES + tile % Shape::STAGES * 2 * Shape::KEY_BYTES;
        Core::template prepare<HEAD, KEYS, THREADS>(place);
        Core::template prepare<HEAD, KEYS, THREADS>(place + Shape::KEY_BYTES);
    };
    copy_tile<T, HEAD, Shape::QUERIES, THREADS>(query_tile, q, q_stride, valid);
    start_copy(0);
    start_copy(1);

    u32 query_place = Core::template left_rows_place<HEAD>(lane);
    u32 key_place = Core::template right_rows_place<HEAD>(lane);
    u32 value_place = Core::template right_columns_place<HEAD>(lane);
    u32 resident[RESIDENT ? STEPS : 1][ROW_TILES][4];

    // For each row of this lane: what its scores are measured from, and its part of Σ exp.
    float origin[PARTS], total[PARTS];
#pragma unroll
    for (int part = 0; part < PARTS; part++) origin[part] = -infinity(), total[part] = 0.0f;
    float sums[ROW_TILES][HEAD / 8][4];
    clear(sums);
    const float factor = scale * LOG2_E;

    // One step of the scores of a tile: STEP channels.
    typedef float Scores[ROW_TILES][KEYS / 8][4];
    auto multiply_step = [&](Scores &scores, u32 key_tile, int step) {
        u32 a[ROW_TILES][4];
#pragma unroll
        for (int m = 0; m < ROW_TILES; m++) {
            if constexpr (RESIDENT) {
#pragma unroll
                for (int i = 0; i < 4; i++) a[m][i] = resident[step][m][i];
            } else {
                load_matrices(a[m], query_tile + (own + 16 * m) * ROW_BYTES + (query_place ^ (step * 32)));
            }
        }
#pragma unroll
        for (int n = 0; n < KEYS / 16; n++) {
            u32 b[4];
            load_matrices(b, key_tile + 16 * n * ROW_BYTES + (key_place ^ (step * 32)));
#pragma unroll
            for (int m = 0; m < ROW_TILES; m++) {
                Core::multiply(scores[m][2 * n], a[m], b[0], b[1]);
                Core::multiply(scores[m][2 * n + 1], a[m], b[2], b[3]);
            }
        }
    };

    // Turns the scores of `tile` into weights and adds the weighted values, while the scores of the
    // next tile are computed into `next`.
    auto attend = [&](int tile, Scores &scores, Scores &next) {
        u32 visible = EVERY_LANE;
        if (key_mask || (tile + 1) * KEYS > keys) visible = visible_keys(key_mask, tile * KEYS, keys);
        await_older_copies<0>();
        if (tile + 1 < tiles) prepare(tile + 1);
        // Everybody has the next tile, and is done with the previous one, whose place is taken.
        __syncthreads();
        start_copy(tile + 2);
        u32 next_keys = key_tiles + (tile + 1) % Shape::STAGES * 2 * Shape::KEY_BYTES;
        u32 values = key_tiles + tile % Shape::STAGES * 2 * Shape::KEY_BYTES + Shape::KEY_BYTES;

        if (visible != EVERY_LANE) {
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++) {
                u32 bits = visible >> (n * 8 + lane % 4 * 2);
#pragma unroll
                for (int m = 0; m < ROW_TILES; m++)
#pragma unroll
                    for (int i = 0; i < 4; i++)
                        if (!(bits >> (i % 2) & 1)) scores[m][n][i] = -infinity();
            }
        }
        // Rescale only if some row of the warp has outgrown the slack.
        float highest[PARTS];
        bool outgrown = false;
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            float top = -infinity();
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
                top = fmaxf(top, fmaxf(scores[part / 2][n][part % 2 * 2], scores[part / 2][n][part % 2 * 2 + 1]));
            highest[part] = top * factor;
            outgrown |= highest[part] > origin[part] + SLACK;
        }
        if (__any_sync(EVERY_LANE, outgrown)) {
#pragma unroll
            for (int part = 0; part < PARTS; part++) {
                float top = highest[part];
                top = fmaxf(top, __shfl_xor_sync(EVERY_LANE, top, 1));
                top = fmaxf(top, __shfl_xor_sync(EVERY_LANE, top, 2));
                top = fmaxf(top, origin[part]);
                float shrink = top == origin[part] ? 1.0f : power_of_two(origin[part] - top);
                origin[part] = top;
                total[part] *= shrink;
#pragma unroll
                for (int n = 0; n < HEAD / 8; n++) {
                    sums[part / 2][n][part % 2 * 2] *= shrink;
                    sums[part / 2][n][part % 2 * 2 + 1] *= shrink;
                }
            }
        }
        // After the last tile this multiplies what an earlier one has left, and nobody uses it.
        clear(next);
#pragma unroll
        for (int turn = 0; turn < (STEPS > PARTS ? STEPS : PARTS); turn++) {
#pragma unroll
            for (int step = turn * STEPS / PARTS; step < (turn + 1) * STEPS / PARTS; step++)
                multiply_step(next, next_keys, step);
            if (turn >= PARTS) continue;
            // A row without a visible key so far has no origin yet: all its weights are 0.
            float shift = origin[turn] == -infinity() ? 0.0f : origin[turn], part = 0.0f;
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
                for (int i = turn % 2 * 2; i < turn % 2 * 2 + 2; i++) {
                    float &score = scores[turn / 2][n][i];
                    score = power_of_two(fmaf(score, factor, -shift));
                    part += score;
                }
            total[turn] += part;
        }
        multiply_weights<Core, HEAD>(sums, scores, values, 0, value_place);
    };

    Scores even, odd;
    await_older_copies<1>();
    Core::template prepare<HEAD, Shape::QUERIES, THREADS>(shared);
    prepare(0);
    __syncthreads();
    if constexpr (RESIDENT) {
#pragma unroll
        for (int step = 0; step < STEPS; step++)
#pragma unroll
            for (int m = 0; m < ROW_TILES; m++)
                load_matrices(resident[step][m], query_tile + (own + 16 * m) * ROW_BYTES + (query_place ^ (step * 32)));
    }
    clear(even);
#pragma unroll
    for (int step = 0; step < STEPS; step++) multiply_step(even, key_tiles, step);
    for (int tile = 0; tile < tiles; tile += 2) {
        attend(tile, even, odd);
        if (tile + 1 < tiles) attend(tile + 1, odd, even);
    }

    // This warp alone has read its rows of the query tile, so they can carry its output.
    __syncwarp();
    u32 place = pair_place<T, HEAD>(lane);
#pragma unroll
    for (int m = 0; m < ROW_TILES; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float sum = total[2 * m + half];
            sum += __shfl_xor_sync(EVERY_LANE, sum, 1);
            sum += __shfl_xor_sync(EVERY_LANE, sum, 2);
            float inverse = sum > 0.0f ? 1.0f / sum : 0.0f;
            int row = own + 16 * m + 8 * half;
            if (lane % 4 == 0 && row + lane / 4 < valid) {
                i64 index = (group * heads + head) * queries + first + row + lane / 4;
                lse[index] = sum > 0.0f ? (origin[2 * m + half] + __log2f(sum)) * LN_2 : -infinity();
            }
#pragma unroll
            for (int n = 0; n < HEAD / 8; n++)
                lay_pair<T, HEAD>(shared, row, n, place, sums[m][n][2 * half] * inverse,
                                  sums[m][n][2 * half + 1] * inverse);
        }
    __syncwarp();
    write_rows<T, HEAD, 16 * ROW_TILES>(out, out_stride, valid, shared, own);
}

#define ATTENTION_FORWARD(NAME, T, CORE, HEAD, ROW_TILES, RESIDENT_BLOCKS)                                            \
    extern "C" __global__ void __launch_bounds__(128, RESIDENT_BLOCKS) attention_forward_##NAME##_##HEAD(             \
        const T *q, const T *k, const T *v, T *out, float *lse, const float *key_mask, int groups, int heads,         \
        int queries, int keys, i64 q_stride, i64 kv_stride, i64 out_stride, float scale) {                            \
        attention_forward<CORE, HEAD, ROW_TILES>(q, k, v, out, lse, key_mask, heads, queries, keys, q_stride,         \
                                                       kv_stride, out_stride, scale);                                 \
    }
