// target ← source, or target + source, between element types: four elements per thread.

template <typename S, typename T>
__device__ __forceinline__ void convert(const S *source, T *target, i64 length, int accumulate) {
    i64 first = 4 * ((i64)blockIdx.x * blockDim.x + threadIdx.x);
#pragma unroll
    for (int step = 0; step < 4; step++) {
        i64 index = first + step;
        if (index >= length) return;
        float value = to_float(source[index]);
        if (accumulate) value += to_float(target[index]);
        target[index] = from_float<T>(value);
    }
}

#define CONVERT(name, S, T)                                                                        \
    extern "C" __global__ void name(const S *source, T *target, i64 length, int accumulate) {      \
        convert(source, target, length, accumulate);                                               \
    }

CONVERT(convert_f32_to_f32, float, float)
CONVERT(convert_f32_to_bf16, float, bf16)
CONVERT(convert_bf16_to_f32, bf16, float)
CONVERT(convert_bf16_to_bf16, bf16, bf16)
