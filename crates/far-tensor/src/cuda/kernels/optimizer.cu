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
// written once. `half` and `average` may be null. Four elements per thread; `length` may be any, and
// every address is aligned to 16 bytes (8 in `half`).
extern "C" __global__ void adamw(float *values, bf16 *half, float *first, float *second,
                                 float *average, const float *gradients, i64 length, float clip,
                                 float first_decay, float second_decay, float epsilon, float step,
                                 float root, float keep, float share) {
    i64 start = 4 * ((i64)blockIdx.x * blockDim.x + threadIdx.x);
    if (start >= length) return;
    int count = length - start < 4 ? (int)(length - start) : 4;
    float value[4], gradient[4], m[4], v[4], mean[4];
    // Arenas are padded to whole vectors, so that reading past the end of a range reads its padding.
    load_vector(values + start, value);
    load_vector(gradients + start, gradient);
    load_vector(first + start, m);
    load_vector(second + start, v);
    if (average) load_vector(average + start, mean);
#pragma unroll
    for (int index = 0; index < 4; index++) {
        float g = clip * gradient[index];
        m[index] = first_decay * m[index] + (1.0f - first_decay) * g;
        v[index] = second_decay * v[index] + (1.0f - second_decay) * g * g;
        value[index] = keep * value[index] - step * m[index] / (sqrtf(v[index]) * root + epsilon);
        if (average) mean[index] += share * (value[index] - mean[index]);
    }
    if (count == 4) {
        store_vector(values + start, value);
        store_vector(first + start, m);
        store_vector(second + start, v);
        if (average) store_vector(average + start, mean);
        if (half) {
            uint2 pairs = make_uint2(to_bf16_pair(value[0], value[1]), to_bf16_pair(value[2], value[3]));
            *(uint2 *)(half + start) = pairs;
        }
        return;
    }
    for (int index = 0; index < count; index++) {
        values[start + index] = value[index];
        first[start + index] = m[index];
        second[start + index] = v[index];
        if (average) average[start + index] = mean[index];
        if (half) half[start + index] = to_bf16(value[index]);
    }
}
