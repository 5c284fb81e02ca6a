// Bands of columns copied between matrices, and sums over an axis.

// target[row, target_start + n] ← source[row, source_start + n] for n below `band`, added if
// `accumulate`; with `times` > 1 row r of the target takes row r / times of the source. One thread
// per run of N.
template <int N, typename S, typename T>
__device__ __forceinline__ void copy_band(const S *source, i64 source_width, i64 source_start,
                                          T *target, i64 target_width, i64 target_start, i64 rows,
                                          i64 band, i64 times, int accumulate) {
    i64 runs = band / N, number = thread_number();
    if (number >= rows * runs) return;
    i64 row = number / runs, column = N * (number - row * runs);
    i64 from = times == 1 ? row : row / times;
    float values[N];
    Run<N>::load(source + from * source_width + source_start + column, values);
    put_run(target + row * target_width + target_start + column, values, accumulate);
}

#define COPY_BAND(source_name, S, target_name, T)                                                  \
    extern "C" __global__ void copy_band_##source_name##_to_##target_name(                         \
        const S *source, i64 source_width, i64 source_start, T *target, i64 target_width,          \
        i64 target_start, i64 rows, i64 band, i64 times, int run, int accumulate) {                \
        if (run == 8)                                                                              \
            copy_band<8>(source, source_width, source_start, target, target_width, target_start,   \
                         rows, band, times, accumulate);                                           \
        else if (run == 4)                                                                         \
            copy_band<4>(source, source_width, source_start, target, target_width, target_start,   \
                         rows, band, times, accumulate);                                           \
        else                                                                                       \
            copy_band<1>(source, source_width, source_start, target, target_width, target_start,   \
                         rows, band, times, accumulate);                                           \
    }
FOR_ELEMENTS(COPY_BAND)

// source [outer, times, inner] → target [outer, parts, inner]: the sums of `part` neighbors along the
// middle axis, in order. One thread per run of columns.
template <int N, typename S, typename T>
__device__ __forceinline__ void sum_middle(const S *source, T *target, i64 outer, i64 times,
                                           i64 inner, i64 part, int accumulate) {
    i64 runs = inner / N, parts = (times + part - 1) / part, number = thread_number();
    if (number >= outer * parts * runs) return;
    i64 group = number / runs, column = N * (number - group * runs);
    i64 block = group / parts, first = (group - block * parts) * part;
    i64 end = first + part < times ? first + part : times;
    float sums[N] = {};
    const S *from = source + (block * times + first) * inner + column;
#pragma unroll 4
    for (i64 row = first; row < end; row++, from += inner) {
        float values[N];
        Run<N>::load(from, values);
#pragma unroll
        for (int step = 0; step < N; step++) sums[step] += values[step];
    }
    put_run(target + group * inner + column, sums, accumulate);
}

#define SUM_MIDDLE(source_name, S, target_name, T)                                                 \
    extern "C" __global__ void sum_middle_##source_name##_to_##target_name(                        \
        const S *source, T *target, i64 outer, i64 times, i64 inner, i64 part, int run,            \
        int accumulate) {                                                                          \
        if (run == 8)                                                                              \
            sum_middle<8>(source, target, outer, times, inner, part, accumulate);                  \
        else if (run == 4)                                                                         \
            sum_middle<4>(source, target, outer, times, inner, part, accumulate);                  \
        else                                                                                       \
            sum_middle<1>(source, target, outer, times, inner, part, accumulate);                  \
    }
FOR_ELEMENTS(SUM_MIDDLE)
SUM_MIDDLE(f32, float, bf16, bf16)
