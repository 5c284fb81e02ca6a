// GroupNorm; the formulas are in group_norm.rs. A row is one channel of one sample: `space` elements.

// moments[group] ← μ and 1/√(variance + ε): one team per group of `block` elements.
template <typename T>
__device__ __forceinline__ void group_moments(const T *x, float *moments, i64 groups, i64 block,
                                              float epsilon, int size) {
    Team team(size);
    if (team.row >= groups) return;
    x += team.row * block;
    float mean = team.sum(block, [=](i64 n) { return to_float(x[n]); }) / block;
    float variance = team.sum(block, [=](i64 n) {
        float away = to_float(x[n]) - mean;
        return away * away;
    });
    if (team.rank > 0) return;
    moments[2 * team.row] = mean;
    moments[2 * team.row + 1] = rsqrtf(variance / block + epsilon);
}

// One thread per element; `members` channels are in a group.
template <typename T>
__device__ __forceinline__ void group_norm(const T *x, const float *moments, const float *scale,
                                           const float *shift, T *target, i64 rows, i64 space,
                                           i64 channels, i64 members) {
    i64 number = thread_number();
    if (number >= rows * space) return;
    i64 row = number / space, channel = row % channels, group = row / members;
    float slope = moments[2 * group + 1] * scale[channel];
    float value = (to_float(x[number]) - moments[2 * group]) * slope + shift[channel];
    target[number] = from_float<T>(value);
}

// sums[row] ← Σ d and Σ d·x̂: one team per row.
template <typename T>
__device__ __forceinline__ void group_norm_sums(const T *upstream, const T *x, const float *moments,
                                                float *sums, i64 rows, i64 space, i64 members,
                                                int size) {
    Team team(size);
    if (team.row >= rows) return;
    x += team.row * space, upstream += team.row * space;
    i64 group = team.row / members;
    float mean = moments[2 * group], factor = moments[2 * group + 1];
    float level = team.sum(space, [=](i64 n) { return to_float(upstream[n]); });
    float along = team.sum(
        space, [=](i64 n) { return to_float(upstream[n]) * (to_float(x[n]) - mean) * factor; });
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
                                                    i64 space, i64 channels, i64 members,
                                                    int accumulate) {
    i64 number = thread_number();
    if (number >= rows * space) return;
    i64 row = number / space, group = row / members;
    float factor = moments[2 * group + 1];
    float standard = (to_float(x[number]) - moments[2 * group]) * factor;
    float inner = to_float(upstream[number]) * scale[row % channels] - means[2 * group];
    put(gradient + number, (inner - standard * means[2 * group + 1]) * factor, accumulate);
}

#define GROUP_NORM(suffix, T)                                                                      \
    extern "C" __global__ void group_moments_##suffix(const T *x, float *moments, i64 groups,      \
                                                      i64 block, float epsilon, int size) {        \
        group_moments(x, moments, groups, block, epsilon, size);                                   \
    }                                                                                              \
    extern "C" __global__ void group_norm_##suffix(                                                \
        const T *x, const float *moments, const float *scale, const float *shift, T *target,       \
        i64 rows, i64 space, i64 channels, i64 members) {                                          \
        group_norm(x, moments, scale, shift, target, rows, space, channels, members);              \
    }                                                                                              \
    extern "C" __global__ void group_norm_sums_##suffix(                                           \
        const T *upstream, const T *x, const float *moments, float *sums, i64 rows, i64 space,     \
        i64 members, int size) {                                                                   \
        group_norm_sums(upstream, x, moments, sums, rows, space, members, size);                   \
    }                                                                                              \
    extern "C" __global__ void group_norm_backward_##suffix(                                       \
        const T *upstream, const T *x, const float *moments, const float *means,                   \
        const float *scale, T *gradient, i64 rows, i64 space, i64 channels, i64 members,           \
        int accumulate) {                                                                          \
        group_norm_backward(upstream, x, moments, means, scale, gradient, rows, space, channels,   \
                            members, accumulate);                                                  \
    }
GROUP_NORM(f32, float)
GROUP_NORM(bf16, bf16)
