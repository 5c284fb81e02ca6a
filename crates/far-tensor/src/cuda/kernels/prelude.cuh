// What every kernel shares: element types, conversions, vectors of 16 bytes, sums over a warp and a
// block. Arithmetic is in f32 whatever the elements are. No toolkit header is included, so that
// run-time compilation needs nothing but the compiler.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

// A bfloat16: the upper half of an f32.
struct bf16 {
    u16 bits;
};

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(bf16 x) { return __uint_as_float((u32)x.bits << 16); }

// Rounds to nearest even, as the hardware does; NaN stays NaN.
__device__ __forceinline__ bf16 to_bf16(float x) {
    bf16 result;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
    return result;
}

// Two of them in one register, `low` in the lower half.
__device__ __forceinline__ u32 to_bf16_pair(float low, float high) {
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

template <typename T> __device__ __forceinline__ T from_float(float x);
template <> __device__ __forceinline__ float from_float<float>(float x) { return x; }
template <> __device__ __forceinline__ bf16 from_float<bf16>(float x) { return to_bf16(x); }

// What one access of 16 bytes holds of an element type.
template <typename T> struct Vector;
template <> struct Vector<float> { static const int width = 4; };
template <> struct Vector<bf16> { static const int width = 8; };

// Reads one 16-byte vector as floats; the address is aligned to 16 bytes.
__device__ __forceinline__ void load_vector(const float *from, float (&to)[4]) {
    float4 value = *(const float4 *)from;
    to[0] = value.x, to[1] = value.y, to[2] = value.z, to[3] = value.w;
}
__device__ __forceinline__ void load_vector(const bf16 *from, float (&to)[8]) {
    uint4 value = *(const uint4 *)from;
    u32 words[4] = {value.x, value.y, value.z, value.w};
#pragma unroll
    for (int word = 0; word < 4; word++) {
        to[2 * word] = __uint_as_float(words[word] << 16);
        to[2 * word + 1] = __uint_as_float(words[word] & 0xffff0000u);
    }
}
__device__ __forceinline__ void store_vector(float *to, const float (&from)[4]) {
    *(float4 *)to = make_float4(from[0], from[1], from[2], from[3]);
}
__device__ __forceinline__ void store_vector(bf16 *to, const float (&from)[8]) {
    uint4 value;
    value.x = to_bf16_pair(from[0], from[1]);
    value.y = to_bf16_pair(from[2], from[3]);
    value.z = to_bf16_pair(from[4], from[5]);
    value.w = to_bf16_pair(from[6], from[7]);
    *(uint4 *)to = value;
}

// Writes two neighbors at once; the address is a multiple of both.
__device__ __forceinline__ void write_pair(bf16 *to, float low, float high) {
    *(u32 *)to = to_bf16_pair(low, high);
}
__device__ __forceinline__ void write_pair(float *to, float low, float high) {
    *(float2 *)to = make_float2(low, high);
}

// An address in shared memory as instructions take it.
__device__ __forceinline__ u32 shared_address(const void *pointer) {
    return (u32)__cvta_generic_to_shared(pointer);
}

// The sum over the lanes of a warp, in every lane.
__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
    return x;
}

// The sum over the threads of a block (at most 1,024, a multiple of 32), in every thread; `scratch`
// holds 32 floats of shared memory and may be used again at once.
__device__ __forceinline__ float block_sum(float x, float *scratch) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    x = warp_sum(x);
    __syncthreads();
    if (lane == 0) scratch[warp] = x;
    __syncthreads();
    x = lane < (int)(blockDim.x + 31) / 32 ? scratch[lane] : 0.0f;
    return warp_sum(x);
}
