// Maximum and average over sliding windows, and enlargement. One thread per element of the result, or
// of the gradient, which gathers what comes to it, so that the order never changes.

struct Planes {
    i64 count, height, width, fit_rows, fit_columns;
    int kernel_rows, kernel_columns, stride_rows, stride_columns, top, left;
};

__device__ __forceinline__ i64 at_least(i64 x, i64 bound) { return x > bound ? x : bound; }
__device__ __forceinline__ i64 at_most(i64 x, i64 bound) { return x < bound ? x : bound; }

// What the window of an output pixel covers of the image: rows first .. end, columns likewise.
struct Reach {
    i64 first_row, end_row, first_column, end_column;
};
__device__ __forceinline__ Reach reach(const Planes &of, i64 row, i64 column) {
    i64 from_row = row * of.stride_rows - of.top, from_column = column * of.stride_columns - of.left;
    return {at_least(from_row, 0), at_most(from_row + of.kernel_rows, of.height),
            at_least(from_column, 0), at_most(from_column + of.kernel_columns, of.width)};
}

// The first of the largest elements of a window; NaN counts as largest.
template <typename T>
__device__ __forceinline__ i64 first_largest(const T *plane, i64 width, const Reach &window) {
    i64 best = window.first_row * width + window.first_column;
    float largest = to_float(plane[best]);
    for (i64 row = window.first_row; row < window.end_row; row++) {
        for (i64 column = window.first_column; column < window.end_column; column++) {
            float value = to_float(plane[row * width + column]);
            if (value > largest || value != value) largest = value, best = row * width + column;
        }
    }
    return best;
}

template <typename T>
__device__ __forceinline__ void pool(const T *x, T *target, const Planes &of, int maximum) {
    i64 pixels = of.fit_rows * of.fit_columns, number = thread_number();
    if (number >= of.count * pixels) return;
    i64 plane = number / pixels, pixel = number - plane * pixels, row = pixel / of.fit_columns;
    Reach window = reach(of, row, pixel - row * of.fit_columns);
    x += plane * of.height * of.width;
    if (maximum) {
        target[number] = x[first_largest(x, of.width, window)];
        return;
    }
    float sum = 0.0f;
    for (i64 row = window.first_row; row < window.end_row; row++)
        for (i64 column = window.first_column; column < window.end_column; column++)
            sum += to_float(x[row * of.width + column]);
    target[number] = from_float<T>(sum / (of.kernel_rows * of.kernel_columns));
}

// The first position whose window reaches `place`.
__device__ __forceinline__ i64 first_window(i64 place, i64 before, i64 kernel, i64 stride) {
    i64 from = place + before - kernel + 1;
    return from <= 0 ? 0 : (from + stride - 1) / stride;
}

template <typename T>
__device__ __forceinline__ void pool_backward(const T *upstream, const T *x, T *gradient,
                                              const Planes &of, int maximum, int accumulate) {
    i64 elements = of.height * of.width, number = thread_number();
    if (number >= of.count * elements) return;
    i64 plane = number / elements, place = number - plane * elements;
    i64 y = place / of.width, z = place - y * of.width;
    i64 end_row = at_most((y + of.top) / of.stride_rows + 1, of.fit_rows);
    i64 end_column = at_most((z + of.left) / of.stride_columns + 1, of.fit_columns);
    x += plane * elements, upstream += plane * of.fit_rows * of.fit_columns;
    float sum = 0.0f, share = 1.0f / (of.kernel_rows * of.kernel_columns);
    for (i64 row = first_window(y, of.top, of.kernel_rows, of.stride_rows); row < end_row; row++) {
        i64 column = first_window(z, of.left, of.kernel_columns, of.stride_columns);
        for (; column < end_column; column++) {
            float d = to_float(upstream[row * of.fit_columns + column]);
            if (!maximum)
                sum += d * share;
            else if (first_largest(x, of.width, reach(of, row, column)) == place)
                sum += d;
        }
    }
    float value[1] = {sum};
    put_run(gradient + number, value, accumulate);
}

// x [planes·height, width] → [planes·height·factor, width·factor].
template <typename T>
__device__ __forceinline__ void upsample(const T *x, T *target, i64 rows, i64 width, i64 factor) {
    i64 wide = width * factor, number = thread_number();
    if (number >= rows * factor * wide) return;
    i64 row = number / wide, column = number - row * wide;
    target[number] = x[row / factor * width + column / factor];
}

template <typename T>
__device__ __forceinline__ void upsample_backward(const T *upstream, T *gradient, i64 rows,
                                                  i64 width, i64 factor, int accumulate) {
    i64 number = thread_number();
    if (number >= rows * width) return;
    i64 row = number / width, column = number - row * width;
    const T *from = upstream + row * factor * width * factor + column * factor;
    float sum[1] = {0.0f};
    for (i64 down = 0; down < factor; down++, from += width * factor)
        for (i64 right = 0; right < factor; right++) sum[0] += to_float(from[right]);
    put_run(gradient + number, sum, accumulate);
}

#define PLANES                                                                                     \
    i64 count, i64 height, i64 width, i64 fit_rows, i64 fit_columns, int kernel_rows,              \
        int kernel_columns, int stride_rows, int stride_columns, int top, int left
#define OF_PLANES                                                                                  \
    Planes {                                                                                       \
        count, height, width, fit_rows, fit_columns, kernel_rows, kernel_columns, stride_rows,     \
            stride_columns, top, left                                                              \
    }

#define POOLING(suffix, T)                                                                         \
    extern "C" __global__ void pool_##suffix(const T *x, T *target, PLANES, int maximum) {         \
        pool(x, target, OF_PLANES, maximum);                                                       \
    }                                                                                              \
    extern "C" __global__ void pool_backward_##suffix(const T *upstream, const T *x, T *gradient,  \
                                                      PLANES, int maximum, int accumulate) {       \
        pool_backward(upstream, x, gradient, OF_PLANES, maximum, accumulate);                      \
    }                                                                                              \
    extern "C" __global__ void upsample_##suffix(const T *x, T *target, i64 rows, i64 width,       \
                                                 i64 factor) {                                     \
        upsample(x, target, rows, width, factor);                                                  \
    }                                                                                              \
    extern "C" __global__ void upsample_backward_##suffix(const T *upstream, T *gradient,          \
                                                          i64 rows, i64 width, i64 factor,         \
                                                          int accumulate) {                        \
        upsample_backward(upstream, gradient, rows, width, factor, accumulate);                    \
    }
POOLING(f32, float)
POOLING(bf16, bf16)
