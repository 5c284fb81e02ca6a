// What surrounds the matrix products of a convolution. Images are unfolded into a matrix of patches
// [channels·kernel, images·pixels], so that neighbors read and write neighbors.

struct Geometry {
    i64 images, height, width, fit_rows, fit_columns;
    int channels, kernel_rows, kernel_columns, stride_rows, stride_columns, top, left;
};

// patches ← x: one thread per element of the matrix.
template <typename T>
__device__ __forceinline__ void unfold(const T *x, T *patches, const Geometry &of) {
    i64 pixels = of.fit_rows * of.fit_columns, columns = of.images * pixels;
    int kernel = of.kernel_rows * of.kernel_columns;
    i64 number = thread_number();
    if (number >= of.channels * kernel * columns) return;
    i64 element = number / columns, place = number - element * columns;
    i64 image = place / pixels, pixel = place - image * pixels, row = pixel / of.fit_columns;
    int channel = (int)element / kernel, within = (int)element - channel * kernel;
    int i = within / of.kernel_columns, j = within - i * of.kernel_columns;
    i64 y = row * of.stride_rows + i - of.top;
    i64 z = (pixel - row * of.fit_columns) * of.stride_columns + j - of.left;
    bool inside = y >= 0 && y < of.height && z >= 0 && z < of.width;
    i64 from = ((image * of.channels + channel) * of.height + y) * of.width + z;
    patches[number] = inside ? x[from] : from_float<T>(0.0f);
}

// gradient of x ← the patches that it went to, in order: one thread per element of x.
template <typename T>
__device__ __forceinline__ void fold(const T *patches, T *gradient, const Geometry &of,
                                     int accumulate) {
    i64 elements = of.height * of.width, pixels = of.fit_rows * of.fit_columns;
    i64 columns = of.images * pixels, number = thread_number();
    if (number >= of.images * of.channels * elements) return;
    i64 plane = number / elements, place = number - plane * elements;
    i64 image = plane / of.channels, channel = plane - image * of.channels;
    i64 y = place / of.width, z = place - y * of.width;
    float sum[1] = {0.0f};
    for (int i = 0; i < of.kernel_rows; i++) {
        i64 row = y + of.top - i;
        if (row < 0 || row % of.stride_rows != 0) continue;
        row /= of.stride_rows;
        if (row >= of.fit_rows) continue;
        for (int j = 0; j < of.kernel_columns; j++) {
            i64 column = z + of.left - j;
            if (column < 0 || column % of.stride_columns != 0) continue;
            column /= of.stride_columns;
            if (column >= of.fit_columns) continue;
            i64 element = (channel * of.kernel_rows + i) * of.kernel_columns + j;
            i64 pixel = row * of.fit_columns + column;
            sum[0] += to_float(patches[element * columns + image * pixels + pixel]);
        }
    }
    put_run(gradient + number, sum, accumulate);
}

// source [outer, inner, pixels] → target [inner, outer, pixels], with a level per channel added unless
// that is null; channels are the outer axis of the source.
template <typename T>
__device__ __forceinline__ void swap_axes(const T *source, const float *levels, T *target, i64 outer,
                                          i64 inner, i64 pixels) {
    i64 number = thread_number();
    if (number >= outer * inner * pixels) return;
    i64 plane = number / pixels, pixel = number - plane * pixels;
    i64 second = plane / outer, first = plane - second * outer;
    float value = to_float(source[(first * inner + second) * pixels + pixel]);
    target[number] = from_float<T>(levels ? value + levels[first] : value);
}

// gradient[channel] ← Σ d over images and pixels: one team per channel.
template <typename T>
__device__ __forceinline__ void channel_sums(const T *upstream, float *gradient, i64 images,
                                             i64 channels, i64 pixels, int size, int accumulate) {
    Team team(size);
    if (team.row >= channels) return;
    i64 channel = team.row;
    float sum = team.sum(images * pixels, [=](i64 n) {
        i64 image = n / pixels;
        return to_float(upstream[(image * channels + channel) * pixels + n - image * pixels]);
    });
    if (team.rank == 0) put(gradient + channel, sum, accumulate);
}

#define GEOMETRY                                                                                   \
    i64 images, i64 height, i64 width, i64 fit_rows, i64 fit_columns, int channels,                \
        int kernel_rows, int kernel_columns, int stride_rows, int stride_columns, int top,         \
        int left
#define OF_GEOMETRY                                                                                \
    Geometry {                                                                                     \
        images, height, width, fit_rows, fit_columns, channels, kernel_rows, kernel_columns,       \
            stride_rows, stride_columns, top, left                                                 \
    }

#define CONVOLUTION(suffix, T)                                                                     \
    extern "C" __global__ void unfold_##suffix(const T *x, T *patches, GEOMETRY) {                 \
        unfold(x, patches, OF_GEOMETRY);                                                           \
    }                                                                                              \
    extern "C" __global__ void fold_##suffix(const T *patches, T *gradient, GEOMETRY,              \
                                             int accumulate) {                                     \
        fold(patches, gradient, OF_GEOMETRY, accumulate);                                          \
    }                                                                                              \
    extern "C" __global__ void swap_axes_##suffix(const T *source, const float *levels, T *target, \
                                                  i64 outer, i64 inner, i64 pixels) {              \
        swap_axes(source, levels, target, outer, inner, pixels);                                   \
    }                                                                                              \
    extern "C" __global__ void channel_sums_##suffix(const T *upstream, float *gradient,           \
                                                     i64 images, i64 channels, i64 pixels,         \
                                                     int size, int accumulate) {                   \
        channel_sums(upstream, gradient, images, channels, pixels, size, accumulate);              \
    }
CONVOLUTION(f32, float)
CONVOLUTION(bf16, bf16)
