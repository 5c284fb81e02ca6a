// GroupNorm; the formulas are in group_norm.rs. A row is one channel of one sample: `space` elements,
// which lie one after another or, where channels come last, as far apart as there are channels.

// Where things are: `members` channels are in a group.
struct Groups {
    i64 space, channels, members;
    int last;

    // Element n of a row.
    __device__ __forceinline__ i64 of_row(i64 row, i64 n) const {
        if (!last) return row * space + n;
        i64 sample = row / channels;
        return (sample * space + n) * channels + row - sample * channels;
    }
    // Element n of a group, in the order of memory.
    __device__ __forceinline__ i64 of_group(i64 group, i64 n) const {
        if (!last) return group * members * space + n;
        i64 groups = channels / members, sample = group / groups, place = n / members;
        return (sample * space + place) * channels + (group - sample * groups) * members + n - place * members;
    }
    // The row of an element.
    __device__ __forceinline__ i64 row_of(i64 number) const {
        if (!last) return number / space;
        return number / (space * channels) * channels + number % channels;
    }
};

// moments[group] ← μ and 1/√(variance + ε): one team per group.
template <typename T>
__device__ __forceinline__ void group_moments(const T *x, float *moments, i64 count, const Groups &of,
                                              float epsilon, int size) {
    Team team(size);
    if (team.row >= count) return;
    i64 group = team.row, block = of.members * of.space;
    float mean = team.sum(block, [=](i64 n) { return to_float(x[of.of_group(group, n)]); }) / block;
    float variance = team.sum(block, [=](i64 n) {
        float away = to_float(x[of.of_group(group, n)]) - mean;
        return away * away;
    });
    if (team.rank > 0) return;
    moments[2 * team.row] = mean;
    moments[2 * team.row + 1] = rsqrtf(variance / block + epsilon);
}

// One thread per element.
template <typename T>
__device__ __forceinline__ void group_norm(const T *x, const float *moments, const float *scale,
                                           const float *shift, T *target, i64 rows,
                                           const Groups &of) {
    i64 number = thread_number();
    if (number >= rows * of.space) return;
    i64 row = of.row_of(number), channel = row % of.channels, group = row / of.members;
    float slope = moments[2 * group + 1] * scale[channel];
    float value = (to_float(x[number]) - moments[2 * group]) * slope + shift[channel];
    target[number] = from_float<T>(value);
}

// sums[row] ← Σ d and Σ d·x̂: one team per row.
template <typename T>
__device__ __forceinline__ void group_norm_sums(const T *upstream, const T *x, const float *moments,
                                                float *sums, i64 rows, const Groups &of,
                                                int size) {
    Team team(size);
    if (team.row >= rows) return;
    i64 row = team.row, group = row / of.members;
    float mean = moments[2 * group], factor = moments[2 * group + 1];
    float level = team.sum(of.space, [=](i64 n) { return to_float(upstream[of.of_row(row, n)]); });
    float along = team.sum(of.space, [=](i64 n) {
        i64 place = of.of_row(row, n);
        return to_float(upstream[place]) * (to_float(x[place]) - mean) * factor;
    });
    if (team.rank > 0) return;
    sums[2 * team.row] = level;
    sums[2 * team.row + 1] = along;
}

// gradient[channel] ← the sums of a channel over the samples: `which` 0 for the shift, 1 for the scale.
extern "C" __global__ void group_norm_parameter(const float *sums, float *gradient, i64 batch,
                                                i64 channels, int which, int accumulate) {
    i64 channel = thread_number();
    if (channel >= channels) return;
    float sum = 0.0f;
    for (i64 sample = 0; sample < batch; sample++)
        sum += sums[2 * (sample * channels + channel) + which];
    put(gradient + channel, sum, accumulate);
}

// means[group] ← mean(e) and mean(e·x̂) with e = d·γ: one thread per group.
extern "C" __global__ void group_norm_means(const float *sums, const float *scale, float *means,
                                            i64 groups, i64 channels, i64 members, i64 block) {
    i64 group = thread_number();
    if (group >= groups) return;
    float level = 0.0f, along = 0.0f;
    for (i64 row = group * members; row < (group + 1) * members; row++) {
        level += scale[row % channels] * sums[2 * row];
        along += scale[row % channels] * sums[2 * row + 1];
    }
    means[2 * group] = level / block;
    means[2 * group + 1] = along / block;
}

template <typename T>
__device__ __forceinline__ void group_norm_backward(const T *upstream, const T *x,
                                                    const float *moments, const float *means,
                                                    const float *scale, T *gradient, i64 rows,
                                                    const Groups &of, int accumulate) {
    i64 number = thread_number();
    if (number >= rows * of.space) return;
    i64 row = of.row_of(number), group = row / of.members;
    float factor = moments[2 * group + 1];
    float standard = (to_float(x[number]) - moments[2 * group]) * factor;
    float inner = to_float(upstream[number]) * scale[row % of.channels] - means[2 * group];
    put(gradient + number, (inner - standard * means[2 * group + 1]) * factor, accumulate);
}

#define GROUPS i64 space, i64 channels, i64 members, int last
#define OF_GROUPS                                                                                  \
    Groups { space, channels, members, last }

#define GROUP_NORM(suffix, T)                                                                      \
    extern "C" __global__ void group_moments_##suffix(const T *x, float *moments, i64 count,       \
                                                      GROUPS, float epsilon, int size) {           \
        group_moments(x, moments, count, OF_GROUPS, epsilon, size);                                \
    }                                                                                              \
    extern "C" __global__ void group_norm_##suffix(const T *x, const float *moments,               \
                                                   const float *scale, const float *shift,         \
                                                   T *target, i64 rows, GROUPS) {                  \
        group_norm(x, moments, scale, shift, target, rows, OF_GROUPS);                             \
    }                                                                                              \
    extern "C" __global__ void group_norm_sums_##suffix(const T *upstream, const T *x,             \
                                                        const float *moments, float *sums,         \
                                                        i64 rows, GROUPS, int size) {              \
        group_norm_sums(upstream, x, moments, sums, rows, OF_GROUPS, size);                        \
    }                                                                                              \
    extern "C" __global__ void group_norm_backward_##suffix(                                       \
        const T *upstream, const T *x, const float *moments, const float *means,                   \
        const float *scale, T *gradient, i64 rows, GROUPS, int accumulate) {                       \
        group_norm_backward(upstream, x, moments, means, scale, gradient, rows, OF_GROUPS,         \
                            accumulate);                                                           \
    }
GROUP_NORM(f32, float)
GROUP_NORM(bf16, bf16)
