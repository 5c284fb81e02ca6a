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

template <typename T, int V>
__device__ __forceinline__ void gated_forward(const T *x, const T *f, const T *vectors, T *y,
                                              i64 parts, i64 gate_part, i64 width, i64 columns,
                                              i64 group_rows, i64 chunks, i64 chunk_rows) {
    Chunk chunk = chunk_of_block(group_rows, chunks, chunk_rows);
    int slot = threadIdx.x / (int)columns, slots = blockDim.x / (int)columns;
    i64 column = ((i64)blockIdx.y * columns + threadIdx.x % (int)columns) * V;
    if (column >= width) return;
    float gate[V];
    load_vector(vectors + (chunk.group * parts + gate_part) * width + column, gate);
    for (i64 row = chunk.first + slot; row < chunk.end; row += UNROLL * slots) {
        float base[UNROLL][V], branch[UNROLL][V];
#pragma unroll
        for (int index = 0; index < UNROLL; index++) {
            i64 place = (row + index * slots) * width + column;
            if (row + index * slots >= chunk.end) break;
            load_vector(x + place, base[index]);
            load_vector(f + place, branch[index]);
        }
#pragma unroll
        for (int index = 0; index < UNROLL; index++) {
            i64 place = (row + index * slots) * width + column;
            if (row + index * slots >= chunk.end) break;
#pragma unroll
            for (int step = 0; step < V; step++)
                base[index][step] += gate[step] * branch[index][step];
            store_vector(y + place, base[index]);
        }
    }
}

// df is written or added to, unless it is null; partials [block, width] receive Σ d·f.
template <typename T, int V>
__device__ __forceinline__ void gated_backward(const T *upstream, const T *f, const T *vectors,
                                               T *gradient, float *partials, i64 parts,
                                               i64 gate_part, i64 width, i64 columns,
                                               i64 group_rows, i64 chunks, i64 chunk_rows,
                                               int accumulate) {
    __shared__ float scratch[256 * V];
    Chunk chunk = chunk_of_block(group_rows, chunks, chunk_rows);
    int slot = threadIdx.x / (int)columns, slots = blockDim.x / (int)columns;
    i64 column = ((i64)blockIdx.y * columns + threadIdx.x % (int)columns) * V;
    bool inside = column < width;
    float sum[V];
#pragma unroll
    for (int step = 0; step < V; step++) sum[step] = 0.0f;
    if (inside) {
        float gate[V];
        load_vector(vectors + (chunk.group * parts + gate_part) * width + column, gate);
        for (i64 row = chunk.first + slot; row < chunk.end; row += UNROLL * slots) {
            float d[UNROLL][V], branch[UNROLL][V];
#pragma unroll
            for (int index = 0; index < UNROLL; index++) {
                i64 place = (row + index * slots) * width + column;
                if (row + index * slots >= chunk.end) break;
                load_vector(upstream + place, d[index]);
                load_vector(f + place, branch[index]);
            }
#pragma unroll
            for (int index = 0; index < UNROLL; index++) {
                i64 place = (row + index * slots) * width + column;
                if (row + index * slots >= chunk.end) break;
                float before[V];
                if (accumulate && gradient) load_vector(gradient + place, before);
#pragma unroll
                for (int step = 0; step < V; step++) {
                    sum[step] += d[index][step] * branch[index][step];
                    d[index][step] *= gate[step];
                    if (accumulate && gradient) d[index][step] += before[step];
                }
                if (gradient) store_vector(gradient + place, d[index]);
            }
        }
    }
#pragma unroll
    for (int step = 0; step < V; step++) scratch[threadIdx.x * V + step] = sum[step];
    __syncthreads();
    if (!inside || slot > 0) return;
#pragma unroll
    for (int step = 0; step < V; step++) {
        for (int other = 1; other < slots; other++)
            sum[step] += scratch[(other * (int)columns + threadIdx.x) * V + step];
        partials[(i64)blockIdx.x * width + column + step] = sum[step];
    }
}

// Adds the sums of the chunks to the gate's part in the gradient of the modulation.
template <typename T>
__device__ __forceinline__ void gated_finish(const float *partials, T *gradient, i64 parts,
                                             i64 gate_part, i64 width, i64 chunks) {
    __shared__ float scratch[1024];
    ColumnTotal place = column_of_block(width);
    bool inside = place.column < width;
    const float *first = partials + place.group * chunks * width + place.column;
    float sum = column_total(first, chunks, width, inside, scratch);
    if (inside && place.slice == 0)
        add_to(gradient + (place.group * parts + gate_part) * width + place.column, sum);
}

#define GATED_WIDTH(suffix, T, V)                                                                  \
    extern "C" __global__ void __launch_bounds__(256) gated_residual_forward##suffix(              \
        const T *x, const T *f, const T *vectors, T *y, i64 parts, i64 gate, i64 width,            \
        i64 columns, i64 group_rows, i64 chunks, i64 chunk_rows) {                                 \
        gated_forward<T, V>(x, f, vectors, y, parts, gate, width, columns, group_rows, chunks,     \
                            chunk_rows);                                                           \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(256) gated_residual_backward##suffix(             \
        const T *upstream, const T *f, const T *vectors, T *gradient, float *partials, i64 parts,  \
        i64 gate, i64 width, i64 columns, i64 group_rows, i64 chunks, i64 chunk_rows,              \
        int accumulate) {                                                                          \
        gated_backward<T, V>(upstream, f, vectors, gradient, partials, parts, gate, width,         \
                             columns, group_rows, chunks, chunk_rows, accumulate);                 \
    }

#define GATED(suffix, T)                                                                           \
    GATED_WIDTH(_##suffix, T, Vector<T>::width)                                                    \
    GATED_WIDTH(_any_##suffix, T, 1)                                                               \
    extern "C" __global__ void gated_residual_finish_##suffix(const float *partials, T *gradient,  \
                                                              i64 parts, i64 gate, i64 width,      \
                                                              i64 chunks) {                        \
        gated_finish(partials, gradient, parts, gate, width, chunks);                              \
    }

GATED(f32, float)
GATED(bf16, bf16)
