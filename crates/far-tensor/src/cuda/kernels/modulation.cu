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

// The place of a thread in a sum over chunks: a block takes 32 columns of one group, each of its
// warps every so many chunks.
struct ColumnTotal {
    i64 group, column;
    int slice;
};

__device__ __forceinline__ ColumnTotal column_of_block(i64 width) {
    i64 tiles = (width + 31) / 32;
    ColumnTotal place;
    place.group = blockIdx.x / tiles;
    place.column = blockIdx.x % tiles * 32 + threadIdx.x % 32;
    place.slice = threadIdx.x / 32;
    return place;
}

// Σ over the chunks of values[chunk · stride], for the threads of slice 0; `scratch` holds a float
// per thread. `inside` is false for threads past the last column.
__device__ __forceinline__ float column_total(const float *values, i64 chunks, i64 stride,
                                              bool inside, float *scratch) {
    int slices = blockDim.x / 32, slice = threadIdx.x / 32;
    float sum = 0.0f;
    if (inside) {
#pragma unroll 4
        for (i64 chunk = slice; chunk < chunks; chunk += slices) sum += values[chunk * stride];
    }
    scratch[threadIdx.x] = sum;
    __syncthreads();
    if (slice == 0)
        for (int other = 1; other < slices; other++) sum += scratch[32 * other + threadIdx.x];
    __syncthreads();
    return sum;
}

// target ← target + value.
template <typename T> __device__ __forceinline__ void add_to(T *target, float value) {
    *target = from_float<T>(to_float(*target) + value);
}
