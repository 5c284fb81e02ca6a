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

template <class Core, int HEAD, int ROW_TILES, int KEYS, int STAGES> struct ForwardShape {
    typedef typename Core::Element T;
    static const int WARPS = 4, THREADS = 32 * WARPS;
    static const int QUERIES = 16 * ROW_TILES * WARPS;
    static const int QUERY_BYTES = QUERIES * HEAD * (int)sizeof(T);
    static const int KEY_BYTES = KEYS * HEAD * (int)sizeof(T);
    // The queries, and for each stage keys and values.
    static const int SHARED = QUERY_BYTES + 2 * STAGES * KEY_BYTES;
};

// Grid: groups · heads · ⌈queries / QUERIES⌉ blocks of THREADS threads, SHARED bytes.
template <class Core, int HEAD, int ROW_TILES, int KEYS, int STAGES, typename T>
__device__ __forceinline__ void attention_forward(const T *q, const T *k, const T *v, T *out, float *lse,
                                                  const float *key_mask, int heads, int queries, int keys,
                                                  i64 q_stride, i64 kv_stride, i64 out_stride, float scale) {
    typedef ForwardShape<Core, HEAD, ROW_TILES, KEYS, STAGES> Shape;
    const int THREADS = Shape::THREADS, KEY_BYTES = Shape::KEY_BYTES, ROW_BYTES = Tile<T, HEAD>::ROW_BYTES;
    const int STEPS = HEAD / Core::STEP, PARTS = 2 * ROW_TILES;
    // Queries stay in registers where there is room, else they are read again for every tile.
    const bool RESIDENT = STEPS * ROW_TILES * 4 <= 32;

    extern __shared__ __align__(128) char shared[];
    char *key_space = shared + Shape::QUERY_BYTES;
    u32 query_tile = shared_address(shared), key_tiles = shared_address(key_space);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    int blocks = (queries + Shape::QUERIES - 1) / Shape::QUERIES;
    int pair = blockIdx.x / blocks, first = blockIdx.x % blocks * Shape::QUERIES;
    i64 group = pair / heads, head = pair % heads;
    q += (group * queries + first) * q_stride + head * HEAD;
    out += (group * queries + first) * out_stride + head * HEAD;
    k += group * keys * kv_stride + head * HEAD;
    v += group * keys * kv_stride + head * HEAD;
    lse += (i64)pair * queries + first;
    if (key_mask) key_mask += group * keys;
    int valid = min(queries - first, Shape::QUERIES);
    int own = warp * 16 * ROW_TILES;
    int tiles = (keys + KEYS - 1) / KEYS;

    // Tiles of keys and of values take turns in a ring of stages.
    auto start_copy = [&](int tile, int stage) {
        if (tile < tiles) {
            int start = tile * KEYS;
            u32 place = key_tiles + stage * 2 * KEY_BYTES;
            copy_tile<T, HEAD, KEYS, THREADS>(place, k + start * kv_stride, kv_stride, keys - start);
            copy_tile<T, HEAD, KEYS, THREADS>(place + KEY_BYTES, v + start * kv_stride, kv_stride, keys - start);
        }
        close_copies();
    };
    copy_tile<T, HEAD, Shape::QUERIES, THREADS>(query_tile, q, q_stride, valid);
#pragma unroll
    for (int tile = 0; tile < STAGES - 1; tile++) start_copy(tile, tile);

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

    for (int tile = 0, stage = 0; tile < tiles; tile++) {
        u32 visible[KEYS / 32];
        bool every = true, none = false;
        if (key_mask || (tile + 1) * KEYS > keys) {
            none = true;
#pragma unroll
            for (int word = 0; word < KEYS / 32; word++) {
                visible[word] = visible_keys(key_mask, tile * KEYS + 32 * word, keys);
                every &= visible[word] == EVERY_LANE;
                none &= visible[word] == 0;
            }
        }
        await_older_copies<STAGES - 2>();
        Core::template prepare<HEAD, KEYS, THREADS>(key_space + stage * 2 * KEY_BYTES);
        Core::template prepare<HEAD, KEYS, THREADS>(key_space + stage * 2 * KEY_BYTES + KEY_BYTES);
        if (tile == 0) Core::template prepare<HEAD, Shape::QUERIES, THREADS>(shared);
        // Everybody has this tile, and is done with the previous one, whose place is taken.
        __syncthreads();
        start_copy(tile + STAGES - 1, stage == 0 ? STAGES - 1 : stage - 1);
        u32 key_tile = key_tiles + stage * 2 * KEY_BYTES, value_tile = key_tile + KEY_BYTES;
        stage = stage + 1 == STAGES ? 0 : stage + 1;
        if (RESIDENT && tile == 0) {
#pragma unroll
            for (int step = 0; step < (RESIDENT ? STEPS : 0); step++)
#pragma unroll
                for (int m = 0; m < ROW_TILES; m++)
                    load_matrices(resident[step][m],
                                  query_tile + (own + 16 * m) * ROW_BYTES + (query_place ^ (step * 32)));
        }
        if (none) continue;

        float scores[ROW_TILES][KEYS / 8][4];
        clear(scores);
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            if constexpr (RESIDENT)
                multiply_held<Core, HEAD>(scores, resident[step], key_tile, 0, key_place, step);
            else
                multiply_step<Core, HEAD>(scores, query_tile, own, query_place, key_tile, 0, key_place, step);
        }
        if (!every) {
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++) {
                u32 bits = visible[n / 4] >> (n % 4 * 8 + lane % 4 * 2);
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
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            // A row without a visible key so far has no origin yet: all its weights are 0.
            float shift = origin[part] == -infinity() ? 0.0f : origin[part], sum = 0.0f;
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
                for (int i = part % 2 * 2; i < part % 2 * 2 + 2; i++) {
                    float &score = scores[part / 2][n][i];
                    score = power_of_two(fmaf(score, factor, -shift));
                    sum += score;
                }
            total[part] += sum;
        }
#pragma unroll
        for (int step = 0; step < KEYS / Core::STEP; step++)
            weigh_step<Core, HEAD>(sums, scores, value_tile, 0, value_place, step);
    }

    // This warp alone has read its rows of the query tile, so they can carry its output.
    __syncwarp();
    u32 place = pair_place<T, HEAD>(lane);
#pragma unroll
    for (int part = 0; part < PARTS; part++) {
        float sum = total[part];
        sum += __shfl_xor_sync(EVERY_LANE, sum, 1);
        sum += __shfl_xor_sync(EVERY_LANE, sum, 2);
        float inverse = sum > 0.0f ? 1.0f / sum : 0.0f;
        int row = own + 8 * part;
        if (lane % 4 == 0 && row + lane / 4 < valid)
            lse[row + lane / 4] = sum > 0.0f ? (origin[part] + __log2f(sum)) * LN_2 : -infinity();
#pragma unroll
        for (int n = 0; n < HEAD / 8; n++)
            lay_pair<T, HEAD>(shared, row, n, place, sums[part / 2][n][part % 2 * 2] * inverse,
                              sums[part / 2][n][part % 2 * 2 + 1] * inverse);
    }
    __syncwarp();
    write_rows<T, HEAD, 16 * ROW_TILES>(out, out_stride, valid, shared, own);
}

#define ATTENTION_FORWARD(NAME, T, CORE, HEAD, ROW_TILES, KEYS, STAGES, RESIDENT_BLOCKS)                              \
    extern "C" __global__ void __launch_bounds__(128, RESIDENT_BLOCKS) attention_forward_##NAME##_##HEAD(             \
        const T *q, const T *k, const T *v, T *out, float *lse, const float *key_mask, int groups, int heads,         \
        int queries, int keys, i64 q_stride, i64 kv_stride, i64 out_stride, float scale) {                            \
        attention_forward<CORE, HEAD, ROW_TILES, KEYS, STAGES>(q, k, v, out, lse, key_mask, heads, queries, keys,     \
                                                               q_stride, kv_stride, out_stride, scale);               \
    }
