// x + gate·f; the formulas are in gated_residual.rs.
//
// A thread owns V columns (one 16-byte vector, or one element where the width or an address does not
// allow it) and walks rows of one group with their gates in registers; a block has `columns` such
// threads side by side and as many rows at once as fit, blockIdx.y being the tile of columns.

const int UNROLL = 4;

__device__ __forceinline__ void load_vector(const float *from, float (&to)[1]) { to[0] = *from; }
__device__ __forceinline__ void load_vector(const bf16 *from, float (&to)[1]) {
    to[0] = to_float(*from);
}
__device__ __forceinline__ void store_vector(float *to, const float (&from)[1]) { *to = from[0]; }
__device__ __forceinline__ void store_vector(bf16 *to, const float (&from)[1]) {
    *to = to_bf16(from[0]);
}

// N rows from `row` on, `slots` apart: all loads come before what waits for them.
template <int N, typename T, int V>
__device__ __forceinline__ void gated_rows(const T *x, const T *f, T *y, const float (&gate)[V],
                                           i64 row, i64 slots, i64 width, i64 column) {
    float base[N][V], branch[N][V];
#pragma unroll
    for (int index = 0; index < N; index++) {
        i64 place = (row + index * slots) * width + column;
        load_vector(x + place, base[index]);
        load_vector(f + place, branch[index]);
    }
#pragma unroll
    for (int index = 0; index < N; index++) {
#pragma unroll
        for (int step = 0; step < V; step++) base[index][step] += gate[step] * branch[index][step];
        store_vector(y + (row + index * slots) * width + column, base[index]);
    }
}

template <typename T, int V>
__device__ __forceinline__ void gated_forward(const T *x, const T *f, const T *vectors, T *y,
                                              i64 parts, i64 gate_part, i64 width, i64 columns,
                                              i64 group_rows, i64 chunks, i64 chunk_rows) {
    Chunk chunk = chunk_of_block(group_rows, chunks, chunk_rows);
    i64 slots = blockDim.x / (int)columns;
    i64 column = ((i64)blockIdx.y * columns + threadIdx.x % (int)columns) * V;
    if (column >= width) return;
    float gate[V];
    load_vector(vectors + (chunk.group * parts + gate_part) * width + column, gate);
    i64 row = chunk.first + threadIdx.x / (int)columns;
    for (; row + (UNROLL - 1) * slots < chunk.end; row += UNROLL * slots)
        gated_rows<UNROLL>(x, f, y, gate, row, slots, width, column);
    for (; row < chunk.end; row += slots)
        gated_rows<1>(x, f, y, gate, row, slots, width, column);
}

// df of N rows, written, added (where ADD) or not wanted (where null), and what they add to Σ d·f and
// to Σ d.
template <int N, bool ADD, typename T, int V>
__device__ __forceinline__ void gated_rows_backward(const T *upstream, const T *f, T *gradient,
                                                    const float (&gate)[V], float (&sum)[V],
                                                    float (&plain)[V], i64 row, i64 slots,
                                                    i64 width, i64 column) {
    float d[N][V], branch[N][V], before[N][V];
#pragma unroll
    for (int index = 0; index < N; index++) {
        i64 place = (row + index * slots) * width + column;
        load_vector(upstream + place, d[index]);
        load_vector(f + place, branch[index]);
        if (ADD) load_vector(gradient + place, before[index]);
    }
#pragma unroll
    for (int index = 0; index < N; index++) {
#pragma unroll
        for (int step = 0; step < V; step++) {
            sum[step] += d[index][step] * branch[index][step];
            plain[step] += d[index][step];
            d[index][step] *= gate[step];
            if (ADD) d[index][step] += before[index][step];
        }
        if (gradient) store_vector(gradient + (row + index * slots) * width + column, d[index]);
    }
}

// df is written or added to, unless it is null; partials [block, width] receive Σ d·f, and `row_sums`,
// unless it is null, Σ df, which is gate·Σ d.
template <typename T, int V>
__device__ __forceinline__ void gated_backward(const T *upstream, const T *f, const T *vectors,
                                               T *gradient, float *partials, float *row_sums,
                                               i64 parts, i64 gate_part, i64 width, i64 columns,
                                               i64 group_rows, i64 chunks, i64 chunk_rows,
                                               int accumulate) {
    __shared__ float scratch[2][256 * V];
    Chunk chunk = chunk_of_block(group_rows, chunks, chunk_rows);
    int slot = threadIdx.x / (int)columns;
    i64 slots = blockDim.x / (int)columns;
    i64 column = ((i64)blockIdx.y * columns + threadIdx.x % (int)columns) * V;
    bool inside = column < width;
    float gate[V], sum[V], plain[V];
#pragma unroll
    for (int step = 0; step < V; step++) sum[step] = plain[step] = 0.0f;
    if (inside) {
        load_vector(vectors + (chunk.group * parts + gate_part) * width + column, gate);
        i64 row = chunk.first + slot;
        if (accumulate && gradient) {
            for (; row < chunk.end; row += slots)
                gated_rows_backward<1, true>(upstream, f, gradient, gate, sum, plain, row, slots,
                                             width, column);
        } else {
            for (; row + (UNROLL - 1) * slots < chunk.end; row += UNROLL * slots)
                gated_rows_backward<UNROLL, false>(upstream, f, gradient, gate, sum, plain, row,
                                                   slots, width, column);
            for (; row < chunk.end; row += slots)
                gated_rows_backward<1, false>(upstream, f, gradient, gate, sum, plain, row, slots,
                                              width, column);
        }
    }
#pragma unroll
    for (int step = 0; step < V; step++) {
        scratch[0][threadIdx.x * V + step] = sum[step];
        scratch[1][threadIdx.x * V + step] = plain[step];
    }
    __syncthreads();
    if (!inside || slot > 0) return;
#pragma unroll
    for (int step = 0; step < V; step++) {
        for (int other = 1; other < slots; other++) {
            sum[step] += scratch[0][(other * (int)columns + threadIdx.x) * V + step];
            plain[step] += scratch[1][(other * (int)columns + threadIdx.x) * V + step];
        }
        i64 place = (i64)blockIdx.x * width + column + step;
        partials[place] = sum[step];
        if (row_sums) row_sums[place] = gate[step] * plain[step];
    }
}

// Adds the sums of the chunks to the gate's part in the gradient of the modulation.
template <typename T>
__device__ __forceinline__ void gated_finish(const float *partials, T *gradient, i64 parts,
                                             i64 gate_part, i64 width, i64 chunks, i64 slices) {
    ColumnTotal place = column_of_block(width, slices);
    const float *first = partials + place.group * chunks * width + place.column;
    float sum[1];
    column_totals(sum, place, place.column < width ? first : 0, chunks, width, 0);
    if (place.column < width && place.slice == 0)
        add_to(gradient + (place.group * parts + gate_part) * width + place.column, sum[0]);
}

#define GATED_WIDTH(suffix, T, V)                                                                  \
    extern "C" __global__ void __launch_bounds__(256) gated_residual_forward##suffix(              \
        const T *x, const T *f, const T *vectors, T *y, i64 parts, i64 gate, i64 width,            \
        i64 columns, i64 group_rows, i64 chunks, i64 chunk_rows) {                                 \
        gated_forward<T, V>(x, f, vectors, y, parts, gate, width, columns, group_rows, chunks,     \
                            chunk_rows);                                                           \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(256) gated_residual_backward##suffix(             \
        const T *upstream, const T *f, const T *vectors, T *gradient, float *partials,             \
        float *row_sums, i64 parts, i64 gate, i64 width, i64 columns, i64 group_rows, i64 chunks,  \
        i64 chunk_rows, int accumulate) {                                                          \
        gated_backward<T, V>(upstream, f, vectors, gradient, partials, row_sums, parts, gate,      \
                             width, columns, group_rows, chunks, chunk_rows, accumulate);          \
    }

#define GATED(suffix, T)                                                                           \
    GATED_WIDTH(_##suffix, T, Vector<T>::width)                                                    \
    GATED_WIDTH(_any_##suffix, T, 1)                                                               \
    extern "C" __global__ void gated_residual_finish_##suffix(const float *partials, T *gradient,  \
                                                              i64 parts, i64 gate, i64 width,      \
                                                              i64 chunks, i64 slices) {            \
        gated_finish(partials, gradient, parts, gate, width, chunks, slices);                      \
    }

GATED(f32, float)
GATED(bf16, bf16)
