// Sums over everything or over one axis; the formulas are in reduction.rs.

// partials[block] ← the sum of what the threads of a block stride over.
template <typename T>
__device__ __forceinline__ void total_partials(const T *values, float *partials, i64 length) {
    float sum = 0.0f;
    i64 stride = (i64)gridDim.x * blockDim.x;
    for (i64 index = (i64)blockIdx.x * blockDim.x + threadIdx.x; index < length; index += stride)
        sum += to_float(values[index]);
    double total = block_total(sum);
    if (threadIdx.x == 0) partials[blockIdx.x] = (float)total;
}

// target[0] ← factor · Σ partials: one block.
extern "C" __global__ void total_finish(const float *partials, float *target, i64 count,
                                        float factor) {
    double sum = 0.0;
    for (i64 index = threadIdx.x; index < count; index += blockDim.x) sum += partials[index];
    sum = block_total(sum);
    if (threadIdx.x == 0) target[0] = (float)sum * factor;
}

// gradient ← factor · upstream[0] everywhere, or added.
template <typename T>
__device__ __forceinline__ void total_backward(const float *upstream, T *gradient, i64 length,
                                               float factor, int accumulate) {
    i64 index = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= length) return;
    float value = upstream[0] * factor;
    if (accumulate) value += to_float(gradient[index]);
    gradient[index] = from_float<T>(value);
}

// y[outer, inner] ← factor · Σ over the axis between: a block takes 32 neighbors of one outer index,
// each of its warps every so many rows.
template <typename T>
__device__ __forceinline__ void axis_forward(const T *x, T *y, i64 extent, i64 inner,
                                             float factor) {
    __shared__ float scratch[256];
    i64 tiles = (inner + 31) / 32, outer = blockIdx.x / tiles;
    i64 column = blockIdx.x % tiles * 32 + threadIdx.x % 32;
    int slice = threadIdx.x / 32, slices = blockDim.x / 32;
    float sum = 0.0f;
    if (column < inner)
        for (i64 row = slice; row < extent; row += slices)
            sum += to_float(x[(outer * extent + row) * inner + column]);
    scratch[threadIdx.x] = sum;
    __syncthreads();
    if (slice > 0 || column >= inner) return;
    for (int other = 1; other < slices; other++) sum += scratch[32 * other + threadIdx.x];
    y[outer * inner + column] = from_float<T>(sum * factor);
}

// The same where the axis is the last: a block per row.
template <typename T>
__device__ __forceinline__ void last_axis_forward(const T *x, T *y, i64 extent, float factor) {
    __shared__ float scratch[32];
    x += (i64)blockIdx.x * extent;
    float sum = 0.0f;
    for (i64 index = threadIdx.x; index < extent; index += blockDim.x) sum += to_float(x[index]);
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0) y[blockIdx.x] = from_float<T>(sum * factor);
}

template <typename T>
__device__ __forceinline__ void axis_backward(const T *upstream, T *gradient, i64 length,
                                              i64 extent, i64 inner, float factor,
                                              int accumulate) {
    i64 index = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= length) return;
    i64 source = index / (extent * inner) * inner + index % inner;
    float value = to_float(upstream[source]) * factor;
    if (accumulate) value += to_float(gradient[index]);
    gradient[index] = from_float<T>(value);
}

#define REDUCTION(suffix, T)                                                                       \
    extern "C" __global__ void total_partials_##suffix(const T *values, float *partials,           \
                                                       i64 length) {                               \
        total_partials(values, partials, length);                                                  \
    }                                                                                              \
    extern "C" __global__ void total_backward_##suffix(const float *upstream, T *gradient,         \
                                                       i64 length, float factor,                   \
                                                       int accumulate) {                           \
        total_backward(upstream, gradient, length, factor, accumulate);                            \
    }                                                                                              \
    extern "C" __global__ void axis_forward_##suffix(const T *x, T *y, i64 extent, i64 inner,      \
                                                     float factor) {                               \
        axis_forward(x, y, extent, inner, factor);                                                 \
    }                                                                                              \
    extern "C" __global__ void last_axis_forward_##suffix(const T *x, T *y, i64 extent,            \
                                                          float factor) {                          \
        last_axis_forward(x, y, extent, factor);                                                   \
    }                                                                                              \
    extern "C" __global__ void axis_backward_##suffix(const T *upstream, T *gradient, i64 length,  \
                                                      i64 extent, i64 inner, float factor,         \
                                                      int accumulate) {                            \
        axis_backward(upstream, gradient, length, extent, inner, factor, accumulate);              \
    }

REDUCTION(f32, float)
REDUCTION(bf16, bf16)
