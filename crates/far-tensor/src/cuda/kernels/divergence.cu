// Kullback–Leibler divergence of softmax scores from a target, row by row: results and their
// gradients are f32, since a loss is made of them.

template <typename T>
__device__ __forceinline__ void divergence(const T *target, const T *scores, const T *mask,
                                           float *result, i64 rows, i64 width, int size) {
    Team team(size);
    if (team.row >= rows) return;
    i64 start = team.row * width;
    target += start, scores += start;
    if (mask) mask += start;
    Normalizer of = normalizer(team, scores, mask, width);
    float log_sum = of.log_sum();
    float sum = team.sum(width, [=](i64 n) {
        float q = to_float(target[n]), log_p = to_float(scores[n]) - of.largest - log_sum;
        return is_valid(mask, n) && q != 0.0f ? q * (logf(q) - log_p) : 0.0f;
    });
    if (team.rank == 0) result[team.row] = sum;
}

template <typename T>
__device__ __forceinline__ void divergence_backward(const float *upstream, const T *target,
                                                    const T *scores, const T *mask, T *gradient,
                                                    i64 rows, i64 width, int size, int accumulate) {
    Team team(size);
    if (team.row >= rows) return;
    i64 start = team.row * width;
    target += start, scores += start, gradient += start;
    if (mask) mask += start;
    Normalizer of = normalizer(team, scores, mask, width);
    float mass =
        team.sum(width, [=](i64 n) { return is_valid(mask, n) ? to_float(target[n]) : 0.0f; });
    float factor = upstream[team.row];
    for (i64 n = team.rank; n < width; n += team.size) {
        float p = of.probability(to_float(scores[n]));
        float slope = factor * (p * mass - to_float(target[n]));
        put(gradient + n, is_valid(mask, n) ? slope : 0.0f, accumulate);
    }
}

#define DIVERGENCE(suffix, T)                                                                      \
    extern "C" __global__ void divergence_##suffix(const T *target, const T *scores,               \
                                                   const T *mask, float *result, i64 rows,         \
                                                   i64 width, int size) {                          \
        divergence(target, scores, mask, result, rows, width, size);                               \
    }                                                                                              \
    extern "C" __global__ void divergence_backward_##suffix(                                       \
        const float *upstream, const T *target, const T *scores, const T *mask, T *gradient,       \
        i64 rows, i64 width, int size, int accumulate) {                                           \
        divergence_backward(upstream, target, scores, mask, gradient, rows, width, size,           \
                            accumulate);                                                           \
    }
DIVERGENCE(f32, float)
DIVERGENCE(bf16, bf16)
