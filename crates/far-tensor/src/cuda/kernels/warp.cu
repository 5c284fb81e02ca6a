// Projective maps of pictures that lie as patches; formula and layout are in warp.rs.

struct Neighbors {
    int first, second;
    float share;
};

// Between which two pixels the source of a pixel lies along one axis; maxima first, so that what is
// not a number becomes 0.
__device__ __forceinline__ Neighbors neighbors(float numerator, float depth, int length) {
    float source = fminf(fmaxf(numerator / fmaxf(depth, 1e-6f) - 0.5f, 0.0f), (float)(length - 1));
    Neighbors result;
    result.first = (int)source;
    result.second = min(result.first + 1, length - 1);
    result.share = source - (float)result.first;
    return result;
}

// One thread per number of the result.
template <typename T>
__device__ __forceinline__ void warp(const T *source, T *target, const float *maps, i64 count,
                                     int rows, int columns, int colors, int side) {
    i64 number = thread_number();
    if (number >= count) return;
    int plane = side * side, values = colors * plane;
    i64 patch = number / values, picture = patch / (rows * columns);
    int within = (int)(number - patch * values), color = within / plane, pixel = within % plane;
    int place = (int)(patch - picture * (rows * columns));
    float u = (float)(place % columns * side + pixel % side) + 0.5f;
    float v = (float)(place / columns * side + pixel / side) + 0.5f;
    const float *map = maps + 9 * picture;
    float a = map[0] * u + map[1] * v + map[2];
    float b = map[3] * u + map[4] * v + map[5];
    float depth = map[6] * u + map[7] * v + map[8];
    Neighbors across = neighbors(a, depth, columns * side);
    Neighbors down = neighbors(b, depth, rows * side);
    const T *start = source + picture * (rows * columns) * values + color * plane;
    auto at = [&](int u, int v) {
        int offset = (v / side * columns + u / side) * values + v % side * side + u % side;
        return to_float(start[offset]);
    };
    float upper = at(across.first, down.first), lower = at(across.first, down.second);
    upper += across.share * (at(across.second, down.first) - upper);
    lower += across.share * (at(across.second, down.second) - lower);
    target[number] = from_float<T>(upper + down.share * (lower - upper));
}

#define WARP(suffix, T)                                                                            \
    extern "C" __global__ void warp_##suffix(const T *source, T *target, const float *maps,        \
                                             i64 count, int rows, int columns, int colors,         \
                                             int side) {                                           \
        warp(source, target, maps, count, rows, columns, colors, side);                            \
    }
WARP(f32, float)
WARP(bf16, bf16)
