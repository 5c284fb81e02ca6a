// target ← f(a, b, c) element by element, added if `accumulate`: eight elements per thread. Addresses
// are multiples of 32 bytes. Functions of fewer elements are given an address again.
template <int INPUTS, typename S, typename T, typename F>
__device__ __forceinline__ void map_elements(const S *a, const S *b, const S *c, T *target,
                                             i64 length, int accumulate, F f) {
    i64 first = 8 * thread_number();
    if (first + 8 <= length) {
        float x[8], y[8], z[8], values[8];
        Run<8>::load(a + first, x);
        if (INPUTS > 1) Run<8>::load(b + first, y);
        if (INPUTS > 2) Run<8>::load(c + first, z);
#pragma unroll
        for (int step = 0; step < 8; step++) {
            float second = INPUTS > 1 ? y[step] : 0.0f, third = INPUTS > 2 ? z[step] : 0.0f;
            values[step] = f(x[step], second, third);
        }
        put_run(target + first, values, accumulate);
    } else {
        for (i64 index = first; index < length; index++) {
            float second = INPUTS > 1 ? to_float(b[index]) : 0.0f;
            float third = INPUTS > 2 ? to_float(c[index]) : 0.0f;
            float value[1] = {f(to_float(a[index]), second, third)};
            put_run(target + index, value, accumulate);
        }
    }
}
