// Softmax, its logarithm, and log-sum-exp of rows; forms in the order of `Form`.

template <typename T>
__device__ __forceinline__ void softmax(const T *x, const T *mask, T *target, i64 rows, i64 width,
                                        int form, int size) {
    Team team(size);
    if (team.row >= rows) return;
    x += team.row * width;
    if (mask) mask += team.row * width;
    Normalizer of = normalizer(team, x, mask, width);
    float level = of.largest + of.log_sum();
    if (form == 2) {
        if (team.rank == 0) target[team.row] = from_float<T>(level);
        return;
    }
    target += team.row * width;
    for (i64 n = team.rank; n < width; n += team.size) {
        float value = to_float(x[n]);
        value = form == 0 ? of.probability(value) : value - of.largest - of.log_sum();
        target[n] = from_float<T>(is_valid(mask, n) ? value : 0.0f);
    }
}

// `y` is the result, of which log-sum-exp makes no use.
template <typename T>
__device__ __forceinline__ void softmax_backward(const T *upstream, const T *x, const T *y,
                                                 const T *mask, T *gradient, i64 rows, i64 width,
                                                 int form, int size, int accumulate) {
    Team team(size);
    if (team.row >= rows) return;
    i64 start = team.row * width;
    x += start, gradient += start;
    if (mask) mask += start;
    if (form == 2) {
        float factor = to_float(upstream[team.row]);
        Normalizer of = normalizer(team, x, mask, width);
        for (i64 n = team.rank; n < width; n += team.size) {
            float slope = factor * of.probability(to_float(x[n]));
            put(gradient + n, is_valid(mask, n) ? slope : 0.0f, accumulate);
        }
        return;
    }
    y += start, upstream += start;
    float inner = team.sum(width, [=](i64 n) {
        float d = is_valid(mask, n) ? to_float(upstream[n]) : 0.0f;
        return form == 0 ? d * to_float(y[n]) : d;
    });
    for (i64 n = team.rank; n < width; n += team.size) {
        float d = to_float(upstream[n]), value = to_float(y[n]);
        float slope = form == 0 ? value * (d - inner) : d - expf(value) * inner;
        put(gradient + n, is_valid(mask, n) ? slope : 0.0f, accumulate);
    }
}

#define SOFTMAX(suffix, T)                                                                         \
    extern "C" __global__ void softmax_##suffix(const T *x, const T *mask, T *target, i64 rows,    \
                                                i64 width, int form, int size) {                   \
        softmax(x, mask, target, rows, width, form, size);                                         \
    }                                                                                              \
    extern "C" __global__ void softmax_backward_##suffix(                                          \
        const T *upstream, const T *x, const T *y, const T *mask, T *gradient, i64 rows,           \
        i64 width, int form, int size, int accumulate) {                                           \
        softmax_backward(upstream, x, y, mask, gradient, rows, width, form, size, accumulate);     \
    }
SOFTMAX(f32, float)
SOFTMAX(bf16, bf16)
