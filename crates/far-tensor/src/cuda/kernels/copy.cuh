// Asynchronous copies into shared memory, 16 or 4 bytes at a time.

// Starts a copy of 16 bytes, or of zeros where `exists` is false; then nothing is read.
__device__ __forceinline__ void copy_chunk(u32 to, const void *from, bool exists) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(exists ? 16 : 0)
                 : "memory");
}
// A copy of 16 bytes that stays in the first cache: neighboring taps read it again.
__device__ __forceinline__ void copy_near(u32 to, const void *from, bool exists) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(exists ? 16 : 0)
                 : "memory");
}
__device__ __forceinline__ void copy_word(u32 to, const void *from, bool exists) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from),
                 "r"(exists ? 4 : 0)
                 : "memory");
}
__device__ __forceinline__ void close_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits for all of this thread's copies but the last `LATER` closed groups.
template <int LATER> __device__ __forceinline__ void await_older_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory");
}
