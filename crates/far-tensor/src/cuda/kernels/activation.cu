// Functions of one element and their slopes; the formulas are in activation.rs.

__device__ __forceinline__ float logistic(float x) { return 1.0f / (1.0f + expf(-x)); }

// Φ(x).
__device__ __forceinline__ float normal_cdf(float x) {
    return 0.5f * (1.0f + erff(0.707106781f * x));
}

struct Silu {
    static __device__ __forceinline__ float value(float x) { return x * logistic(x); }
    static __device__ __forceinline__ float slope(float x, float) {
        float s = logistic(x);
        return s * (1.0f + x * (1.0f - s));
    }
};
struct Gelu {
    static __device__ __forceinline__ float value(float x) { return x * normal_cdf(x); }
    static __device__ __forceinline__ float slope(float x, float) {
        return normal_cdf(x) + x * 0.39894228f * expf(-0.5f * x * x);
    }
};
struct GeluTanh {
    static __device__ __forceinline__ float gate(float x) {
        return logistic(1.595769122f * x * (1.0f + 0.044715f * x * x));
    }
    static __device__ __forceinline__ float value(float x) { return x * gate(x); }
    static __device__ __forceinline__ float slope(float x, float) {
        float s = gate(x), inner = 1.595769122f * (1.0f + 3.0f * 0.044715f * x * x);
        return s * (1.0f + x * (1.0f - s) * inner);
    }
};
struct Relu {
    // A NaN stays one.
    static __device__ __forceinline__ float value(float x) { return x > 0.0f ? x : 0.0f * x; }
    static __device__ __forceinline__ float slope(float x, float) { return x > 0.0f; }
};
struct Tanh {
    static __device__ __forceinline__ float value(float x) { return tanhf(x); }
    static __device__ __forceinline__ float slope(float, float y) { return 1.0f - y * y; }
};
struct Sigmoid {
    static __device__ __forceinline__ float value(float x) { return logistic(x); }
    static __device__ __forceinline__ float slope(float, float y) { return y * (1.0f - y); }
};
struct Exp {
    static __device__ __forceinline__ float value(float x) { return expf(x); }
    static __device__ __forceinline__ float slope(float, float y) { return y; }
};
struct Log {
    static __device__ __forceinline__ float value(float x) { return logf(x); }
    static __device__ __forceinline__ float slope(float x, float) { return 1.0f / x; }
};

template <typename A, typename T>
__device__ __forceinline__ void activate(const T *x, T *target, i64 length) {
    auto value = [](float x, float, float) { return A::value(x); };
    map_elements<1>(x, x, x, target, length, 0, value);
}

template <typename A, typename T>
__device__ __forceinline__ void activate_backward(const T *upstream, const T *x, const T *y,
                                                  T *gradient, i64 length, int accumulate) {
    auto slope = [](float d, float x, float y) { return d * A::slope(x, y); };
    map_elements<3>(upstream, x, y, gradient, length, accumulate, slope);
}

// In the order of the variants of `Activation`.
#define FOR_ACTIVATION(CALL)                                                                       \
    switch (activation) {                                                                          \
    case 0: CALL(Silu); break;                                                                     \
    case 1: CALL(Gelu); break;                                                                     \
    case 2: CALL(GeluTanh); break;                                                                 \
    case 3: CALL(Relu); break;                                                                     \
    case 4: CALL(Tanh); break;                                                                     \
    case 5: CALL(Sigmoid); break;                                                                  \
    case 6: CALL(Exp); break;                                                                      \
    default: CALL(Log); break;                                                                     \
    }
#define FORWARD(A) activate<A>(x, target, length)
#define BACKWARD(A) activate_backward<A>(upstream, x, y, gradient, length, accumulate)

#define ACTIVATION(suffix, T)                                                                      \
    extern "C" __global__ void activate_##suffix(const T *x, T *target, i64 length,                \
                                                 int activation) {                                 \
        FOR_ACTIVATION(FORWARD)                                                                    \
    }                                                                                              \
    extern "C" __global__ void activate_backward_##suffix(                                         \
        const T *upstream, const T *x, const T *y, T *gradient, i64 length, int activation,        \
        int accumulate) {                                                                          \
        FOR_ACTIVATION(BACKWARD)                                                                   \
    }
ACTIVATION(f32, float)
ACTIVATION(bf16, bf16)
