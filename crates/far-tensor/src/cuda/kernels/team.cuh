// A team of threads works on one row: one thread, one warp, or one block, as the launch says.

#define INFINITY_F __int_as_float(0x7f800000)

struct Sum {
    static __device__ __forceinline__ float of(float a, float b) { return a + b; }
};
// NaN loses.
struct Largest {
    static __device__ __forceinline__ float of(float a, float b) { return fmaxf(a, b); }
};
struct Smallest {
    static __device__ __forceinline__ int of(int a, int b) { return a < b ? a : b; }
};

__device__ __forceinline__ bool is_valid(const float *mask, i64 index) {
    return !mask || mask[index] != 0.0f;
}
__device__ __forceinline__ bool is_valid(const bf16 *mask, i64 index) {
    return !mask || to_float(mask[index]) != 0.0f;
}

// target ← value, or target + value.
template <typename T>
__device__ __forceinline__ void put(T *target, float value, int accumulate) {
    *target = from_float<T>(accumulate ? to_float(*target) + value : value);
}

struct Team {
    // The row that this team works on.
    i64 row;
    // This thread's place in it, and how many there are: 1, 32 or all of the block.
    int rank, size;

    __device__ __forceinline__ Team(int size) : size(size) {
        row = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / size;
        rank = threadIdx.x % size;
    }

    // All values of the team's threads put together, in every thread of it. All must call.
    template <typename O, typename V> __device__ __forceinline__ V fold(V value) const {
        __shared__ V scratch[32];
        if (size == 1) return value;
#pragma unroll
        for (int offset = 16; offset > 0; offset /= 2)
            value = O::of(value, __shfl_xor_sync(0xffffffffu, value, offset));
        if (size == 32) return value;
        __syncthreads();
        if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
        __syncthreads();
        value = scratch[0];
        for (int warp = 1; warp < (int)blockDim.x / 32; warp++) value = O::of(value, scratch[warp]);
        return value;
    }

    // Σ term(n) over n below `length`.
    template <typename F> __device__ __forceinline__ float sum(i64 length, F term) const {
        float sum = 0.0f;
        for (i64 index = rank; index < length; index += size) sum += term(index);
        return fold<Sum>(sum);
    }

    // The largest term(n).
    template <typename F> __device__ __forceinline__ float largest(i64 length, F term) const {
        float largest = -INFINITY_F;
        for (i64 index = rank; index < length; index += size) largest = fmaxf(largest, term(index));
        return fold<Largest>(largest);
    }
};
