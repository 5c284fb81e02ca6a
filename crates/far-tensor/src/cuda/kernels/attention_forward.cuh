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

template <class Core, int HEAD, int ROW_TILES, int KEYS> struct ForwardShape {
    typedef typename Core::Element T;
    static const int WARPS = 4;
    static const int THREADS = 32 * WARPS;
    static const int QUERIES = 16 * ROW_TILES * WARPS;
    static const int QUERY_BYTES = QUERIES * HEAD * (int)sizeof(T);
    static const int KEY_BYTES = KEYS * HEAD * (int)sizeof(T);
    // The queries, and two stages of keys and of values.
    static const int SHARED = QUERY_BYTES + 4 * KEY_BYTES;
};

// Grid: groups · heads · ⌈queries / QUERIES⌉ blocks of THREADS threads, SHARED bytes.
template <class Core, int HEAD, int ROW_TILES, int KEYS>
__device__ __forceinline__ void attention_forward(const typename Core::Element *q, const typename Core::Element *k,
                                                  const typename Core::Element *v, typename Core::Element *out,
                                                  float *lse, const float *key_mask, int heads, int queries, int keys,
                                                  i64 q_stride, i64 kv_stride, i64 out_stride, float scale) {
    typedef typename Core::Element T;
    typedef ForwardShape<Core, HEAD, ROW_TILES, KEYS> Shape;
    const int THREADS = Shape::THREADS;
    // Queries stay in registers where there is room, else they are read again for every tile.
    const bool RESIDENT = HEAD / Core::STEP * ROW_TILES * 4 <= 32;
    const int STEPS = HEAD / Core::STEP;

    extern __shared__ __align__(128) char shared[];
    u32 query_tile = shared_address(shared);
    u32 key_tiles = query_tile + Shape::QUERY_BYTES, value_tiles = key_tiles + 2 * Shape::KEY_BYTES;
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

    auto start_copy = [&](int tile) {
        int start = tile * KEYS, stage = tile % 2 * Shape::KEY_BYTES;
        copy_tile<T, HEAD, KEYS, THREADS>(key_tiles + stage, k + start * kv_stride, kv_stride, keys - start);
        copy_tile<T, HEAD, KEYS, THREADS>(value_tiles + stage, v + start * kv_stride, kv_stride, keys - start);
        close_copies();
    };
    copy_tile<T, HEAD, Shape::QUERIES, THREADS>(query_tile, q, q_stride, valid);
    start_copy(0);

    u32 query_place = Core::template left_rows_place<HEAD>(lane);
    u32 key_place = Core::template right_rows_place<HEAD>(lane);
    u32 value_place = Core::template right_columns_place<HEAD>(lane);
    u32 resident[RESIDENT ? ROW_TILES : 1][RESIDENT ? STEPS : 1][4];

    // For each row of this lane: what its scores are measured from, and its part of Σ exp.
    float origin[ROW_TILES][2], total[ROW_TILES][2];
#pragma unroll
    for (int m = 0; m < ROW_TILES; m++)
        for (int half = 0; half < 2; half++) origin[m][half] = -infinity(), total[m][half] = 0.0f;
    float sums[ROW_TILES][HEAD / 8][4];
    clear(sums);
    const float factor = scale * LOG2_E;

    int tiles = (keys + KEYS - 1) / KEYS;
    for (int tile = 0; tile < tiles; tile++) {
        u32 visible[KEYS / 32];
        bool every = true, none = true;
        if (key_mask || (tile + 1) * KEYS > keys) {
#pragma unroll
            for (int word = 0; word < KEYS / 32; word++) {
                visible[word] = visible_keys(key_mask, tile * KEYS + 32 * word, keys);
                every &= visible[word] == EVERY_LANE;
                none &= visible[word] == 0;
            }
        } else {
            none = false;
        }
        await_copies();
        int stage = tile % 2 * Shape::KEY_BYTES;
        Core::template prepare<HEAD, KEYS, THREADS>(shared + Shape::QUERY_BYTES + stage);
        Core::template prepare<HEAD, KEYS, THREADS>(shared + Shape::QUERY_BYTES + 2 * Shape::KEY_BYTES + stage);
        if (tile == 0) Core::template prepare<HEAD, Shape::QUERIES, THREADS>(shared);
        __syncthreads();
        if (tile + 1 < tiles) start_copy(tile + 1);
        if (RESIDENT && tile == 0) {
#pragma unroll
            for (int m = 0; m < (RESIDENT ? ROW_TILES : 0); m++)
#pragma unroll
                for (int step = 0; step < STEPS; step++)
                    load_matrices(resident[m][step], query_tile + (own + 16 * m) * Tile<T, HEAD>::ROW_BYTES +
                                                         (query_place ^ (step * 32)));
        }
        if (none) continue;

        float scores[ROW_TILES][KEYS / 8][4];
        clear(scores);
        if constexpr (RESIDENT) {
#pragma unroll
            for (int step = 0; step < STEPS; step++)
#pragma unroll
                for (int n = 0; n < KEYS / 16; n++) {
                    u32 b[4];
                    load_matrices(b, key_tiles + stage + 16 * n * Tile<T, HEAD>::ROW_BYTES + (key_place ^ (step * 32)));
#pragma unroll
                    for (int m = 0; m < ROW_TILES; m++) {
                        Core::multiply(scores[m][2 * n], resident[m][step], b[0], b[1]);
                        Core::multiply(scores[m][2 * n + 1], resident[m][step], b[2], b[3]);
                    }
                }
        } else {
            multiply_rows<Core, HEAD>(scores, query_tile, own, query_place, key_tiles + stage, 0, key_place);
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
        float highest[ROW_TILES][2];
        bool outgrown = false;
#pragma unroll
        for (int m = 0; m < ROW_TILES; m++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float top = -infinity();
#pragma unroll
                for (int n = 0; n < KEYS / 8; n++)
                    top = fmaxf(top, fmaxf(scores[m][n][2 * half], scores[m][n][2 * half + 1]));
                highest[m][half] = top * factor;
                outgrown |= highest[m][half] > origin[m][half] + SLACK;
            }
        if (__any_sync(EVERY_LANE, outgrown)) {
#pragma unroll
            for (int m = 0; m < ROW_TILES; m++)
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    float top = highest[m][half];
                    top = fmaxf(top, __shfl_xor_sync(EVERY_LANE, top, 1));
                    top = fmaxf(top, __shfl_xor_sync(EVERY_LANE, top, 2));
                    top = fmaxf(top, origin[m][half]);
                    float shrink = top == origin[m][half] ? 1.0f : power_of_two(origin[m][half] - top);
                    origin[m][half] = top;
                    total[m][half] *= shrink;
#pragma unroll
                    for (int n = 0; n < HEAD / 8; n++)
                        sums[m][n][2 * half] *= shrink, sums[m][n][2 * half + 1] *= shrink;
                }
        }
#pragma unroll
        for (int m = 0; m < ROW_TILES; m++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                // A row without a visible key so far has no origin yet: all its weights are 0.
                float shift = origin[m][half] == -infinity() ? 0.0f : origin[m][half];
                float part = 0.0f;
#pragma unroll
                for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
                    for (int i = 2 * half; i < 2 * half + 2; i++) {
                        scores[m][n][i] = power_of_two(fmaf(scores[m][n][i], factor, -shift));
                        part += scores[m][n][i];
                    }
                total[m][half] += part;
            }
        multiply_weights<Core, HEAD>(sums, scores, value_tiles + stage, 0, value_place);
    }

    // This warp alone has read its rows of the query tile, so they can carry its output.
    __syncwarp();
    u32 place = pair_place<T, HEAD>(lane);
#pragma unroll
    for (int m = 0; m < ROW_TILES; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float sum = total[m][half];
            sum += __shfl_xor_sync(EVERY_LANE, sum, 1);
            sum += __shfl_xor_sync(EVERY_LANE, sum, 2);
            float inverse = sum > 0.0f ? 1.0f / sum : 0.0f;
            int row = own + 16 * m + 8 * half;
            if (lane % 4 == 0 && row + lane / 4 < valid) {
                i64 index = (group * heads + head) * queries + first + row + lane / 4;
                lse[index] = sum > 0.0f ? (origin[m][half] + __log2f(sum)) * LN_2 : -infinity();
            }
#pragma unroll
            for (int n = 0; n < HEAD / 8; n++)
                lay_pair<T, HEAD>(shared, row, n, place, sums[m][n][2 * half] * inverse,
                                  sums[m][n][2 * half + 1] * inverse);
        }
    __syncwarp();
    write_rows<T, HEAD, 16 * ROW_TILES>(out, out_stride, valid, shared, own);
}

#define ATTENTION_FORWARD(NAME, T, CORE, HEAD, ROW_TILES, KEYS, RESIDENT_BLOCKS)                                      \
    extern "C" __global__ void __launch_bounds__(128, RESIDENT_BLOCKS) attention_forward_##NAME##_##HEAD(             \
        const T *q, const T *k, const T *v, T *out, float *lse, const float *key_mask, int groups, int heads,         \
        int queries, int keys, i64 q_stride, i64 kv_stride, i64 out_stride, float scale) {                            \
        attention_forward<CORE, HEAD, ROW_TILES, KEYS>(q, k, v, out, lse, key_mask, heads, queries, keys, q_stride,   \
                                                       kv_stride, out_stride, scale);                                 \
    }
