// Axes in another order.

// target ← source, added if `accumulate`. `extents` are those of the target, outermost first, the last
// one counted in runs of N; `strides` are theirs in the source. One thread per run of the target.
template <int N, typename S, typename T>
__device__ __forceinline__ void permute(const S *source, T *target, i64 runs, int axes,
                                        const i64 (&extents)[6], const i64 (&strides)[6],
                                        int accumulate) {
    i64 number = thread_number(), rest = number, from = 0;
    if (number >= runs) return;
#pragma unroll
    for (int axis = 5; axis >= 0; axis--) {
        if (axis >= axes) continue;
        i64 next = rest / extents[axis], place = rest - next * extents[axis];
        from += place * strides[axis] * (axis == axes - 1 ? N : 1);
        rest = next;
    }
    float values[N];
    Run<N>::load(source + from, values);
    put_run(target + N * number, values, accumulate);
}

#define PERMUTE(source_name, S, target_name, T)                                                    \
    extern "C" __global__ void permute_##source_name##_to_##target_name(                           \
        const S *source, T *target, i64 runs, int axes, int run, int accumulate, i64 e0, i64 e1,   \
        i64 e2, i64 e3, i64 e4, i64 e5, i64 s0, i64 s1, i64 s2, i64 s3, i64 s4, i64 s5) {          \
        const i64 extents[6] = {e0, e1, e2, e3, e4, e5}, strides[6] = {s0, s1, s2, s3, s4, s5};    \
        if (run == 8)                                                                              \
            permute<8>(source, target, runs, axes, extents, strides, accumulate);                  \
        else if (run == 4)                                                                         \
            permute<4>(source, target, runs, axes, extents, strides, accumulate);                  \
        else                                                                                       \
            permute<1>(source, target, runs, axes, extents, strides, accumulate);                  \
    }
FOR_ELEMENTS(PERMUTE)
