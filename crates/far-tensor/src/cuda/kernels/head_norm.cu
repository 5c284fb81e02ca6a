// LayerNorm over the channels of each head; the formulas are in head_norm.rs.
//
// The fast kernels take up to four slots of a row at once. A thread owns one 16-byte vector of the
// row and walks a chunk of rows with its part of γ and β in registers; the threads of a head are
// neighbors, a power of two of them within a warp. Slots whose γ is null are copied. The backward
// computes mean and deviation again, which costs no memory traffic.

const int BATCH = 4;

struct Slots {
    const float *scale[4];
    const float *offset[4];
};

// The sums over `team` neighbors of N values each.
template <int N> __device__ __forceinline__ void team_sums(float (&values)[N], int team) {
    for (int offset = team / 2; offset > 0; offset /= 2)
#pragma unroll
        for (int index = 0; index < N; index++)
            values[index] += __shfl_xor_sync(0xffffffffu, values[index], offset);
}

__device__ __forceinline__ const float *pick(const float *const (&of)[4], i64 slot) {
    return slot == 0 ? of[0] : slot == 1 ? of[1] : slot == 2 ? of[2] : of[3];
}

// Mean and 1/√(σ² + ε) of the heads that a thread has a part in.
template <typename T>
__device__ __forceinline__ void statistics_of(uint4 (&raw)[BATCH], float (&mean)[BATCH],
                                              float (&inverse)[BATCH], i64 channels, int team,
                                              float epsilon) {
    const int V = Vector<T>::width;
    float share = 1.0f / (float)channels;
#pragma unroll
    for (int index = 0; index < BATCH; index++) {
        float values[V];
        load_vector((const T *)&raw[index], values);
        mean[index] = 0.0f;
#pragma unroll
        for (int step = 0; step < V; step++) mean[index] += values[step];
    }
    team_sums(mean, team);
#pragma unroll
    for (int index = 0; index < BATCH; index++) {
        float values[V];
        stay_packed(raw[index]);
        load_vector((const T *)&raw[index], values);
        mean[index] *= share;
        inverse[index] = 0.0f;
#pragma unroll
        for (int step = 0; step < V; step++) {
            float distance = values[step] - mean[index];
            inverse[index] += distance * distance;
        }
    }
    team_sums(inverse, team);
#pragma unroll
    for (int index = 0; index < BATCH; index++) {
        inverse[index] = rsqrtf(inverse[index] * share + epsilon);
        stay_packed(raw[index]);
    }
}

// x and y begin at the first of the slots; `width` is that of a whole row, `span` of the slots here.
template <typename T>
__device__ __forceinline__ void head_forward(const T *x, T *y, const Slots &slots, i64 rows,
                                             i64 width, i64 span, i64 slot_width, i64 channels,
                                             i64 chunk_rows, float epsilon) {
    const int V = Vector<T>::width;
    i64 first = blockIdx.x * chunk_rows, end = first + chunk_rows < rows ? first + chunk_rows : rows;
    i64 column = ((i64)blockIdx.y * blockDim.x + threadIdx.x) * V;
    bool inside = column < span;
    const float *scale = inside ? pick(slots.scale, column / slot_width) : 0;
    const float *offset = inside ? pick(slots.offset, column / slot_width) : 0;
    float factor[V], addend[V];
#pragma unroll
    for (int step = 0; step < V; step++) {
        factor[step] = scale ? scale[column % channels + step] : 0.0f;
        addend[step] = scale ? offset[column % channels + step] : 0.0f;
    }
    for (i64 row = first; row < end; row += BATCH) {
        uint4 raw[BATCH];
        float mean[BATCH], inverse[BATCH];
#pragma unroll
        for (int index = 0; index < BATCH; index++)
            raw[index] = load_raw(x + (row + index) * width + column, inside && row + index < end);
        statistics_of<T>(raw, mean, inverse, channels, channels / V, epsilon);
#pragma unroll
        for (int index = 0; index < BATCH; index++) {
            if (row + index >= end || !inside) break;
            T *target = y + (row + index) * width + column;
            if (!scale) {
                *(uint4 *)target = raw[index];
                continue;
            }
            float values[V];
            load_vector((const T *)&raw[index], values);
#pragma unroll
            for (int step = 0; step < V; step++)
                values[step] = (values[step] - mean[index]) * inverse[index] * factor[step]
                               + addend[step];
            store_vector(target, values);
        }
    }
}

// Turns the upstream into dx in place; partials [block, tile, slot, 2, channels] receive the sums of
// dγ and dβ. What is copied stays as it is. Unless it is null, row_sums [block, width] receives the sums
// over rows of dx where it was not copied.
template <typename T>
__device__ __forceinline__ void head_backward(T *gradient, const T *x, float *partials,
                                              float *row_sums, const Slots &slots, i64 rows,
                                              i64 width, i64 span,
                                              i64 slot_width, i64 channels, i64 chunk_rows,
                                              float epsilon) {
    const int V = Vector<T>::width;
    __shared__ float scratch[192 * V];
    i64 first = blockIdx.x * chunk_rows, end = first + chunk_rows < rows ? first + chunk_rows : rows;
    i64 start = (i64)blockIdx.y * blockDim.x * V, column = start + (i64)threadIdx.x * V;
    const float *scale = column < span ? pick(slots.scale, column / slot_width) : 0;
    int team = channels / V;
    float share = 1.0f / (float)channels;
    float factor[V], scale_sum[V], offset_sum[V], row_sum[V];
#pragma unroll
    for (int step = 0; step < V; step++) {
        factor[step] = scale ? scale[column % channels + step] : 0.0f;
        scale_sum[step] = offset_sum[step] = row_sum[step] = 0.0f;
    }
    // Warps whose heads are all copied have nothing to do.
    if (__any_sync(0xffffffffu, scale != 0)) {
        for (i64 row = first; row < end; row += BATCH) {
            uint4 raw_x[BATCH], raw_d[BATCH];
            float mean[BATCH], inverse[BATCH], plain[BATCH], weighted[BATCH];
#pragma unroll
            for (int index = 0; index < BATCH; index++) {
                bool present = scale && row + index < end;
                i64 place = (row + index) * width + column;
                raw_x[index] = load_raw(x + place, present);
                raw_d[index] = load_raw(gradient + place, present);
            }
            statistics_of<T>(raw_x, mean, inverse, channels, team, epsilon);
#pragma unroll
            for (int index = 0; index < BATCH; index++) {
                float d[V], normal[V];
                load_vector((const T *)&raw_x[index], normal);
                load_vector((const T *)&raw_d[index], d);
                plain[index] = weighted[index] = 0.0f;
#pragma unroll
                for (int step = 0; step < V; step++) {
                    float n = (normal[step] - mean[index]) * inverse[index];
                    float e = d[step] * factor[step];
                    offset_sum[step] += d[step];
                    scale_sum[step] += d[step] * n;
                    plain[index] += e;
                    weighted[index] += e * n;
                }
            }
            team_sums(plain, team);
            team_sums(weighted, team);
#pragma unroll
            for (int index = 0; index < BATCH; index++) {
                if (row + index >= end || !scale) break;
                float d[V], normal[V];
                stay_packed(raw_x[index]);
                stay_packed(raw_d[index]);
                load_vector((const T *)&raw_x[index], normal);
                load_vector((const T *)&raw_d[index], d);
#pragma unroll
                for (int step = 0; step < V; step++) {
                    float n = (normal[step] - mean[index]) * inverse[index];
                    d[step] = inverse[index] * (d[step] * factor[step] - plain[index] * share
                                                - n * weighted[index] * share);
                    row_sum[step] += d[step];
                }
                store_vector(gradient + (row + index) * width + column, d);
            }
        }
    }
    if (row_sums && scale)
#pragma unroll
        for (int step = 0; step < V; step++)
            row_sums[(i64)blockIdx.x * width + column + step] = row_sum[step];
    i64 tile = (i64)blockDim.x * V, count = span / slot_width;
    partials += ((i64)blockIdx.x * gridDim.y + blockIdx.y) * count * 2 * channels;
#pragma unroll
    for (int which = 0; which < 2; which++) {
#pragma unroll
        for (int step = 0; step < V; step++)
            scratch[threadIdx.x * V + step] = which == 0 ? scale_sum[step] : offset_sum[step];
        __syncthreads();
        for (i64 index = threadIdx.x; index < count * channels; index += blockDim.x) {
            i64 slot = index / channels, channel = index % channels;
            float sum = 0.0f;
            for (i64 at = slot * slot_width + channel; at < (slot + 1) * slot_width; at += channels)
                if (at >= start && at < start + tile) sum += scratch[at - start];
            partials[(slot * 2 + which) * channels + channel] = sum;
        }
        __syncthreads();
    }
}

// Any number of channels: a warp per head, which reads it three times; `slot_heads` heads of a row
// share γ and β.
struct Head {
    i64 index, place, row;
    int lane;
};

__device__ __forceinline__ Head head_of_warp(i64 width, i64 start, i64 slot_heads, i64 channels) {
    Head head;
    head.index = (i64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    head.row = head.index / slot_heads;
    head.place = head.row * width + start + head.index % slot_heads * channels;
    head.lane = threadIdx.x % 32;
    return head;
}

template <typename T>
__device__ __forceinline__ void head_statistics(const T *x, i64 channels, int lane, float epsilon,
                                                float &mean, float &inverse) {
    float sum = 0.0f, squares = 0.0f;
    for (i64 channel = lane; channel < channels; channel += 32) sum += to_float(x[channel]);
    mean = warp_sum(sum) / (float)channels;
    for (i64 channel = lane; channel < channels; channel += 32) {
        float distance = to_float(x[channel]) - mean;
        squares += distance * distance;
    }
    inverse = rsqrtf(warp_sum(squares) / (float)channels + epsilon);
}

template <typename T>
__device__ __forceinline__ void head_forward_any(const T *x, T *y, const float *scale,
                                                 const float *offset, i64 rows, i64 width,
                                                 i64 start, i64 slot_heads, i64 channels,
                                                 float epsilon) {
    Head head = head_of_warp(width, start, slot_heads, channels);
    if (head.row >= rows) return;
    x += head.place, y += head.place;
    float mean = 0.0f, inverse = 1.0f;
    if (scale) head_statistics(x, channels, head.lane, epsilon, mean, inverse);
    for (i64 channel = head.lane; channel < channels; channel += 32) {
        if (!scale) {
            y[channel] = x[channel];
            continue;
        }
        float normal = (to_float(x[channel]) - mean) * inverse;
        y[channel] = from_float<T>(normal * scale[channel] + offset[channel]);
    }
}

// dx in place of the upstream; `terms` [rows · slot_heads, 2, channels] receive each head's share in
// dγ and dβ.
template <typename T>
__device__ __forceinline__ void head_backward_any(T *gradient, const T *x, float *terms,
                                                  const float *scale, i64 rows, i64 width,
                                                  i64 start, i64 slot_heads, i64 channels,
                                                  float epsilon) {
    Head head = head_of_warp(width, start, slot_heads, channels);
    if (head.row >= rows) return;
    x += head.place, gradient += head.place, terms += head.index * 2 * channels;
    float mean, inverse, plain = 0.0f, weighted = 0.0f;
    head_statistics(x, channels, head.lane, epsilon, mean, inverse);
    for (i64 channel = head.lane; channel < channels; channel += 32) {
        float d = to_float(gradient[channel]);
        float n = (to_float(x[channel]) - mean) * inverse;
        plain += d * scale[channel];
        weighted += d * scale[channel] * n;
        terms[channel] = d * n;
        terms[channels + channel] = d;
    }
    plain = warp_sum(plain) / (float)channels;
    weighted = warp_sum(weighted) / (float)channels;
    for (i64 channel = head.lane; channel < channels; channel += 32) {
        float e = to_float(gradient[channel]) * scale[channel];
        float n = (to_float(x[channel]) - mean) * inverse;
        gradient[channel] = from_float<T>(inverse * (e - plain - n * weighted));
    }
}

// targets[k][channel] ← Σ partials[part · stride + k · channels + channel], added where bit k of
// `accumulate` is set; those that are null are left out.
extern "C" __global__ void head_norm_finish(const float *partials, float *t0, float *t1, float *t2,
                                            float *t3, float *t4, float *t5, float *t6, float *t7,
                                            i64 parts, i64 stride, i64 channels, i64 slices,
                                            int accumulate) {
    ColumnTotal place = column_of_block(channels, slices);
    float *targets[8] = {t0, t1, t2, t3, t4, t5, t6, t7};
    float *target = 0;
#pragma unroll
    for (int index = 0; index < 8; index++)
        if (index == place.group) target = targets[index];
    if (!target) return;
    const float *first = partials + place.group * channels + place.column;
    float sum[1];
    column_totals(sum, place, place.column < channels ? first : 0, parts, stride, 0);
    if (place.column >= channels || place.slice > 0) return;
    bool add = accumulate >> place.group & 1;
    target[place.column] = add ? target[place.column] + sum[0] : sum[0];
}

#define HEAD_NORM(suffix, T)                                                                       \
    extern "C" __global__ void __launch_bounds__(512) head_norm_forward_##suffix(                  \
        const T *x, T *y, const float *g0, const float *b0, const float *g1, const float *b1,      \
        const float *g2, const float *b2, const float *g3, const float *b3, i64 rows, i64 width,   \
        i64 span, i64 slot_width, i64 channels, i64 chunk_rows, float epsilon) {                   \
        Slots slots = {{g0, g1, g2, g3}, {b0, b1, b2, b3}};                                        \
        head_forward(x, y, slots, rows, width, span, slot_width, channels, chunk_rows, epsilon);   \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(192, 3) head_norm_backward_##suffix(             \
        T *gradient, const T *x, float *partials, float *row_sums, const float *g0,                \
        const float *g1, const float *g2, const float *g3, i64 rows, i64 width, i64 span,          \
        i64 slot_width, i64 channels, i64 chunk_rows, float epsilon) {                             \
        Slots slots = {{g0, g1, g2, g3}, {0, 0, 0, 0}};                                            \
        head_backward(gradient, x, partials, row_sums, slots, rows, width, span, slot_width,       \
                      channels, chunk_rows, epsilon);                                              \
    }                                                                                              \
    extern "C" __global__ void head_norm_forward_any_##suffix(                                     \
        const T *x, T *y, const float *scale, const float *offset, i64 rows, i64 width, i64 start, \
        i64 slot_heads, i64 channels, float epsilon) {                                             \
        head_forward_any(x, y, scale, offset, rows, width, start, slot_heads, channels, epsilon);  \
    }                                                                                              \
    extern "C" __global__ void head_norm_backward_any_##suffix(                                    \
        T *gradient, const T *x, float *terms, const float *scale, i64 rows, i64 width, i64 start, \
        i64 slot_heads, i64 channels, float epsilon) {                                             \
        head_backward_any(gradient, x, terms, scale, rows, width, start, slot_heads, channels,     \
                          epsilon);                                                                \
    }

HEAD_NORM(f32, float)
HEAD_NORM(bf16, bf16)
