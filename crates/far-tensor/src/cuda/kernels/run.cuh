// Runs of elements in one thread: as floats, eight or four at a time where the address is a multiple
// of the run, else one by one.

template <int N> struct Run;
template <> struct Run<1> {
    template <typename T> static __device__ __forceinline__ void load(const T *from, float (&to)[1]) {
        to[0] = to_float(*from);
    }
    template <typename T> static __device__ __forceinline__ void store(T *to, const float (&from)[1]) {
        *to = from_float<T>(from[0]);
    }
};
template <> struct Run<4> {
    static __device__ __forceinline__ void load(const float *from, float (&to)[4]) {
        load_vector(from, to);
    }
    static __device__ __forceinline__ void load(const bf16 *from, float (&to)[4]) {
        uint2 value = *(const uint2 *)from;
        to[0] = __uint_as_float(value.x << 16), to[1] = __uint_as_float(value.x & 0xffff0000u);
        to[2] = __uint_as_float(value.y << 16), to[3] = __uint_as_float(value.y & 0xffff0000u);
    }
    static __device__ __forceinline__ void store(float *to, const float (&from)[4]) {
        store_vector(to, from);
    }
    static __device__ __forceinline__ void store(bf16 *to, const float (&from)[4]) {
        *(uint2 *)to = make_uint2(to_bf16_pair(from[0], from[1]), to_bf16_pair(from[2], from[3]));
    }
};
template <> struct Run<8> {
    static __device__ __forceinline__ void load(const float *from, float (&to)[8]) {
        float4 low = *(const float4 *)from, high = *(const float4 *)(from + 4);
        to[0] = low.x, to[1] = low.y, to[2] = low.z, to[3] = low.w;
        to[4] = high.x, to[5] = high.y, to[6] = high.z, to[7] = high.w;
    }
    static __device__ __forceinline__ void load(const bf16 *from, float (&to)[8]) {
        load_vector(from, to);
    }
    static __device__ __forceinline__ void store(float *to, const float (&from)[8]) {
        *(float4 *)to = make_float4(from[0], from[1], from[2], from[3]);
        *(float4 *)(to + 4) = make_float4(from[4], from[5], from[6], from[7]);
    }
    static __device__ __forceinline__ void store(bf16 *to, const float (&from)[8]) {
        store_vector(to, from);
    }
};

// target ← values, or target + values.
template <int N, typename T>
__device__ __forceinline__ void put_run(T *target, const float (&values)[N], int accumulate) {
    if (!accumulate) return Run<N>::store(target, values);
    float sums[N];
    Run<N>::load(target, sums);
#pragma unroll
    for (int step = 0; step < N; step++) sums[step] += values[step];
    Run<N>::store(target, sums);
}

// The number of this thread among all.
__device__ __forceinline__ i64 thread_number() {
    return (i64)blockIdx.x * blockDim.x + threadIdx.x;
}

// Kernels whose source and target may be of different element types: all that occur.
#define FOR_ELEMENTS(KERNEL)                                                                       \
    KERNEL(f32, float, f32, float)                                                                 \
    KERNEL(bf16, bf16, bf16, bf16)                                                                 \
    KERNEL(bf16, bf16, f32, float)
