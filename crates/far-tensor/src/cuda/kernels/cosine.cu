// Rows of length one, and the cosine of a query with each of its keys.

// max(‖x‖, ε), and 1 where that is ‖x‖, else 0. A NaN stays one.
struct Length {
    float norm, free;
};
__device__ __forceinline__ Length length_of(float square, float epsilon) {
    float norm = sqrtf(square);
    if (norm <= epsilon) return {epsilon, 0.0f};
    return {norm, 1.0f};
}

template <typename T>
__device__ __forceinline__ float dot(const Team &team, const T *a, const T *b, i64 width) {
    return team.sum(width, [=](i64 n) { return to_float(a[n]) * to_float(b[n]); });
}

template <typename T>
__device__ __forceinline__ void normalize(const T *x, T *target, i64 rows, i64 width, float epsilon,
                                          int size) {
    Team team(size);
    if (team.row >= rows) return;
    x += team.row * width, target += team.row * width;
    float scale = 1.0f / length_of(dot(team, x, x, width), epsilon).norm;
    for (i64 n = team.rank; n < width; n += team.size)
        target[n] = from_float<T>(to_float(x[n]) * scale);
}

template <typename T>
__device__ __forceinline__ void normalize_backward(const T *upstream, const T *x, T *gradient,
                                                   i64 rows, i64 width, float epsilon, int size,
                                                   int accumulate) {
    Team team(size);
    if (team.row >= rows) return;
    i64 start = team.row * width;
    upstream += start, x += start, gradient += start;
    Length of = length_of(dot(team, x, x, width), epsilon);
    float scale = 1.0f / of.norm;
    float along = of.free * dot(team, upstream, x, width) * scale * scale * scale;
    for (i64 n = team.rank; n < width; n += team.size)
        put(gradient + n, to_float(upstream[n]) * scale - to_float(x[n]) * along, accumulate);
}

// One team per key.
template <typename T>
__device__ __forceinline__ void cosine(const T *query, const T *keys, T *target, i64 rows,
                                       i64 count, i64 width, float epsilon, int size) {
    Team team(size);
    if (team.row >= rows) return;
    query += team.row / count * width, keys += team.row * width;
    float product = dot(team, query, keys, width);
    float first = length_of(dot(team, query, query, width), epsilon).norm;
    float second = length_of(dot(team, keys, keys, width), epsilon).norm;
    if (team.rank == 0) target[team.row] = from_float<T>(product / (first * second));
}

// The gradient of each key, unless that is null, and what the query's needs of it: its factor
// d / (‖q‖‖k‖), and d·s.
template <typename T>
__device__ __forceinline__ void cosine_keys(const T *upstream, const T *query, const T *keys,
                                            T *gradient, float *factors, i64 rows, i64 count,
                                            i64 width, float epsilon, int size, int accumulate) {
    Team team(size);
    if (team.row >= rows) return;
    query += team.row / count * width, keys += team.row * width;
    float product = dot(team, query, keys, width), d = to_float(upstream[team.row]);
    Length first = length_of(dot(team, query, query, width), epsilon);
    Length second = length_of(dot(team, keys, keys, width), epsilon);
    float across = d / (first.norm * second.norm);
    if (team.rank == 0) {
        factors[2 * team.row] = across;
        factors[2 * team.row + 1] = across * product;
    }
    if (!gradient) return;
    gradient += team.row * width;
    float along = second.free * across * product / (second.norm * second.norm);
    for (i64 n = team.rank; n < width; n += team.size)
        put(gradient + n, across * to_float(query[n]) - along * to_float(keys[n]), accumulate);
}

// The gradient of each query, summed over its keys in order: one team per query.
template <typename T>
__device__ __forceinline__ void cosine_query(const T *query, const T *keys, const float *factors,
                                             T *gradient, i64 batch, i64 count, i64 width,
                                             float epsilon, int size, int accumulate) {
    Team team(size);
    if (team.row >= batch) return;
    query += team.row * width, keys += team.row * count * width, gradient += team.row * width;
    factors += 2 * team.row * count;
    Length of = length_of(dot(team, query, query, width), epsilon);
    float along = team.sum(count, [=](i64 key) { return factors[2 * key + 1]; });
    along *= of.free / (of.norm * of.norm);
    for (i64 n = team.rank; n < width; n += team.size) {
        float sum = -along * to_float(query[n]);
        for (i64 key = 0; key < count; key++)
            sum += factors[2 * key] * to_float(keys[key * width + n]);
        put(gradient + n, sum, accumulate);
    }
}

#define COSINE(suffix, T)                                                                          \
    extern "C" __global__ void normalize_##suffix(const T *x, T *target, i64 rows, i64 width,      \
                                                  float epsilon, int size) {                       \
        normalize(x, target, rows, width, epsilon, size);                                          \
    }                                                                                              \
    extern "C" __global__ void normalize_backward_##suffix(                                        \
        const T *upstream, const T *x, T *gradient, i64 rows, i64 width, float epsilon, int size,  \
        int accumulate) {                                                                          \
        normalize_backward(upstream, x, gradient, rows, width, epsilon, size, accumulate);         \
    }                                                                                              \
    extern "C" __global__ void cosine_##suffix(const T *query, const T *keys, T *target, i64 rows, \
                                               i64 count, i64 width, float epsilon, int size) {    \
        cosine(query, keys, target, rows, count, width, epsilon, size);                            \
    }                                                                                              \
    extern "C" __global__ void cosine_keys_##suffix(                                               \
        const T *upstream, const T *query, const T *keys, T *gradient, float *factors, i64 rows,   \
        i64 count, i64 width, float epsilon, int size, int accumulate) {                           \
        cosine_keys(upstream, query, keys, gradient, factors, rows, count, width, epsilon, size,   \
                    accumulate);                                                                   \
    }                                                                                              \
    extern "C" __global__ void cosine_query_##suffix(                                              \
        const T *query, const T *keys, const float *factors, T *gradient, i64 batch, i64 count,    \
        i64 width, float epsilon, int size, int accumulate) {                                      \
        cosine_query(query, keys, factors, gradient, batch, count, width, epsilon, size,           \
                     accumulate);                                                                  \
    }
COSINE(f32, float)
COSINE(bf16, bf16)
