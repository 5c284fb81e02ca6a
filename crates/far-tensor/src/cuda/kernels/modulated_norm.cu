// LayerNorm with an affine map γ, β and a modulation; the formulas are in modulated_norm.rs.
//
// The fast kernels hold rows in registers: a block has one thread for each 16-byte vector of a row
// (at most 512) and walks a chunk of rows of one group, BATCH at a time, so that every thread has
// several loads under way and meets the others once per sum and batch. Rows past the end are zeros.
//
// With f = γ(1 + scale) both directions need one factor per column: y = x̂·f + (β(1 + scale) + shift)
// and e = d·f. All gradients of the small vectors follow from two sums over the rows of a group,
// a = Σ d and b = Σ d·x̂: dshift = a, dscale = γb + βa, dβ = Σ (1 + scale)a, dγ = Σ (1 + scale)b.

const int BATCH = 4;
const int MOST_WARPS = 16;

// The sums over the threads of a block of N values each, N a power of two. Each step of a warp halves
// the values that a lane still has to add, so that N sums cost little more than one. Two calls in a
// row need different scratch: a thread may be in the next one while another still reads.
template <int N> __device__ __forceinline__ void block_sums(float (&values)[N], float *scratch) {
    int lane = threadIdx.x % 32, offset = 16;
#pragma unroll
    for (int half = N / 2; half > 0; half /= 2, offset /= 2) {
        bool upper = lane & offset;
#pragma unroll
        for (int index = 0; index < half; index++) {
            float kept = upper ? values[index + half] : values[index];
            float given = upper ? values[index] : values[index + half];
            values[index] = kept + __shfl_xor_sync(0xffffffffu, given, offset);
        }
    }
    const int sharing = 32 / N;
#pragma unroll
    for (int step = sharing / 2; step > 0; step /= 2)
        values[0] += __shfl_xor_sync(0xffffffffu, values[0], step);
    if (lane % sharing == 0) scratch[threadIdx.x / 32 * N + lane / sharing] = values[0];
    __syncthreads();
#pragma unroll
    for (int index = 0; index < N; index++) values[index] = scratch[index];
    int warps = blockDim.x / 32;
    for (int warp = 1; warp < warps; warp++)
#pragma unroll
        for (int index = 0; index < N; index++) values[index] += scratch[warp * N + index];
}

// f and β(1 + scale) + shift of one column; `shift` and `scale` point to the vectors of the group.
template <typename T>
__device__ __forceinline__ float factor_of(const float *gamma, const T *scale, i64 column) {
    float factor = scale ? 1.0f + to_float(scale[column]) : 1.0f;
    return gamma ? gamma[column] * factor : factor;
}

template <typename T>
__device__ __forceinline__ float offset_of(const float *beta, const T *shift, const T *scale,
                                           i64 column) {
    float offset = beta ? beta[column] : 0.0f;
    if (scale) offset = offset * (1.0f + to_float(scale[column])) + to_float(shift[column]);
    return offset;
}

template <typename T>
__device__ __forceinline__ const T *vector_of(const T *vectors, i64 group, i64 parts, i64 part,
                                              i64 width) {
    return vectors ? vectors + (group * parts + part) * width : vectors;
}

// What is normalized where a residual comes first: x + gate·f, which is kept at `sum` and rounded
// before the norm, as if it came from there.
template <typename T> struct Residual {
    const T *f;
    T *sum;
    const T *vectors;
    i64 parts, gate_part;
};

template <bool GATED, typename T>
__device__ __forceinline__ void norm_forward(const T *x, const Residual<T> &residual, T *y,
                                             float *statistics,
                                             const float *gamma, const float *beta,
                                             const T *vectors, i64 parts, i64 shift_part,
                                             i64 scale_part, i64 width, i64 group_rows, i64 chunks,
                                             i64 chunk_rows, float epsilon) {
    const int V = Vector<T>::width;
    __shared__ __align__(16) float scratch[2][MOST_WARPS * BATCH];
    Chunk chunk = chunk_of_block(group_rows, chunks, chunk_rows);
    i64 column = (i64)threadIdx.x * V;
    bool inside = column < width;
    uint4 next[BATCH], next_f[BATCH];
    auto load = [&](i64 row, int index) {
        bool present = inside && row < chunk.end;
        next[index] = load_raw(x + row * width + column, present);
        if (GATED) next_f[index] = load_raw(residual.f + row * width + column, present);
    };
#pragma unroll
    for (int index = 0; index < BATCH; index++) load(chunk.first + index, index);
    float factor[V], offset[V], gate[V];
    const T *gates = vector_of(residual.vectors, chunk.group, residual.parts, residual.gate_part,
                               width);
    const T *shift = vector_of(vectors, chunk.group, parts, shift_part, width);
    const T *scale = vector_of(vectors, chunk.group, parts, scale_part, width);
#pragma unroll
    for (int step = 0; step < V; step++) {
        factor[step] = inside ? factor_of(gamma, scale, column + step) : 0.0f;
        offset[step] = inside ? offset_of(beta, shift, scale, column + step) : 0.0f;
        gate[step] = GATED && inside ? to_float(gates[column + step]) : 0.0f;
    }
    float share = 1.0f / (float)width;
    for (i64 row = chunk.first; row < chunk.end; row += BATCH) {
        uint4 raw[BATCH], raw_f[BATCH];
        float mean[BATCH], inverse[BATCH];
        // The next rows are under way while these are worked on.
#pragma unroll
        for (int index = 0; index < BATCH; index++) {
            raw[index] = next[index];
            if (GATED) raw_f[index] = next_f[index];
            load(row + BATCH + index, index);
        }
#pragma unroll
        for (int index = 0; GATED && index < BATCH; index++) {
            float base[V], branch[V];
            load_vector((const T *)&raw[index], base);
            load_vector((const T *)&raw_f[index], branch);
#pragma unroll
            for (int step = 0; step < V; step++) base[step] += gate[step] * branch[step];
            store_vector((T *)&raw[index], base);
            if (inside && row + index < chunk.end)
                *(uint4 *)(residual.sum + (row + index) * width + column) = raw[index];
        }
#pragma unroll
        for (int index = 0; index < BATCH; index++) {
            float values[V];
            load_vector((const T *)&raw[index], values);
            mean[index] = 0.0f;
#pragma unroll
            for (int step = 0; step < V; step++) mean[index] += values[step];
        }
        block_sums(mean, scratch[0]);
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
            if (!inside) inverse[index] = 0.0f;
        }
        block_sums(inverse, scratch[1]);
#pragma unroll
        for (int index = 0; index < BATCH; index++) {
            if (row + index >= chunk.end) break;
            inverse[index] = rsqrtf(inverse[index] * share + epsilon);
            if (threadIdx.x == 0) {
                statistics[2 * (row + index)] = mean[index];
                statistics[2 * (row + index) + 1] = inverse[index];
            }
            if (!inside) continue;
            float values[V];
            stay_packed(raw[index]);
            load_vector((const T *)&raw[index], values);
#pragma unroll
            for (int step = 0; step < V; step++)
                values[step] = (values[step] - mean[index]) * inverse[index] * factor[step]
                               + offset[step];
            store_vector(y + (row + index) * width + column, values);
        }
    }
}

// What came before the norm where that was a residual, x = base + gate·f: dx is then whole, and from it
// follow df = gate·dx, the sums Σ dx·f for the gate, and, unless it is null, Σ df.
template <typename T> struct Branch {
    const T *f;
    T *gradient;
    float *partials, *row_sums;
    const T *vectors;
    i64 parts, gate_part;
};

// dx is written or added to, unless it is null; partials [block, 2, width] receive a and b. Where GATED,
// so does the branch that is behind x, with fewer rows at once, as there is more to hold of each.
template <bool GATED, typename T>
__device__ __forceinline__ void norm_backward(const T *upstream, const T *x,
                                              const float *statistics, T *gradient,
                                              const Branch<T> &branch, float *partials,
                                              const float *gamma, const T *vectors, i64 parts,
                                              i64 scale_part, i64 width, i64 group_rows,
                                              i64 chunks, i64 chunk_rows, int accumulate) {
    const int V = Vector<T>::width, ROWS = GATED ? BATCH / 2 : BATCH;
    __shared__ __align__(16) float scratch[2][MOST_WARPS * 2 * ROWS];
    Chunk chunk = chunk_of_block(group_rows, chunks, chunk_rows);
    i64 column = (i64)threadIdx.x * V;
    bool inside = column < width;
    float factor[V], plain_sum[V], weighted_sum[V], gate[V], gate_sum[V], branch_sum[V];
    const T *scale = vector_of(vectors, chunk.group, parts, scale_part, width);
    const T *gates = vector_of(branch.vectors, chunk.group, branch.parts, branch.gate_part, width);
#pragma unroll
    for (int step = 0; step < V; step++) {
        factor[step] = inside ? factor_of(gamma, scale, column + step) : 0.0f;
        gate[step] = GATED && inside ? to_float(gates[column + step]) : 0.0f;
        plain_sum[step] = weighted_sum[step] = gate_sum[step] = branch_sum[step] = 0.0f;
    }
    float share = 1.0f / (float)width;
    int turn = 0;
    for (i64 row = chunk.first; row < chunk.end; row += ROWS, turn ^= 1) {
        uint4 raw_x[ROWS], raw_d[ROWS], before[ROWS], raw_f[ROWS];
        float mean[ROWS], inverse[ROWS], sums[2 * ROWS];
#pragma unroll
        for (int index = 0; index < ROWS; index++) {
            bool present = inside && row + index < chunk.end;
            i64 place = (row + index) * width + column;
            raw_x[index] = load_raw(x + place, present);
            raw_d[index] = load_raw(upstream + place, present);
            before[index] = load_raw(gradient + place, present && accumulate && gradient);
            if (GATED) raw_f[index] = load_raw(branch.f + place, present);
            mean[index] = row + index < chunk.end ? statistics[2 * (row + index)] : 0.0f;
            inverse[index] = row + index < chunk.end ? statistics[2 * (row + index) + 1] : 0.0f;
        }
#pragma unroll
        for (int index = 0; index < ROWS; index++) {
            float d[V], normal[V];
            load_vector((const T *)&raw_x[index], normal);
            load_vector((const T *)&raw_d[index], d);
            float plain = 0.0f, weighted = 0.0f;
#pragma unroll
            for (int step = 0; step < V; step++) {
                float n = (normal[step] - mean[index]) * inverse[index];
                float e = d[step] * factor[step];
                plain_sum[step] += d[step];
                weighted_sum[step] += d[step] * n;
                plain += e;
                weighted += e * n;
            }
            sums[2 * index] = plain;
            sums[2 * index + 1] = weighted;
        }
        if (!gradient) continue;
        block_sums(sums, scratch[turn]);
#pragma unroll
        for (int index = 0; index < ROWS; index++) {
            if (row + index >= chunk.end || !inside) break;
            float d[V], normal[V], result[V];
            stay_packed(raw_x[index]);
            stay_packed(raw_d[index]);
            load_vector((const T *)&raw_x[index], normal);
            load_vector((const T *)&raw_d[index], d);
            load_vector((const T *)&before[index], result);
            float plain = sums[2 * index] * share, weighted = sums[2 * index + 1] * share;
#pragma unroll
            for (int step = 0; step < V; step++) {
                float n = (normal[step] - mean[index]) * inverse[index];
                result[step] += inverse[index] * (d[step] * factor[step] - plain - n * weighted);
            }
            i64 place = (row + index) * width + column;
            if (!GATED) {
                store_vector(gradient + place, result);
                continue;
            }
            // Rounded first, as if the branch came to read it.
            uint4 whole;
            store_vector((T *)&whole, result);
            *(uint4 *)(gradient + place) = whole;
            float f[V];
            load_vector((const T *)&whole, result);
            load_vector((const T *)&raw_f[index], f);
#pragma unroll
            for (int step = 0; step < V; step++) {
                gate_sum[step] += result[step] * f[step];
                branch_sum[step] += result[step];
                result[step] *= gate[step];
            }
            store_vector(branch.gradient + place, result);
        }
    }
    if (!inside) return;
    float *target = partials + (i64)blockIdx.x * 2 * width + column;
    i64 place = (i64)blockIdx.x * width + column;
#pragma unroll
    for (int step = 0; step < V; step++) {
        target[step] = plain_sum[step];
        target[width + step] = weighted_sum[step];
        if (!GATED) continue;
        branch.partials[place + step] = gate_sum[step];
        if (branch.row_sums) branch.row_sums[place + step] = gate[step] * branch_sum[step];
    }
}

// Any width: a block of 256 threads per row, which reads it three times.
template <typename T>
__device__ __forceinline__ void norm_forward_any(const T *x, T *y, float *statistics,
                                                 const float *gamma, const float *beta,
                                                 const T *vectors, i64 parts, i64 shift_part,
                                                 i64 scale_part, i64 width, i64 group_rows,
                                                 float epsilon) {
    __shared__ float scratch[32];
    i64 row = blockIdx.x, group = row / group_rows;
    const T *shift = vector_of(vectors, group, parts, shift_part, width);
    const T *scale = vector_of(vectors, group, parts, scale_part, width);
    x += row * width, y += row * width;
    float sum = 0.0f, squares = 0.0f;
    for (i64 column = threadIdx.x; column < width; column += blockDim.x)
        sum += to_float(x[column]);
    float mean = block_sum(sum, scratch) / (float)width;
    for (i64 column = threadIdx.x; column < width; column += blockDim.x) {
        float distance = to_float(x[column]) - mean;
        squares += distance * distance;
    }
    float inverse = rsqrtf(block_sum(squares, scratch) / (float)width + epsilon);
    if (threadIdx.x == 0) statistics[2 * row] = mean, statistics[2 * row + 1] = inverse;
    for (i64 column = threadIdx.x; column < width; column += blockDim.x)
        y[column] = from_float<T>((to_float(x[column]) - mean) * inverse
                                      * factor_of(gamma, scale, column)
                                  + offset_of(beta, shift, scale, column));
}

template <typename T>
__device__ __forceinline__ void norm_backward_any(const T *upstream, const T *x,
                                                  const float *statistics, T *gradient,
                                                  const float *gamma, const T *vectors, i64 parts,
                                                  i64 scale_part, i64 width, i64 group_rows,
                                                  int accumulate) {
    __shared__ float scratch[32];
    i64 row = blockIdx.x;
    const T *scale = vector_of(vectors, row / group_rows, parts, scale_part, width);
    x += row * width, upstream += row * width, gradient += row * width;
    float mean = statistics[2 * row], inverse = statistics[2 * row + 1];
    float plain = 0.0f, weighted = 0.0f;
    for (i64 column = threadIdx.x; column < width; column += blockDim.x) {
        float e = to_float(upstream[column]) * factor_of(gamma, scale, column);
        plain += e;
        weighted += e * (to_float(x[column]) - mean) * inverse;
    }
    plain = block_sum(plain, scratch) / (float)width;
    weighted = block_sum(weighted, scratch) / (float)width;
    for (i64 column = threadIdx.x; column < width; column += blockDim.x) {
        float e = to_float(upstream[column]) * factor_of(gamma, scale, column);
        float n = (to_float(x[column]) - mean) * inverse;
        float value = inverse * (e - plain - n * weighted);
        if (accumulate) value += to_float(gradient[column]);
        gradient[column] = from_float<T>(value);
    }
}

// a and b of any width: a thread per column, blockIdx.y the tile of columns.
template <typename T>
__device__ __forceinline__ void norm_sums_any(const T *upstream, const T *x,
                                              const float *statistics, float *partials, i64 width,
                                              i64 group_rows, i64 chunks, i64 chunk_rows) {
    Chunk chunk = chunk_of_block(group_rows, chunks, chunk_rows);
    i64 column = (i64)blockIdx.y * blockDim.x + threadIdx.x;
    if (column >= width) return;
    float plain = 0.0f, weighted = 0.0f;
    for (i64 row = chunk.first; row < chunk.end; row++) {
        float d = to_float(upstream[row * width + column]);
        float n = (to_float(x[row * width + column]) - statistics[2 * row])
                  * statistics[2 * row + 1];
        plain += d;
        weighted += d * n;
    }
    partials[(i64)blockIdx.x * 2 * width + column] = plain;
    partials[((i64)blockIdx.x * 2 + 1) * width + column] = weighted;
}

// From a and b of the chunks to the gradients of shift and scale, which are added, and to the
// group's share in dγ and dβ [groups, width]; either may be null.
template <typename T>
__device__ __forceinline__ void norm_finish(const float *partials, const float *gamma,
                                            const float *beta, const T *vectors, T *gradient,
                                            float *gamma_sums, float *beta_sums, i64 parts,
                                            i64 shift_part, i64 scale_part, i64 width,
                                            i64 chunks, i64 slices) {
    ColumnTotal place = column_of_block(width, slices);
    i64 column = place.column;
    const float *first = partials + place.group * chunks * 2 * width + column;
    float sums[2];
    column_totals(sums, place, column < width ? first : 0, chunks, 2 * width, width);
    if (column >= width || place.slice > 0) return;
    float plain = sums[0], weighted = sums[1];
    const T *scale = vector_of(vectors, place.group, parts, scale_part, width);
    if (gradient) {
        T *target = gradient + place.group * parts * width + column;
        add_to(target + shift_part * width, plain);
        float of_scale = gamma ? gamma[column] * weighted + beta[column] * plain : weighted;
        add_to(target + scale_part * width, of_scale);
    }
    if (gamma_sums) {
        float modulated = factor_of((const float *)0, scale, column);
        gamma_sums[place.group * width + column] = modulated * weighted;
        beta_sums[place.group * width + column] = modulated * plain;
    }
}

#define NORM(suffix, T)                                                                            \
    extern "C" __global__ void __launch_bounds__(512) modulated_norm_forward_##suffix(             \
        const T *x, T *y, float *statistics, const float *gamma, const float *beta,                \
        const T *vectors, i64 parts, i64 shift, i64 scale, i64 width, i64 group_rows, i64 chunks,  \
        i64 chunk_rows, float epsilon) {                                                           \
        norm_forward<false>(x, Residual<T>{}, y, statistics, gamma, beta, vectors, parts, shift,   \
                            scale, width, group_rows, chunks, chunk_rows, epsilon);                \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(512) gated_norm_forward_##suffix(                 \
        const T *x, const T *f, T *sum, const T *gates, i64 gate_parts, i64 gate, T *y,            \
        float *statistics, const float *gamma, const float *beta, const T *vectors, i64 parts,     \
        i64 shift, i64 scale, i64 width, i64 group_rows, i64 chunks, i64 chunk_rows,               \
        float epsilon) {                                                                           \
        norm_forward<true>(x, Residual<T>{f, sum, gates, gate_parts, gate}, y, statistics, gamma,  \
                           beta, vectors, parts, shift, scale, width, group_rows, chunks,          \
                           chunk_rows, epsilon);                                                   \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(512) modulated_norm_backward_##suffix(            \
        const T *upstream, const T *x, const float *statistics, T *gradient, float *partials,      \
        const float *gamma, const T *vectors, i64 parts, i64 scale, i64 width, i64 group_rows,     \
        i64 chunks, i64 chunk_rows, int accumulate) {                                              \
        norm_backward<false>(upstream, x, statistics, gradient, Branch<T>{}, partials, gamma,      \
                             vectors, parts, scale, width, group_rows, chunks, chunk_rows,         \
                             accumulate);                                                          \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(512) gated_norm_backward_##suffix(                \
        const T *upstream, const T *x, const float *statistics, T *gradient, const T *f,           \
        T *branch_gradient, float *branch_partials, float *row_sums, const T *gates,               \
        i64 gate_parts, i64 gate, float *partials, const float *gamma, const T *vectors,           \
        i64 parts, i64 scale, i64 width, i64 group_rows, i64 chunks, i64 chunk_rows,               \
        int accumulate) {                                                                          \
        Branch<T> branch = {f,     branch_gradient, branch_partials, row_sums,                     \
                            gates, gate_parts,      gate};                                         \
        norm_backward<true>(upstream, x, statistics, gradient, branch, partials, gamma, vectors,   \
                            parts, scale, width, group_rows, chunks, chunk_rows, accumulate);      \
    }                                                                                              \
    extern "C" __global__ void modulated_norm_forward_any_##suffix(                                \
        const T *x, T *y, float *statistics, const float *gamma, const float *beta,                \
        const T *vectors, i64 parts, i64 shift, i64 scale, i64 width, i64 group_rows,              \
        float epsilon) {                                                                           \
        norm_forward_any(x, y, statistics, gamma, beta, vectors, parts, shift, scale, width,       \
                         group_rows, epsilon);                                                     \
    }                                                                                              \
    extern "C" __global__ void modulated_norm_backward_any_##suffix(                               \
        const T *upstream, const T *x, const float *statistics, T *gradient, const float *gamma,   \
        const T *vectors, i64 parts, i64 scale, i64 width, i64 group_rows, int accumulate) {       \
        norm_backward_any(upstream, x, statistics, gradient, gamma, vectors, parts, scale, width,  \
                          group_rows, accumulate);                                                 \
    }                                                                                              \
    extern "C" __global__ void modulated_norm_sums_any_##suffix(                                   \
        const T *upstream, const T *x, const float *statistics, float *partials, i64 width,        \
        i64 group_rows, i64 chunks, i64 chunk_rows) {                                              \
        norm_sums_any(upstream, x, statistics, partials, width, group_rows, chunks, chunk_rows);   \
    }                                                                                              \
    extern "C" __global__ void modulated_norm_finish_##suffix(                                     \
        const float *partials, const float *gamma, const float *beta, const T *vectors,            \
        T *gradient, float *gamma_sums, float *beta_sums, i64 parts, i64 shift, i64 scale,         \
        i64 width, i64 chunks, i64 slices) {                                                       \
        norm_finish(partials, gamma, beta, vectors, gradient, gamma_sums, beta_sums, parts, shift, \
                    scale, width, chunks, slices);                                                 \
    }

NORM(f32, float)
NORM(bf16, bf16)
