// Losses that are means over all elements or over those of a sample; the formulas are in loss.rs. Targets and weights are f32,
// weights may be null.

enum Kind { SQUARED, SMOOTH_L1, CROSS_ENTROPY };

__device__ __forceinline__ float loss_value(int kind, float x, float target, float beta) {
    if (kind == CROSS_ENTROPY) {
        // `fmaxf` would turn a NaN into zero.
        float positive = x < 0.0f ? 0.0f : x;
        return positive - x * target + log1pf(expf(-fabsf(x)));
    }
    float error = fabsf(x - target);
    if (kind == SQUARED) return error * error;
    return error < beta ? 0.5f * error * error / beta : error - 0.5f * beta;
}

__device__ __forceinline__ float loss_slope(int kind, float x, float target, float beta) {
    if (kind == CROSS_ENTROPY) return 1.0f / (1.0f + expf(-x)) - target;
    float error = x - target;
    if (kind == SQUARED) return 2.0f * error;
    if (fabsf(error) < beta) return error / beta;
    return error != error ? error : copysignf(1.0f, error);
}

// partials[block] ← Σ w·ℓ of what the threads of a block stride over.
template <typename T>
__device__ __forceinline__ void loss_partials(const T *x, const float *target,
                                              const float *weights, float *partials, i64 length,
                                              int kind, float beta) {
    float sum = 0.0f;
    i64 stride = (i64)gridDim.x * blockDim.x;
    for (i64 index = (i64)blockIdx.x * blockDim.x + threadIdx.x; index < length; index += stride) {
        float value = loss_value(kind, to_float(x[index]), target[index], beta);
        sum += weights ? weights[index] * value : value;
    }
    double total = block_total(sum);
    if (threadIdx.x == 0) partials[blockIdx.x] = (float)total;
}

// means[block] ← (1/each) Σ w·ℓ over the `each` elements of a sample, one block per sample.
template <typename T>
__device__ __forceinline__ void loss_samples(const T *x, const float *target, const float *weights,
                                             float *means, i64 each, int kind, float beta) {
    float sum = 0.0f;
    i64 first = blockIdx.x * each, end = first + each;
    for (i64 index = first + threadIdx.x; index < end; index += blockDim.x) {
        float value = loss_value(kind, to_float(x[index]), target[index], beta);
        sum += weights ? weights[index] * value : value;
    }
    double total = block_total(sum);
    if (threadIdx.x == 0) means[blockIdx.x] = (float)(total / each);
}

// gradient ← upstream of the sample·w·dℓ/dx/each, or added; a sample has `each` elements.
template <typename T>
__device__ __forceinline__ void loss_backward(const float *upstream, const T *x,
                                              const float *target, const float *weights,
                                              T *gradient, i64 length, i64 each, int kind,
                                              float beta, int accumulate) {
    i64 index = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= length) return;
    float share = upstream[index / each] / each;
    float value = share * loss_slope(kind, to_float(x[index]), target[index], beta);
    if (weights) value *= weights[index];
    if (accumulate) value += to_float(gradient[index]);
    gradient[index] = from_float<T>(value);
}

#define LOSS(suffix, T)                                                                            \
    extern "C" __global__ void loss_partials_##suffix(const T *x, const float *target,             \
                                                      const float *weights, float *partials,       \
                                                      i64 length, int kind, float beta) {          \
        loss_partials(x, target, weights, partials, length, kind, beta);                           \
    }                                                                                              \
    extern "C" __global__ void loss_backward_##suffix(                                             \
        const float *upstream, const T *x, const float *target, const float *weights, T *gradient, \
        i64 length, i64 each, int kind, float beta, int accumulate) {                              \
        loss_backward(upstream, x, target, weights, gradient, length, each, kind, beta,            \
                      accumulate);                                                                 \
    }                                                                                              \
    extern "C" __global__ void loss_samples_##suffix(const T *x, const float *target,              \
                                                     const float *weights, float *means,           \
                                                     i64 each, int kind, float beta) {             \
        loss_samples(x, target, weights, means, each, kind, beta);                                 \
    }

LOSS(f32, float)
LOSS(bf16, bf16)
