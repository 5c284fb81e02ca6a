// What surrounds matrix products where the library cannot fuse it, and sums over rows.

// y ← y + bias, row by row.
template <typename T>
__device__ __forceinline__ void add_bias(T *target, const T *bias, i64 rows, i64 width) {
    i64 index = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= rows * width) return;
    target[index] = from_float<T>(to_float(target[index]) + to_float(bias[index % width]));
}

// GELU in the tanh form: x·σ(2u) with u = √(2/π)(x + 0.044715x³).
__device__ __forceinline__ float gelu_gate(float x) {
    float argument = 1.595769122f * x * (1.0f + 0.044715f * x * x);
    return 1.0f / (1.0f + __expf(-argument));
}

__device__ __forceinline__ float gelu(float x) { return x * gelu_gate(x); }

__device__ __forceinline__ float gelu_slope(float x) {
    float gate = gelu_gate(x);
    float inner = 1.595769122f * (1.0f + 3.0f * 0.044715f * x * x);
    return gate * (1.0f + x * (1.0f - gate) * inner);
}

// y ← GELU(x); `target` may be `source`.
template <typename T>
__device__ __forceinline__ void apply_gelu(const T *source, T *target, i64 length) {
    const int width = Vector<T>::width;
    i64 first = width * ((i64)blockIdx.x * blockDim.x + threadIdx.x);
    if (first + width <= length) {
        float values[width];
        load_vector(source + first, values);
#pragma unroll
        for (int step = 0; step < width; step++) values[step] = gelu(values[step]);
        store_vector(target + first, values);
    } else {
        for (i64 index = first; index < length; index++)
            target[index] = from_float<T>(gelu(to_float(source[index])));
    }
}

// d ← d·GELU'(x) in place.
template <typename T>
__device__ __forceinline__ void apply_gelu_slope(T *gradient, const T *before, i64 length) {
    i64 index = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= length) return;
    gradient[index] = from_float<T>(to_float(gradient[index]) * gelu_slope(to_float(before[index])));
}

// partials[part, column] ← the sum over the rows of a part: one thread per column, blockIdx.y the
// part, so that neighbors read neighbors. For any width.
template <typename T>
__device__ __forceinline__ void column_sums(const T *source, float *partials, i64 rows, i64 width,
                                            i64 part_rows) {
    i64 column = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= width) return;
    i64 first = blockIdx.y * part_rows, end = first + part_rows < rows ? first + part_rows : rows;
    float sum = 0.0f;
    for (i64 row = first; row < end; row++) sum += to_float(source[row * width + column]);
    partials[blockIdx.y * width + column] = sum;
}

// The same for widths of whole vectors: 256 threads, of which each warp takes 32 neighboring vectors
// of one row, and the eight warps rows in turn, several of which a thread has under way at once. With
// GELU, on the way: gradient ← gradient·GELU'(before) in place, and the sums are of that gradient. Rows
// are `stride` apart, in the matrix and in the sums.
template <typename T, bool GELU>
__device__ __forceinline__ void strip_sums(T *gradient, const T *before, float *partials, i64 rows,
                                           i64 width, i64 part_rows, i64 stride) {
    const int vector = Vector<T>::width, lanes = 32, warps = 8, batch = GELU ? 4 : 8;
    __shared__ float sums[warps][lanes * vector];
    int lane = threadIdx.x % lanes, warp = threadIdx.x / lanes;
    i64 column = ((i64)blockIdx.x * lanes + lane) * vector;
    i64 first = blockIdx.y * part_rows, end = first + part_rows < rows ? first + part_rows : rows;
    float sum[vector];
#pragma unroll
    for (int step = 0; step < vector; step++) sum[step] = 0.0f;
    if (column < width) {
        for (i64 row = first + warp; row < end; row += warps * batch) {
            // Rows past the end are zeros, which add nothing.
            uint4 raw_d[batch], raw_x[batch];
#pragma unroll
            for (int index = 0; index < batch; index++) {
                i64 own = row + index * warps, place = own * stride + column;
                raw_d[index] = load_raw(gradient + place, own < end);
                if (GELU) raw_x[index] = load_raw(before + place, own < end);
            }
#pragma unroll
            for (int index = 0; index < batch; index++) {
                float d[vector];
                load_vector((const T *)&raw_d[index], d);
                if (GELU) {
                    float x[vector];
                    load_vector((const T *)&raw_x[index], x);
#pragma unroll
                    for (int step = 0; step < vector; step++) d[step] *= gelu_slope(x[step]);
                    i64 own = row + index * warps;
                    if (own < end) store_vector(gradient + own * stride + column, d);
                }
#pragma unroll
                for (int step = 0; step < vector; step++) sum[step] += d[step];
            }
        }
    }
#pragma unroll
    for (int step = 0; step < vector; step++) sums[warp][lane * vector + step] = sum[step];
    __syncthreads();
    for (int index = threadIdx.x; index < lanes * vector; index += blockDim.x) {
        i64 place = (i64)blockIdx.x * lanes * vector + index;
        if (place >= width) continue;
        float total = 0.0f;
#pragma unroll
        for (int other = 0; other < warps; other++) total += sums[other][index];
        partials[blockIdx.y * stride + place] = total;
    }
}

// target[column] ← Σ over the parts, added if `accumulate`: a warp has 32 columns, and the warps of a
// block (at most 32) parts in turn.
extern "C" __global__ void __launch_bounds__(1024) add_partials(const float *partials,
                                                                float *target, i64 parts,
                                                                i64 width, int accumulate) {
    __shared__ float sums[32][33];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    i64 column = (i64)blockIdx.x * 32 + lane;
    float sum = 0.0f;
    if (column < width)
#pragma unroll 4
        for (i64 part = warp; part < parts; part += warps) sum += partials[part * width + column];
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || column >= width) return;
    float total = accumulate ? target[column] : 0.0f;
    for (int other = 0; other < warps; other++) total += sums[other][lane];
    target[column] = total;
}

#define LINEAR(suffix, T)                                                                          \
    extern "C" __global__ void add_bias_##suffix(T *target, const T *bias, i64 rows, i64 width) {  \
        add_bias(target, bias, rows, width);                                                       \
    }                                                                                              \
    extern "C" __global__ void gelu_##suffix(const T *source, T *target, i64 length) {             \
        apply_gelu(source, target, length);                                                        \
    }                                                                                              \
    extern "C" __global__ void gelu_slope_##suffix(T *gradient, const T *before, i64 length) {     \
        apply_gelu_slope(gradient, before, length);                                                \
    }                                                                                              \
    extern "C" __global__ void column_sums_##suffix(const T *source, float *partials, i64 rows,    \
                                                    i64 width, i64 part_rows) {                    \
        column_sums(source, partials, rows, width, part_rows);                                     \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(256, 4) strip_sums_##suffix(                      \
        T *source, float *partials, i64 rows, i64 width, i64 part_rows, i64 stride) {              \
        strip_sums<T, false>(source, nullptr, partials, rows, width, part_rows, stride);           \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(256, 4) gelu_backward_##suffix(                   \
        T *gradient, const T *before, float *partials, i64 rows, i64 width, i64 part_rows) {       \
        strip_sums<T, true>(gradient, before, partials, rows, width, part_rows, width);            \
    }

LINEAR(f32, float)
LINEAR(bf16, bf16)
