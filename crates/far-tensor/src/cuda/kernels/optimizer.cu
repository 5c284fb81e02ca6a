// The optimizer's passes over an arena; the formula is in optimizer.rs.

// partials[block] ← the sum of squares of the elements that a block strides over. Launched with 256
// threads per block; the host adds the partial sums in double precision.
extern "C" __global__ void sum_of_squares(const float *values, float *partials, i64 length) {
    __shared__ float scratch[32];
    float sum = 0.0f;
    i64 stride = 4 * (i64)gridDim.x * blockDim.x;
    i64 first = 4 * ((i64)blockIdx.x * blockDim.x + threadIdx.x);
    // Arenas begin on a cache line and end on one.
    for (i64 index = first; index < length; index += stride) {
        float four[4];
        load_vector(values + index, four);
        sum += four[0] * four[0] + four[1] * four[1] + four[2] * four[2] + four[3] * four[3];
    }
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

// One update of AdamW with the moving average and the rounded copy beside it: each number is read and
// written once. `half` and `average` may be null. Four elements per thread.
extern "C" __global__ void adamw(float *values, bf16 *half, float *first, float *second,
                                 float *average, const float *gradients, i64 length, float clip,
                                 float first_decay, float second_decay, float epsilon, float step,
                                 float root, float keep, float share) {
    i64 start = 4 * ((i64)blockIdx.x * blockDim.x + threadIdx.x);
#pragma unroll
    for (int offset = 0; offset < 4; offset++) {
        i64 index = start + offset;
        if (index >= length) return;
        float gradient = clip * gradients[index];
        float m = first_decay * first[index] + (1.0f - first_decay) * gradient;
        float v = second_decay * second[index] + (1.0f - second_decay) * gradient * gradient;
        float value = keep * values[index] - step * m / (sqrtf(v) * root + epsilon);
        first[index] = m;
        second[index] = v;
        values[index] = value;
        if (half) half[index] = to_bf16(value);
        if (average) average[index] += share * (value - average[index]);
    }
}
