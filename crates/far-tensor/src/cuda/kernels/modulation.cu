// What operations with a modulation [groups, parts, width] share: rows dealt out to blocks in chunks
// that do not cross a group, and the sums of what the blocks found.

// The rows of a block: `chunks` blocks for each group, one after the other.
struct Chunk {
    i64 group, first, end;
};

__device__ __forceinline__ Chunk chunk_of_block(i64 group_rows, i64 chunks, i64 chunk_rows) {
    Chunk chunk;
    chunk.group = blockIdx.x / chunks;
    i64 start = blockIdx.x % chunks * chunk_rows, end = start + chunk_rows;
    chunk.first = chunk.group * group_rows + start;
    chunk.end = chunk.group * group_rows + (end < group_rows ? end : group_rows);
    return chunk;
}

// The place of a thread in a sum over chunks: a block takes some columns of one group, in `slices`
// that each add up every so many chunks.
struct ColumnTotal {
    i64 group, column;
    int slice, columns;
};

__device__ __forceinline__ ColumnTotal column_of_block(i64 width, int slices) {
    ColumnTotal place;
    place.columns = blockDim.x / slices;
    i64 tiles = (width + place.columns - 1) / place.columns;
    place.group = blockIdx.x / tiles;
    place.column = blockIdx.x % tiles * place.columns + threadIdx.x % place.columns;
    place.slice = threadIdx.x / place.columns;
    return place;
}

// sums[k] ← Σ over the chunks of values[chunk · stride + k · apart], for the threads of slice 0;
// threads past the last column have null `values`.
template <int N>
__device__ __forceinline__ void column_totals(float (&sums)[N], const ColumnTotal &place,
                                              const float *values, i64 chunks, i64 stride,
                                              i64 apart) {
    __shared__ float scratch[1024 * N];
    int slices = blockDim.x / place.columns;
#pragma unroll
    for (int which = 0; which < N; which++) sums[which] = 0.0f;
    if (values)
#pragma unroll 4
        for (i64 chunk = place.slice; chunk < chunks; chunk += slices)
#pragma unroll
            for (int which = 0; which < N; which++)
                sums[which] += values[chunk * stride + which * apart];
    if (slices == 1) return;
#pragma unroll
    for (int which = 0; which < N; which++) scratch[threadIdx.x * N + which] = sums[which];
    __syncthreads();
    if (place.slice > 0) return;
    for (int other = 1; other < slices; other++)
#pragma unroll
        for (int which = 0; which < N; which++)
            sums[which] += scratch[(other * place.columns + threadIdx.x) * N + which];
}

// target ← target + value.
template <typename T> __device__ __forceinline__ void add_to(T *target, float value) {
    *target = from_float<T>(to_float(*target) + value);
}
