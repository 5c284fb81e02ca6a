// target ← source, or target + source, between element types: eight elements per thread.

template <typename S, typename T>
__device__ __forceinline__ void convert(const S *source, T *target, i64 length, int accumulate) {
    i64 first = 8 * thread_number();
    bool aligned = (((u64)source | (u64)target) & 15) == 0;
    if (aligned && first + 8 <= length) {
        float values[8];
        Run<8>::load(source + first, values);
        put_run(target + first, values, accumulate);
        return;
    }
    for (i64 index = first; index < length && index < first + 8; index++) {
        float value[1] = {to_float(source[index])};
        put_run(target + index, value, accumulate);
    }
}

#define CONVERT(source_name, S, target_name, T)                                                    \
    extern "C" __global__ void convert_##source_name##_to_##target_name(                           \
        const S *source, T *target, i64 length, int accumulate) {                                  \
        convert(source, target, length, accumulate);                                               \
    }
FOR_ELEMENTS(CONVERT)
CONVERT(f32, float, bf16, bf16)
