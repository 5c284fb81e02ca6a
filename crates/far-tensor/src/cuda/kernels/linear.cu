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
    const int width = Vector<T>::width;
    i64 first = width * ((i64)blockIdx.x * blockDim.x + threadIdx.x);
    if (first + width <= length) {
        float values[width], at[width];
        load_vector(gradient + first, values);
        load_vector(before + first, at);
#pragma unroll
        for (int step = 0; step < width; step++) values[step] *= gelu_slope(at[step]);
        store_vector(gradient + first, values);
    } else {
        for (i64 index = first; index < length; index++)
            gradient[index] =
                from_float<T>(to_float(gradient[index]) * gelu_slope(to_float(before[index])));
    }
}

// partials[part, column] ← the sum over the rows of a part: one thread per column, blockIdx.y the
// part, so that neighbors read neighbors.
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

// target[column] ← Σ over the parts, added if `accumulate`.
extern "C" __global__ void add_partials(const float *partials, float *target, i64 parts, i64 width,
                                        int accumulate) {
    i64 column = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= width) return;
    float sum = accumulate ? target[column] : 0.0f;
    for (i64 part = 0; part < parts; part++) sum += partials[part * width + column];
    target[column] = sum;
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
    }

LINEAR(f32, float)
LINEAR(bf16, bf16)
