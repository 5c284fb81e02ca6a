// Attention on plain multiply-add units, in f32 whatever the elements are: the reference on the
// device, and what serves head dimensions that the tensor cores' kernels do not. Any head dimension
// up to BOUND, no alignment assumed, nothing added atomically.
//
// Source: prelude.cuh + this file. Kernels, for T in f32, bf16 and BOUND in 32, 64, 128, 256 (the
// smallest that holds `head_dim`), each with 128 threads:
//
//   attention_forward_plain_T_BOUND(q, k, v, out, lse, key_mask, groups, heads, queries, keys,
//                                   q_stride, kv_stride, out_stride, scale, head_dim)
//     blocks: groups · heads · ⌈queries / rows⌉; rows 32, 32, 32, 16 for the four bounds
//     shared bytes: 16,640, 28,928, 53,504, 84,224
//   attention_delta_plain_T(out, dout, delta, groups, heads, queries, out_stride, head_dim)
//     blocks: ⌈groups · heads · queries / 4⌉; no dynamic shared memory
//   attention_backward_query_plain_T_BOUND, attention_backward_key_plain_T_BOUND(
//         q, k, v, out, dout, lse, delta, key_mask, dq, dk, dv, scratch, groups, heads, queries, keys,
//         q_stride, kv_stride, out_stride, dq_stride, dkv_stride, scale, head_dim)
//     the first writes dq alone, the second dk and dv; `scratch` is not used and may be null
//     blocks: groups · heads · ⌈queries / rows⌉ and groups · heads · ⌈keys / rows⌉; rows 32, 32, 32, 8
//     shared bytes, for both: 24,832, 41,216, 73,984, 84,224
//
// A block owns some rows (queries, or keys for dk and dv) and walks over the other side 32 rows at a
// time. For scores, each lane takes one of those 32; for sums, each lane takes channels.

static const float LOG2_E = 1.4426950408889634f;
static const float LN_2 = 0.6931471805599453f;
static const int WARPS = 4;
static const int THREADS = 32 * WARPS;
static const int OTHERS = 32;

__device__ __forceinline__ float infinity() { return __uint_as_float(0x7f800000u); }
__device__ __forceinline__ float warp_maximum(float x) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, offset));
    return x;
}

// Copies rows into shared memory, PITCH floats apart; zeros beyond `valid` rows and `head_dim`.
template <typename T, int BOUND, int ROWS, int PITCH>
__device__ __forceinline__ void copy_rows(float *to, const T *from, i64 stride, int valid, int head_dim) {
    for (int index = threadIdx.x; index < ROWS * BOUND; index += THREADS) {
        int row = index / BOUND, channel = index % BOUND;
        bool exists = row < valid && channel < head_dim;
        to[row * PITCH + channel] = exists ? to_float(from[row * stride + channel]) : 0.0f;
    }
}

// products[r] = Σ over channels of own row r times the lane's other row.
template <int BOUND, int ROWS>
__device__ __forceinline__ void multiply_rows(float (&products)[ROWS], const float *own, const float *other) {
#pragma unroll
    for (int row = 0; row < ROWS; row++) products[row] = 0.0f;
#pragma unroll 4
    for (int channel = 0; channel < BOUND; channel += 4) {
        const float *x = other + channel;
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            float4 y = *(const float4 *)(own + row * BOUND + channel);
            products[row] = fmaf(x[0], y.x, fmaf(x[1], y.y, fmaf(x[2], y.z, fmaf(x[3], y.w, products[row]))));
        }
    }
}

// sums[r][i] += Σ over the other rows of weights[r][other] · others[other][lane + 32·i].
template <int BOUND, int ROWS>
__device__ __forceinline__ void add_weighted(float (&sums)[ROWS][BOUND / 32], const float *weights,
                                             const float *others) {
#pragma unroll 2
    for (int other = 0; other < OTHERS; other += 4) {
        float4 weight[ROWS];
#pragma unroll
        for (int row = 0; row < ROWS; row++) weight[row] = *(const float4 *)(weights + row * OTHERS + other);
#pragma unroll
        for (int i = 0; i < BOUND / 32; i++) {
            const float *x = others + other * (BOUND + 1) + threadIdx.x % 32 + 32 * i;
            float a = x[0], b = x[BOUND + 1], c = x[2 * (BOUND + 1)], d = x[3 * (BOUND + 1)];
#pragma unroll
            for (int row = 0; row < ROWS; row++)
                sums[row][i] = fmaf(
                    a, weight[row].x,
                    fmaf(b, weight[row].y, fmaf(c, weight[row].z, fmaf(d, weight[row].w, sums[row][i]))));
        }
    }
}

// ROWS rows per warp.
template <typename T, int BOUND, int ROWS>
__device__ __forceinline__ void forward(const T *q, const T *k, const T *v, T *out, float *lse, const float *key_mask,
                                        int heads, int queries, int keys, i64 q_stride, i64 kv_stride, i64 out_stride,
                                        float scale, int head_dim) {
    const int OWN = ROWS * WARPS, PITCH = BOUND + 1;
    extern __shared__ __align__(16) float shared[];
    float *own = shared, *weights = own + OWN * BOUND, *key_tile = weights + OWN * OTHERS;
    float *value_tile = key_tile + OTHERS * PITCH;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int blocks = (queries + OWN - 1) / OWN, pair = blockIdx.x / blocks, first = blockIdx.x % blocks * OWN;
    i64 group = pair / heads, head = pair % heads;
    q += (group * queries + first) * q_stride + head * head_dim;
    out += (group * queries + first) * out_stride + head * head_dim;
    k += group * keys * kv_stride + head * head_dim, v += group * keys * kv_stride + head * head_dim;
    lse += (group * heads + head) * queries + first;
    if (key_mask) key_mask += group * keys;

    copy_rows<T, BOUND, OWN, BOUND>(own, q, q_stride, queries - first, head_dim);
    own += warp * ROWS * BOUND, weights += warp * ROWS * OTHERS;
    float highest[ROWS], total[ROWS], sums[ROWS][BOUND / 32];
#pragma unroll
    for (int row = 0; row < ROWS; row++) {
        highest[row] = -infinity(), total[row] = 0.0f;
#pragma unroll
        for (int i = 0; i < BOUND / 32; i++) sums[row][i] = 0.0f;
    }
    for (int start = 0; start < keys; start += OTHERS) {
        __syncthreads();
        copy_rows<T, BOUND, OTHERS, PITCH>(key_tile, k + start * kv_stride, kv_stride, keys - start, head_dim);
        copy_rows<T, BOUND, OTHERS, PITCH>(value_tile, v + start * kv_stride, kv_stride, keys - start, head_dim);
        __syncthreads();
        float scores[ROWS];
        multiply_rows<BOUND, ROWS>(scores, own, key_tile + lane * PITCH);
        bool visible = start + lane < keys && (!key_mask || key_mask[start + lane] != 0.0f);
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            float score = visible ? scores[row] * (scale * LOG2_E) : -infinity();
            float top = fmaxf(highest[row], warp_maximum(score));
            // Before the first visible key there is nothing to shrink and nothing to measure from.
            float shrink = top == -infinity() ? 1.0f : exp2f(highest[row] - top);
            float weight = visible ? exp2f(score - top) : 0.0f;
            highest[row] = top;
            total[row] = total[row] * shrink + warp_sum(weight);
            weights[row * OTHERS + lane] = weight;
#pragma unroll
            for (int i = 0; i < BOUND / 32; i++) sums[row][i] *= shrink;
        }
        __syncwarp();
        add_weighted<BOUND, ROWS>(sums, weights, value_tile);
    }
#pragma unroll
    for (int row = 0; row < ROWS; row++) {
        int place = warp * ROWS + row;
        if (first + place >= queries) continue;
        float inverse = total[row] > 0.0f ? 1.0f / total[row] : 0.0f;
        if (lane == 0) lse[place] = total[row] > 0.0f ? (highest[row] + log2f(total[row])) * LN_2 : -infinity();
#pragma unroll
        for (int i = 0; i < BOUND / 32; i++)
            if (lane + 32 * i < head_dim)
                out[place * out_stride + lane + 32 * i] = from_float<T>(sums[row][i] * inverse);
    }
}

template <typename T>
__device__ __forceinline__ void delta_of(const T *out, const T *dout, float *delta, int groups, int heads, int queries,
                                         i64 out_stride, int head_dim) {
    int lane = threadIdx.x % 32;
    i64 index = (i64)blockIdx.x * WARPS + threadIdx.x / 32;
    if (index >= (i64)groups * heads * queries) return;
    i64 pair = index / queries, row = pair / heads * queries + index % queries;
    i64 place = row * out_stride + pair % heads * head_dim;
    float sum = 0.0f;
    for (int channel = lane; channel < head_dim; channel += 32)
        sum = fmaf(to_float(out[place + channel]), to_float(dout[place + channel]), sum);
    sum = warp_sum(sum);
    if (lane == 0) delta[index] = sum;
}

// With FOR_KEYS the block owns keys and values and walks over queries, else the other way around; S and
// dO·Vᵀ are products of the same pairs of rows in both.
template <typename T, int BOUND, int ROWS, bool FOR_KEYS>
__device__ __forceinline__ void backward(const T *q, const T *k, const T *v, const T *dout, const float *lse,
                                         const float *delta, const float *key_mask, T *dq, T *dk, T *dv, int heads,
                                         int queries, int keys, i64 q_stride, i64 kv_stride, i64 out_stride,
                                         i64 dq_stride, i64 dkv_stride, float scale, int head_dim) {
    const int OWN = ROWS * WARPS, PITCH = BOUND + 1;
    extern __shared__ __align__(16) float shared[];
    float *own_first = shared, *own_second = own_first + OWN * BOUND, *slopes = own_second + OWN * BOUND;
    float *chances = slopes + OWN * OTHERS, *other_first = chances + OWN * OTHERS;
    float *other_second = other_first + OTHERS * PITCH;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int owned = FOR_KEYS ? keys : queries, others = FOR_KEYS ? queries : keys;
    int blocks = (owned + OWN - 1) / OWN, pair = blockIdx.x / blocks, first = blockIdx.x % blocks * OWN;
    i64 group = pair / heads, head = pair % heads, own_row = first;
    q += group * queries * q_stride + head * head_dim, dout += group * queries * out_stride + head * head_dim;
    k += group * keys * kv_stride + head * head_dim, v += group * keys * kv_stride + head * head_dim;
    lse += (i64)pair * queries, delta += (i64)pair * queries;
    if (key_mask) key_mask += group * keys;

    if (FOR_KEYS) {
        copy_rows<T, BOUND, OWN, BOUND>(own_first, k + own_row * kv_stride, kv_stride, keys - first, head_dim);
        copy_rows<T, BOUND, OWN, BOUND>(own_second, v + own_row * kv_stride, kv_stride, keys - first, head_dim);
    } else {
        copy_rows<T, BOUND, OWN, BOUND>(own_first, q + own_row * q_stride, q_stride, queries - first, head_dim);
        copy_rows<T, BOUND, OWN, BOUND>(own_second, dout + own_row * out_stride, out_stride, queries - first, head_dim);
    }
    own_first += warp * ROWS * BOUND, own_second += warp * ROWS * BOUND;
    slopes += warp * ROWS * OTHERS, chances += warp * ROWS * OTHERS;
    float first_sums[ROWS][BOUND / 32], second_sums[FOR_KEYS ? ROWS : 1][BOUND / 32];
#pragma unroll
    for (int row = 0; row < ROWS; row++)
#pragma unroll
        for (int i = 0; i < BOUND / 32; i++) {
            first_sums[row][i] = 0.0f;
            if (FOR_KEYS) second_sums[row][i] = 0.0f;
        }
    for (int start = 0; start < others; start += OTHERS) {
        i64 other_row = start;
        __syncthreads();
        if (FOR_KEYS) {
            copy_rows<T, BOUND, OTHERS, PITCH>(other_first, q + other_row * q_stride, q_stride, others - start,
                                               head_dim);
            copy_rows<T, BOUND, OTHERS, PITCH>(other_second, dout + other_row * out_stride, out_stride, others - start,
                                               head_dim);
        } else {
            copy_rows<T, BOUND, OTHERS, PITCH>(other_first, k + other_row * kv_stride, kv_stride, others - start,
                                               head_dim);
            copy_rows<T, BOUND, OTHERS, PITCH>(other_second, v + other_row * kv_stride, kv_stride, others - start,
                                               head_dim);
        }
        __syncthreads();
        float scores[ROWS], inner[ROWS];
        multiply_rows<BOUND, ROWS>(scores, own_first, other_first + lane * PITCH);
        multiply_rows<BOUND, ROWS>(inner, own_second, other_second + lane * PITCH);
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            int own = first + warp * ROWS + row, other = start + lane;
            int query = FOR_KEYS ? other : own, key = FOR_KEYS ? own : other;
            bool visible = query < queries && key < keys && (!key_mask || key_mask[key] != 0.0f);
            float chance = visible ? exp2f((scores[row] * scale - lse[query]) * LOG2_E) : 0.0f;
            slopes[row * OTHERS + lane] = visible ? chance * (inner[row] - delta[query]) * scale : 0.0f;
            if (FOR_KEYS) chances[row * OTHERS + lane] = chance;
        }
        __syncwarp();
        add_weighted<BOUND, ROWS>(first_sums, slopes, other_first);
        if constexpr (FOR_KEYS) add_weighted<BOUND, ROWS>(second_sums, chances, other_second);
    }
#pragma unroll
    for (int row = 0; row < ROWS; row++) {
        i64 own = first + warp * ROWS + row;
        if (own >= owned) continue;
#pragma unroll
        for (int i = 0; i < BOUND / 32; i++) {
            int channel = lane + 32 * i;
            if (channel >= head_dim) continue;
            if (FOR_KEYS) {
                i64 place = (group * keys + own) * dkv_stride + head * head_dim + channel;
                dk[place] = from_float<T>(first_sums[row][i]);
                dv[place] = from_float<T>(second_sums[row][i]);
            } else {
                dq[(group * queries + own) * dq_stride + head * head_dim + channel] = from_float<T>(first_sums[row][i]);
            }
        }
    }
}

#define BACKWARD(SIDE, FOR_KEYS, NAME, T, BOUND, ROWS)                                                                \
    extern "C" __global__ void __launch_bounds__(128) attention_backward_##SIDE##_plain_##NAME##_##BOUND(             \
        const T *q, const T *k, const T *v, const T *out, const T *dout, const float *lse, const float *delta,        \
        const float *key_mask, T *dq, T *dk, T *dv, float *scratch, int groups, int heads, int queries, int keys,     \
        i64 q_stride, i64 kv_stride, i64 out_stride, i64 dq_stride, i64 dkv_stride, float scale, int head_dim) {      \
        backward<T, BOUND, ROWS, FOR_KEYS>(q, k, v, dout, lse, delta, key_mask, dq, dk, dv, heads, queries, keys,     \
                                           q_stride, kv_stride, out_stride, dq_stride, dkv_stride, scale, head_dim);  \
    }

#define BOUNDED(NAME, T, BOUND, FORWARD_ROWS, BACKWARD_ROWS)                                                          \
    extern "C" __global__ void __launch_bounds__(128) attention_forward_plain_##NAME##_##BOUND(                       \
        const T *q, const T *k, const T *v, T *out, float *lse, const float *key_mask, int groups, int heads,         \
        int queries, int keys, i64 q_stride, i64 kv_stride, i64 out_stride, float scale, int head_dim) {              \
        forward<T, BOUND, FORWARD_ROWS>(q, k, v, out, lse, key_mask, heads, queries, keys, q_stride, kv_stride,       \
                                        out_stride, scale, head_dim);                                                 \
    }                                                                                                                 \
    BACKWARD(query, false, NAME, T, BOUND, BACKWARD_ROWS)                                                             \
    BACKWARD(key, true, NAME, T, BOUND, BACKWARD_ROWS)

#define ELEMENT(NAME, T)                                                                                              \
    extern "C" __global__ void __launch_bounds__(128) attention_delta_plain_##NAME(                                   \
        const T *out, const T *dout, float *delta, int groups, int heads, int queries, i64 out_stride,                \
        int head_dim) {                                                                                               \
        delta_of<T>(out, dout, delta, groups, heads, queries, out_stride, head_dim);                                  \
    }                                                                                                                 \
    BOUNDED(NAME, T, 32, 8, 8)                                                                                        \
    BOUNDED(NAME, T, 64, 8, 8)                                                                                        \
    BOUNDED(NAME, T, 128, 8, 8)                                                                                       \
    BOUNDED(NAME, T, 256, 4, 2)

ELEMENT(f32, float)
ELEMENT(bf16, bf16)
