// Rows by number.

// target[n] ← table[indices[n]], added if `accumulate`. One thread per run of N.
template <int N, typename S, typename T>
__device__ __forceinline__ void gather_rows(const S *table, const int *indices, T *target,
                                            i64 count, i64 width, int accumulate) {
    i64 runs = width / N, number = thread_number();
    if (number >= count * runs) return;
    i64 row = number / runs, column = N * (number - row * runs);
    float values[N];
    Run<N>::load(table + indices[row] * width + column, values);
    put_run(target + row * width + column, values, accumulate);
}

// target[r] ← Σ rows[order[n]] for n in offsets[r] .. offsets[r + 1], added if `accumulate`. The order
// of the sum is that of the list, so the result is the same every time.
template <int N, typename S, typename T>
__device__ __forceinline__ void scatter_rows(const S *rows, const int *order, const int *offsets,
                                             T *target, i64 count, i64 width, int accumulate) {
    i64 runs = width / N, number = thread_number();
    if (number >= count * runs) return;
    i64 row = number / runs, column = N * (number - row * runs);
    int first = offsets[row], end = offsets[row + 1];
    if (accumulate && first == end) return;
    float sums[N] = {};
    for (int place = first; place < end; place++) {
        float values[N];
        Run<N>::load(rows + order[place] * width + column, values);
#pragma unroll
        for (int step = 0; step < N; step++) sums[step] += values[step];
    }
    put_run(target + row * width + column, sums, accumulate);
}

#define EMBEDDING(source, S, result, T)                                                            \
    extern "C" __global__ void gather_rows_##source##_to_##result(                                 \
        const S *table, const int *indices, T *target, i64 count, i64 width, int run,              \
        int accumulate) {                                                                          \
        if (run == 8)                                                                              \
            gather_rows<8>(table, indices, target, count, width, accumulate);                      \
        else if (run == 4)                                                                         \
            gather_rows<4>(table, indices, target, count, width, accumulate);                      \
        else                                                                                       \
            gather_rows<1>(table, indices, target, count, width, accumulate);                      \
    }                                                                                              \
    extern "C" __global__ void scatter_rows_##source##_to_##result(                                \
        const S *rows, const int *order, const int *offsets, T *target, i64 count, i64 width,      \
        int run, int accumulate) {                                                                 \
        if (run == 8)                                                                              \
            scatter_rows<8>(rows, order, offsets, target, count, width, accumulate);               \
        else if (run == 4)                                                                         \
            scatter_rows<4>(rows, order, offsets, target, count, width, accumulate);               \
        else                                                                                       \
            scatter_rows<1>(rows, order, offsets, target, count, width, accumulate);               \
    }
FOR_ELEMENTS(EMBEDDING)
