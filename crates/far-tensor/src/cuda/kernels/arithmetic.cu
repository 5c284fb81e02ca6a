// Sums, products, scale and shift; `multiply` and `affine` are also the backward, whose gradient may
// be of another element type.

#define COMBINE(suffix, T)                                                                         \
    extern "C" __global__ void combine_##suffix(const T *a, const T *b, T *target, i64 length,     \
                                                float p, float q) {                                \
        auto sum = [=](float a, float b, float) { return p * a + q * b; };                         \
        map_elements<2>(a, b, a, target, length, 0, sum);                                          \
    }
COMBINE(f32, float)
COMBINE(bf16, bf16)

#define MULTIPLY(source, S, result, T)                                                             \
    extern "C" __global__ void multiply_##source##_to_##result(                                    \
        const S *a, const S *b, T *target, i64 length, int accumulate) {                           \
        auto product = [](float a, float b, float) { return a * b; };                              \
        map_elements<2>(a, b, a, target, length, accumulate, product);                             \
    }
FOR_ELEMENTS(MULTIPLY)

#define AFFINE(source, S, result, T)                                                               \
    extern "C" __global__ void affine_##source##_to_##result(                                      \
        const S *x, T *target, i64 length, float factor, float offset, int accumulate) {           \
        auto line = [=](float x, float, float) { return factor * x + offset; };                    \
        map_elements<1>(x, x, x, target, length, accumulate, line);                                \
    }
FOR_ELEMENTS(AFFINE)
