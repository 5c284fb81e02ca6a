// The sum over the threads of a block (a power of two, at most 256) in double precision, in thread 0.
__device__ __forceinline__ double block_total(double x) {
    __shared__ double scratch[256];
    __syncthreads();
    scratch[threadIdx.x] = x;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if ((int)threadIdx.x < half) scratch[threadIdx.x] += scratch[threadIdx.x + half];
    }
    return scratch[0];
}
