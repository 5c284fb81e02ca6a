// Statistics over the valid elements of an axis, and standardization by them. A tensor is seen as
// groups of `extent` elements, `inner` apart; one team per group.

// Keeps the deviation's slope finite where all values are equal.
#define VARIANCE_FLOOR 1e-12f
// Added to the deviation that standardization divides by.
#define DEVIATION_OFFSET 1e-4f

struct Moments {
    float count, mean, variance;

    __device__ __forceinline__ float deviation() const { return sqrtf(variance + VARIANCE_FLOOR); }
};

template <typename T> struct Group {
    const T *x, *mask;
    i64 extent, stride;

    __device__ __forceinline__ float value(i64 n) const { return to_float(x[n * stride]); }
    __device__ __forceinline__ bool counts(i64 n) const { return is_valid(mask, n * stride); }

    // Σ term over the valid elements.
    template <typename F> __device__ __forceinline__ float sum(const Team &team, F term) const {
        return team.sum(extent, [=](i64 n) { return counts(n) ? term(n) : 0.0f; });
    }

    __device__ __forceinline__ Moments moments(const Team &team) const {
        float count = sum(team, [](i64) { return 1.0f; });
        if (count == 0.0f) return {0.0f, 0.0f, 0.0f};
        float mean = sum(team, [=](i64 n) { return value(n); }) / count;
        float variance = sum(team, [=](i64 n) {
            float away = value(n) - mean;
            return away * away;
        });
        return {count, mean, variance / count};
    }

    // The first of the largest valid elements, or `extent`; NaN counts as largest.
    __device__ __forceinline__ i64 first_largest(const Team &team) const {
        float broken = sum(team, [=](i64 n) { return value(n) != value(n) ? 1.0f : 0.0f; });
        float largest =
            team.largest(extent, [=](i64 n) { return counts(n) ? value(n) : -INFINITY_F; });
        int place = 0x7fffffff;
        for (i64 n = team.rank; n < extent; n += team.size) {
            float at = value(n);
            bool best = broken != 0.0f ? at != at : at == largest;
            if (best && counts(n) && (int)n < place) place = (int)n;
        }
        place = team.template fold<Smallest>(place);
        return place < extent ? place : extent;
    }
};

// Where the group of a team begins.
__device__ __forceinline__ i64 group_start(const Team &team, i64 extent, i64 inner) {
    i64 block = team.row / inner;
    return block * extent * inner + (team.row - block * inner);
}

// Statistics in the order of `Statistic`.
template <typename T>
__device__ __forceinline__ void statistic(const T *x, const T *mask, T *target, i64 groups,
                                          i64 extent, i64 inner, int which, int size) {
    Team team(size);
    if (team.row >= groups) return;
    i64 start = group_start(team, extent, inner);
    Group<T> group = {x + start, mask ? mask + start : mask, extent, inner};
    float value;
    if (which == 3) {
        i64 place = group.first_largest(team);
        value = place < extent ? group.value(place) : 0.0f;
    } else {
        Moments of = group.moments(team);
        value = which == 0 ? of.mean : of.variance;
        if (which == 2) value = of.count == 0.0f ? 0.0f : of.deviation();
    }
    if (team.rank == 0) target[team.row] = from_float<T>(value);
}

template <typename T>
__device__ __forceinline__ void statistic_backward(const T *upstream, const T *x, const T *mask,
                                                   T *gradient, i64 groups, i64 extent, i64 inner,
                                                   int which, int size, int accumulate) {
    Team team(size);
    if (team.row >= groups) return;
    i64 start = group_start(team, extent, inner);
    Group<T> group = {x + start, mask ? mask + start : mask, extent, inner};
    gradient += start;
    float d = to_float(upstream[team.row]);
    if (which == 3) {
        i64 place = group.first_largest(team);
        for (i64 n = team.rank; n < extent; n += team.size)
            put(gradient + n * inner, n == place ? d : 0.0f, accumulate);
        return;
    }
    Moments of = group.moments(team);
    float share = d / fmaxf(of.count, 1.0f);
    float level = which == 0 ? share : 0.0f, factor = 0.0f;
    if (which == 1) factor = 2.0f * share;
    if (which == 2) factor = share / of.deviation();
    for (i64 n = team.rank; n < extent; n += team.size) {
        float slope = level + factor * (group.value(n) - of.mean);
        put(gradient + n * inner, group.counts(n) ? slope : 0.0f, accumulate);
    }
}

template <typename T>
__device__ __forceinline__ void standardize(const T *x, const T *mask, T *target, i64 groups,
                                            i64 extent, i64 inner, int size) {
    Team team(size);
    if (team.row >= groups) return;
    i64 start = group_start(team, extent, inner);
    Group<T> group = {x + start, mask ? mask + start : mask, extent, inner};
    Moments of = group.moments(team);
    float scale = 1.0f / (of.deviation() + DEVIATION_OFFSET);
    for (i64 n = team.rank; n < extent; n += team.size) {
        float value = group.counts(n) ? (group.value(n) - of.mean) * scale : 0.0f;
        target[start + n * inner] = from_float<T>(value);
    }
}

template <typename T>
__device__ __forceinline__ void standardize_backward(const T *upstream, const T *x, const T *mask,
                                                     T *gradient, i64 groups, i64 extent,
                                                     i64 inner, int size, int accumulate) {
    Team team(size);
    if (team.row >= groups) return;
    i64 start = group_start(team, extent, inner);
    Group<T> group = {x + start, mask ? mask + start : mask, extent, inner};
    upstream += start, gradient += start;
    Moments of = group.moments(team);
    float scale = 1.0f / (of.deviation() + DEVIATION_OFFSET), share = 1.0f / fmaxf(of.count, 1.0f);
    float level = group.sum(team, [=](i64 n) { return to_float(upstream[n * inner]); }) * share;
    float along = group.sum(team, [=](i64 n) {
        return to_float(upstream[n * inner]) * (group.value(n) - of.mean);
    });
    along *= scale * share / of.deviation();
    for (i64 n = team.rank; n < extent; n += team.size) {
        float away = group.value(n) - of.mean;
        float slope = (to_float(upstream[n * inner]) - level - away * along) * scale;
        put(gradient + n * inner, group.counts(n) ? slope : 0.0f, accumulate);
    }
}

#define MASKED(suffix, T)                                                                          \
    extern "C" __global__ void statistic_##suffix(const T *x, const T *mask, T *target,            \
                                                  i64 groups, i64 extent, i64 inner, int which,    \
                                                  int size) {                                      \
        statistic(x, mask, target, groups, extent, inner, which, size);                            \
    }                                                                                              \
    extern "C" __global__ void statistic_backward_##suffix(                                        \
        const T *upstream, const T *x, const T *mask, T *gradient, i64 groups, i64 extent,         \
        i64 inner, int which, int size, int accumulate) {                                          \
        statistic_backward(upstream, x, mask, gradient, groups, extent, inner, which, size,        \
                           accumulate);                                                            \
    }                                                                                              \
    extern "C" __global__ void standardize_##suffix(const T *x, const T *mask, T *target,          \
                                                    i64 groups, i64 extent, i64 inner, int size) { \
        standardize(x, mask, target, groups, extent, inner, size);                                 \
    }                                                                                              \
    extern "C" __global__ void standardize_backward_##suffix(                                      \
        const T *upstream, const T *x, const T *mask, T *gradient, i64 groups, i64 extent,         \
        i64 inner, int size, int accumulate) {                                                     \
        standardize_backward(upstream, x, mask, gradient, groups, extent, inner, size,             \
                             accumulate);                                                          \
    }
MASKED(f32, float)
MASKED(bf16, bf16)
