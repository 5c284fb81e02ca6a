// What softmax divides by.

struct Normalizer {
    // m = max x and Z = Σ eˣ⁻ᵐ over the valid elements; zeros where there are none.
    float largest, total;

    __device__ __forceinline__ float log_sum() const { return total == 0.0f ? 0.0f : logf(total); }
    __device__ __forceinline__ float probability(float x) const {
        return total == 0.0f ? 0.0f : expf(x - largest) / total;
    }
};

template <typename T>
__device__ __forceinline__ Normalizer normalizer(const Team &team, const T *x, const T *mask,
                                                 i64 width) {
    float largest = team.largest(
        width, [=](i64 n) { return is_valid(mask, n) ? to_float(x[n]) : -INFINITY_F; });
    float total = team.sum(
        width, [=](i64 n) { return is_valid(mask, n) ? expf(to_float(x[n]) - largest) : 0.0f; });
    return {total == 0.0f ? 0.0f : largest, total};
}
