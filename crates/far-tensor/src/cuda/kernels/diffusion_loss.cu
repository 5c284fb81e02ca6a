// Squared error plus variational bound by sample; the formulas are in diffusion_loss.rs. `blocks`
// blocks share a sample; targets, clean data and weights are f32, weights may be null.

// What the host writes for each sample.
struct Coefficients {
    double low, high, mean_scale, first;
};

// −ln of the probability of the bin of `clean`, and its slope by the variance logit: in double
// precision, since differences of distribution functions cancel.
__device__ __forceinline__ void likelihood(const Coefficients &of, double error, double logit,
                                           double clean, double &value, double &slope) {
    const double half_bin = 1.0 / 255.0, floor = 1e-12, root = 0.79788456080286535588;
    double spread = of.high - of.low;
    double inverse = exp(-0.5 * (of.low + 0.5 * (logit + 1.0) * spread));
    double probability[2], change[2];
#pragma unroll
    for (int side = 0; side < 2; side++) {
        double edge = side == 0 ? half_bin : -half_bin;
        double z = (of.mean_scale * error + edge) * inverse;
        double tangent = tanh(root * (z + 0.044715 * z * z * z));
        double density =
            0.5 * (1.0 - tangent * tangent) * root * (1.0 + 3.0 * 0.044715 * z * z);
        probability[side] = 0.5 * (1.0 + tangent);
        change[side] = -0.5 * z * density;
    }
    double inside = probability[0] - probability[1], by = change[0] - change[1];
    if (clean < -0.999) inside = probability[0], by = change[0];
    else if (clean > 0.999) inside = 1.0 - probability[1], by = -change[1];
    if (inside < floor) {
        value = -log(floor);
        slope = 0.0;
        return;
    }
    value = -log(inside);
    slope = -by / inside * 0.5 * spread;
}

// The divergence of one element in nats, and its slope by the variance logit.
__device__ __forceinline__ void divergence(float spread, float error_factor, float error,
                                           float logit, float &value, float &slope) {
    float excess = 0.5f * (logit + 1.0f) * spread;
    float far = error * error * error_factor + 1.0f;
    float decay = expf(-excess);
    value = 0.5f * (decay * far + (excess - 1.0f));
    slope = 0.25f * spread * (1.0f - decay * far);
}

// One element: the bound in nats and its slope by the logit.
__device__ __forceinline__ void bound_of(const Coefficients &of, float error_factor, float error,
                                         float logit, float clean, double &value, double &slope) {
    if (of.first != 0.0) {
        likelihood(of, error, logit, clean, value, slope);
        return;
    }
    float single_value, single_slope;
    divergence((float)(of.high - of.low), error_factor, error, logit, single_value, single_slope);
    value = single_value;
    slope = single_slope;
}

__device__ __forceinline__ float error_factor_of(const Coefficients &of) {
    return (float)(of.mean_scale * of.mean_scale * exp(-of.low));
}

// partials [sample, block, 2] ← Σ w(p̂ − p)² and Σ of the bound.
template <typename T>
__device__ __forceinline__ void diffusion_partials(const T *output, const float *target,
                                                   const float *clean, const float *weights,
                                                   const Coefficients *coefficients,
                                                   double *partials, i64 elements, i64 blocks) {
    i64 sample = blockIdx.x / blocks, block = blockIdx.x % blocks;
    Coefficients of = coefficients[sample];
    float error_factor = error_factor_of(of);
    output += sample * 2 * elements, target += sample * elements, clean += sample * elements;
    if (weights) weights += sample * elements;
    double errors = 0.0, bounds = 0.0;
    for (i64 index = block * blockDim.x + threadIdx.x; index < elements;
         index += blocks * blockDim.x) {
        float error = to_float(output[index]) - target[index];
        float square = error * error;
        errors += weights ? weights[index] * square : square;
        double value, slope;
        bound_of(of, error_factor, error, to_float(output[elements + index]), clean[index], value,
                 slope);
        bounds += value;
    }
    errors = block_total(errors);
    bounds = block_total(bounds);
    if (threadIdx.x == 0) {
        partials[2 * (i64)blockIdx.x] = errors;
        partials[2 * (i64)blockIdx.x + 1] = bounds;
    }
}

// loss, error and bound of each sample: a thread per sample.
extern "C" __global__ void diffusion_finish(const double *partials, float *loss, float *error,
                                            float *bound, i64 batch, i64 elements, i64 blocks,
                                            float bound_weight) {
    i64 sample = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (sample >= batch) return;
    double errors = 0.0, bounds = 0.0;
    for (i64 block = sample * blocks; block < (sample + 1) * blocks; block++) {
        errors += partials[2 * block];
        bounds += partials[2 * block + 1];
    }
    float mean_error = (float)(errors / (double)elements);
    float bits = (float)(bounds / ((double)elements * 0.69314718055994530942));
    error[sample] = mean_error;
    bound[sample] = bits;
    loss[sample] = mean_error + bound_weight * bits;
}

template <typename T>
__device__ __forceinline__ void diffusion_backward(const float *upstream, const T *output,
                                                   const float *target, const float *clean,
                                                   const float *weights,
                                                   const Coefficients *coefficients, T *gradient,
                                                   i64 elements, i64 blocks, float bound_weight,
                                                   int accumulate) {
    i64 sample = blockIdx.x / blocks, block = blockIdx.x % blocks;
    Coefficients of = coefficients[sample];
    float error_factor = error_factor_of(of);
    float share = upstream[sample] / (float)elements;
    float bound_share = share * bound_weight / 0.69314718f;
    output += sample * 2 * elements, gradient += sample * 2 * elements;
    target += sample * elements, clean += sample * elements;
    if (weights) weights += sample * elements;
    for (i64 index = block * blockDim.x + threadIdx.x; index < elements;
         index += blocks * blockDim.x) {
        float error = to_float(output[index]) - target[index];
        double value, slope;
        bound_of(of, error_factor, error, to_float(output[elements + index]), clean[index], value,
                 slope);
        float own = 2.0f * share * error * (weights ? weights[index] : 1.0f);
        float of_logit = bound_share * (float)slope;
        if (accumulate) {
            own += to_float(gradient[index]);
            of_logit += to_float(gradient[elements + index]);
        }
        gradient[index] = from_float<T>(own);
        gradient[elements + index] = from_float<T>(of_logit);
    }
}

#define DIFFUSION(suffix, T)                                                                       \
    extern "C" __global__ void diffusion_partials_##suffix(                                        \
        const T *output, const float *target, const float *clean, const float *weights,            \
        const Coefficients *coefficients, double *partials, i64 elements, i64 blocks) {            \
        diffusion_partials(output, target, clean, weights, coefficients, partials, elements,       \
                           blocks);                                                                \
    }                                                                                              \
    extern "C" __global__ void diffusion_backward_##suffix(                                        \
        const float *upstream, const T *output, const float *target, const float *clean,           \
        const float *weights, const Coefficients *coefficients, T *gradient, i64 elements,         \
        i64 blocks, float bound_weight, int accumulate) {                                          \
        diffusion_backward(upstream, output, target, clean, weights, coefficients, gradient,       \
                           elements, blocks, bound_weight, accumulate);                            \
    }

DIFFUSION(f32, float)
DIFFUSION(bf16, bf16)
