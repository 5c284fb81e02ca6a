// Vectors of 16 bytes kept as they are in memory until they are needed.

template <typename T> __device__ __forceinline__ uint4 load_raw(const T *from, bool inside) {
    return inside ? *(const uint4 *)from : make_uint4(0, 0, 0, 0);
}

// Keeps the compiler from carrying the unpacked numbers over from where they were last used: the
// registers are worth more than unpacking again.
__device__ __forceinline__ void stay_packed(uint4 &raw) {
    asm volatile("" : "+r"(raw.x), "+r"(raw.y), "+r"(raw.z), "+r"(raw.w));
}
