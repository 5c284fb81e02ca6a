// Convolution of images that lie channels last, as a product that is never unfolded: the rows of the
// left operand are pixels of the result, gathered tap by tap from where the window reaches; the right
// operand is the weight of that tap [outputs, channels]. Sums are in f32.

// bf16; f32 rounded to tf32; f32 as a sum of two tf32, so that nothing is lost that f32 sums keep.
struct BrainKind {
    typedef BrainCore Core;
    static const int PASSES = 1;
};
struct RoundedKind {
    typedef SingleCore Core;
    static const int PASSES = 1;
};
struct WholeKind {
    typedef SingleCore Core;
    static const int PASSES = 3;
};

// An operand of the matrix instruction: what it reads, and what rounding took away.
template <class Kind> struct Factor {
    u32 high[4], low[4];

    __device__ __forceinline__ void prepare() {
        if constexpr (sizeof(typename Kind::Core::Element) == 4) {
#pragma unroll
            for (int word = 0; word < 4; word++) {
                float value = __uint_as_float(high[word]);
                high[word] = to_tf32(value);
                if (Kind::PASSES == 3) low[word] = to_tf32(value - __uint_as_float(high[word]));
            }
        }
    }
};

template <class Kind>
__device__ __forceinline__ void multiply(float (&sums)[4], const Factor<Kind> &a, const Factor<Kind> &b, int half) {
    if constexpr (Kind::PASSES == 3) {
        Kind::Core::multiply(sums, a.low, b.high[2 * half], b.high[2 * half + 1]);
        Kind::Core::multiply(sums, a.high, b.low[2 * half], b.low[2 * half + 1]);
    }
    Kind::Core::multiply(sums, a.high, b.high[2 * half], b.high[2 * half + 1]);
}

static const int CONVOLVE_THREADS = 128, CONVOLVE_PIXELS = 256;

// The target's pixels ← the convolution, with a bias, with `residual`, which lies as the target, added and
// with what is negative set to zero, where asked. `weight` is [taps, outputs, channels]; channels fill
// chunks of 16 bytes. Grid: tiles of 256 pixels, tiles of 8·RIGHT outputs; each warp has 64 pixels.
template <class Kind, int RIGHT, typename T>
__device__ __forceinline__ void convolve(const T *x, const T *weight, const float *bias, const T *residual,
                                         T *target, int relu, const Sliding &of) {
    typedef typename Kind::Core Core;
    const int COLUMNS = 128 / (int)sizeof(T), STEPS = COLUMNS / Core::STEP, LEFT = 4, ROW_BYTES = 128;
    const int OUTPUTS = 8 * RIGHT, WIDTH = Vector<T>::width;
    const int LEFT_BYTES = CONVOLVE_PIXELS * ROW_BYTES, STAGE = LEFT_BYTES + OUTPUTS * ROW_BYTES;
    extern __shared__ __align__(128) char shared[];
    __shared__ int2 places[CONVOLVE_PIXELS];
    u32 tiles = shared_address(shared);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    i64 start = (i64)blockIdx.x * CONVOLVE_PIXELS;
    int first_output = blockIdx.y * OUTPUTS;

    for (int row = threadIdx.x; row < CONVOLVE_PIXELS; row += CONVOLVE_THREADS) {
        places[row] = of.stand(start + row);
    }
    __syncthreads();

    int chunk = threadIdx.x % 8, first = threadIdx.x / 8;
    int chunks = (of.channels + COLUMNS - 1) / COLUMNS, steps = of.kernel_rows * of.kernel_columns * chunks;
    int i = 0, j = 0, part = 0, tap = 0;
    auto start_copy = [&](int stage) {
        u32 left = tiles + stage * STAGE, right = left + LEFT_BYTES;
        int column = part * COLUMNS + chunk * WIDTH;
        bool filled = column < of.channels;
        // Rows are 16 apart, so that the place in the row stays.
        u32 place = Tile<T, COLUMNS>::place(first, chunk);
#pragma unroll
        for (int row = 0; row < CONVOLVE_PIXELS; row += CONVOLVE_THREADS / 8) {
            i64 from = of.under(places[first + row], i, j);
            bool exists = from >= 0 && filled;
            copy_near(left + row * ROW_BYTES + place, exists ? x + from * of.channels + column : x, exists);
        }
#pragma unroll
        for (int row = 0; row < OUTPUTS; row += CONVOLVE_THREADS / 8) {
            int output = first_output + first + row;
            bool exists = output < of.outputs && filled;
            i64 from = ((i64)tap * of.outputs + output) * of.channels + column;
            copy_chunk(right + row * ROW_BYTES + place, exists ? weight + from : weight, exists);
        }
        if (++part < chunks) return;
        part = 0, tap++;
        if (++j == of.kernel_columns) j = 0, i++;
    };

    float sums[LEFT][RIGHT][4];
    clear(sums);
    u32 left_place = Core::template left_rows_place<COLUMNS>(lane) + warp * 64 * ROW_BYTES;
    u32 right_place = Core::template right_rows_place<COLUMNS>(lane);
    start_copy(0);
    close_copies();
    for (int step = 0; step < steps; step++) {
        if (step + 1 < steps) start_copy((step + 1) % 2);
        close_copies();
        await_older_copies<1>();
        __syncthreads();
        u32 left = tiles + step % 2 * STAGE, right = left + LEFT_BYTES;
#pragma unroll
        for (int inner = 0; inner < STEPS; inner++) {
            Factor<Kind> a[LEFT];
#pragma unroll
            for (int m = 0; m < LEFT; m++) {
                load_matrices(a[m].high, left + 16 * m * ROW_BYTES + (left_place ^ (inner * 32)));
                a[m].prepare();
            }
#pragma unroll
            for (int pair = 0; pair < RIGHT / 2; pair++) {
                Factor<Kind> b;
                load_matrices(b.high, right + 16 * pair * ROW_BYTES + (right_place ^ (inner * 32)));
                b.prepare();
#pragma unroll
                for (int m = 0; m < LEFT; m++) {
                    multiply<Kind>(sums[m][2 * pair], a[m], b, 0);
                    multiply<Kind>(sums[m][2 * pair + 1], a[m], b, 1);
                }
            }
        }
        __syncthreads();
    }

#pragma unroll
    for (int n = 0; n < RIGHT; n++) {
        int output = first_output + 8 * n + lane % 4 * 2;
        if (output >= of.outputs) continue;
        float low = bias ? bias[output] : 0.0f, high = bias && output + 1 < of.outputs ? bias[output + 1] : 0.0f;
#pragma unroll
        for (int m = 0; m < LEFT; m++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                int row = warp * 64 + 16 * m + 8 * half + lane / 4;
                finish(of, residual, target, relu, of.place(start + row, places[row]), output,
                       sums[m][n][2 * half] + low, sums[m][n][2 * half + 1] + high);
            }
    }
}

static const int GRADIENT_PIXELS = 64, GRADIENT_SIDE = 64;

// A pixel of the result that moves on by GRADIENT_PIXELS.
struct Cursor {
    i64 pixel;
    int image, row, column;

    __device__ __forceinline__ void set(i64 to, const Sliding &of) {
        pixel = to;
        i64 line = to / of.columns;
        column = (int)(to - line * of.columns);
        image = (int)(line / of.rows), row = (int)(line - (i64)image * of.rows);
    }
    __device__ __forceinline__ void advance(const Sliding &of) {
        pixel += GRADIENT_PIXELS, column += GRADIENT_PIXELS;
        while (column >= of.columns) {
            column -= of.columns;
            if (++row == of.rows) row = 0, image++;
        }
    }
};

// sums [splits, taps, outputs, channels] ← Σ upstream · x of this part of the pixels. Grid: tap by tap
// the tiles of 64 outputs and 64 channels; splits. Both operands are contracted over the rows of their
// tiles, which are pixels.
template <class Kind, typename T>
__device__ __forceinline__ void weight_gradient(const T *x, const T *upstream, float *sums_of_splits,
                                                const Sliding &of) {
    typedef typename Kind::Core Core;
    const int SIDE = GRADIENT_SIDE, PIXELS = GRADIENT_PIXELS, WIDTH = Vector<T>::width;
    const int ROW_BYTES = SIDE * (int)sizeof(T), CHUNKS = ROW_BYTES / 16, TILE = PIXELS * ROW_BYTES;
    const int APART = CONVOLVE_THREADS / CHUNKS, OWN = PIXELS / APART;
    extern __shared__ __align__(128) char shared[];
    u32 tiles = shared_address(shared);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int channel_tiles = (of.channels + SIDE - 1) / SIDE, output_tiles = (of.outputs + SIDE - 1) / SIDE;
    int first_channel = blockIdx.x % channel_tiles * SIDE;
    int first_output = blockIdx.x / channel_tiles % output_tiles * SIDE;
    int tap = blockIdx.x / (channel_tiles * output_tiles);
    int i = tap / of.kernel_columns, j = tap % of.kernel_columns;
    i64 all = (of.pixels + PIXELS - 1) / PIXELS, split = blockIdx.y;
    i64 from = all * split / gridDim.y, to = all * (split + 1) / gridDim.y;

    int chunk = threadIdx.x % CHUNKS, first = threadIdx.x / CHUNKS;
    int channel = first_channel + chunk * WIDTH, output = first_output + chunk * WIDTH;
    // Gradients of an odd number of outputs do not lie in chunks of 16 bytes.
    bool aligned = of.outputs % WIDTH == 0;
    Cursor cursors[OWN];
#pragma unroll
    for (int own = 0; own < OWN; own++) cursors[own].set(from * PIXELS + first + own * APART, of);
    auto start_copy = [&](int stage) {
        u32 left = tiles + stage * 2 * TILE, right = left + TILE;
#pragma unroll
        for (int own = 0; own < OWN; own++) {
            Cursor &at = cursors[own];
            u32 place = Tile<T, SIDE>::place(first + own * APART, chunk);
            bool inside = at.pixel < of.pixels;
            i64 row = at.pixel * of.outputs;
            if (aligned) {
                bool exists = inside && output < of.outputs;
                copy_chunk(left + place, exists ? upstream + row + output : upstream, exists);
            } else {
                T *words = (T *)(shared + (left + place - tiles));
                for (int n = 0; n < WIDTH; n++)
                    words[n] = inside && output + n < of.outputs ? upstream[row + output + n] : from_float<T>(0.0f);
            }
            int y = at.row * of.stride_rows + i - of.top, z = at.column * of.stride_columns + j - of.left;
            bool exists = of.reach(y, z) && inside && channel < of.channels;
            i64 pixel = ((i64)at.image * of.height + y) * of.width + z;
            copy_near(right + place, exists ? x + pixel * of.channels + channel : x, exists);
            at.advance(of);
        }
    };

    float sums[2][4][4];
    clear(sums);
    u32 left_place = Core::template left_columns_place<SIDE>(lane);
    u32 right_place = Core::template right_columns_place<SIDE>(lane);
    int left_pair = warp % 2 * 2, right_pair = warp / 2 * 2;
    if (from < to) start_copy(0);
    close_copies();
    for (i64 step = from; step < to; step++) {
        int stage = (int)(step - from) % 2;
        if (step + 1 < to) start_copy(1 - stage);
        close_copies();
        await_older_copies<1>();
        __syncthreads();
        u32 left = tiles + stage * 2 * TILE, right = left + TILE;
#pragma unroll
        for (int row = 0; row < PIXELS; row += Core::STEP) {
            Factor<Kind> a[2], b[2];
#pragma unroll
            for (int m = 0; m < 2; m++) {
                Core::template left_columns<SIDE>(a[m].high, left, row, left_pair + m, left_place);
                Core::template right_columns<SIDE>(b[m].high, right, row, right_pair + m, right_place);
                a[m].prepare(), b[m].prepare();
            }
#pragma unroll
            for (int m = 0; m < 2; m++)
#pragma unroll
                for (int n = 0; n < 4; n++) multiply<Kind>(sums[m][n], a[m], b[n / 2], n % 2);
        }
        __syncthreads();
    }

    int taps = of.kernel_rows * of.kernel_columns;
    float *result = sums_of_splits + (split * taps + tap) * of.outputs * of.channels;
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int n = 0; n < 4; n++)
#pragma unroll
            for (int k = 0; k < 4; k++) {
                int row = first_output + 16 * (left_pair + m) + lane / 4 + k / 2 * 8;
                int column = first_channel + 16 * right_pair + 8 * n + lane % 4 * 2 + k % 2;
                if (row < of.outputs && column < of.channels) result[(i64)row * of.channels + column] = sums[m][n][k];
            }
}

// gradient [outputs, channels, taps] ← the sums of all splits, whose rows have `stored` channels.
extern "C" __global__ void gather_weight_gradient(const float *sums, float *gradient, i64 splits, i64 outputs,
                                                  i64 channels, i64 stored, i64 taps, int accumulate) {
    i64 number = thread_number();
    if (number >= outputs * channels * taps) return;
    i64 output = number / (channels * taps), channel = number / taps % channels, tap = number % taps;
    float sum = 0.0f;
    for (i64 split = 0; split < splits; split++)
        sum += sums[((split * taps + tap) * outputs + output) * stored + channel];
    put(gradient + number, sum, accumulate);
}

// patches [pixels, width] ← what the window reaches, a channel's elements one after another as in a
// weight, zeros behind them: one thread per element.
template <typename T>
__device__ __forceinline__ void unfold(const T *x, T *patches, int width, const Sliding &of) {
    i64 number = thread_number(), pixel = number / width, line = pixel / of.columns;
    if (pixel >= of.pixels) return;
    int element = (int)(number - pixel * width), taps = of.kernel_rows * of.kernel_columns;
    int channel = element / taps, tap = element - channel * taps;
    i64 image = line / of.rows;
    int i = tap / of.kernel_columns, j = tap - i * of.kernel_columns;
    int y = (int)(line - image * of.rows) * of.stride_rows + i - of.top;
    int z = (int)(pixel - line * of.columns) * of.stride_columns + j - of.left;
    bool exists = channel < of.channels && of.reach(y, z);
    patches[number] = exists ? x[((image * of.height + y) * of.width + z) * of.channels + channel] : from_float<T>(0.0f);
}

// folded [repeat · repeat, filters, taps] ← a weight [filters, window] as the phases of a window over
// repeated pixels have it: each tap is the sum of what meets the same pixel. One thread per element.
template <typename T>
__device__ __forceinline__ void fold_weight(const T *weight, T *folded, i64 filters, int window_rows,
                                            int window_columns, int tap_rows, int tap_columns, int repeat,
                                            int top, int left) {
    i64 number = thread_number(), taps = tap_rows * tap_columns, place = number / taps;
    if (place >= repeat * repeat * filters) return;
    int tap = (int)(number - place * taps), phase = (int)(place / filters);
    const T *window = weight + (place - phase * filters) * window_rows * window_columns;
    // How many of the first tap's elements lie before the window.
    int above = (phase / repeat - top) % repeat, aside = (phase % repeat - left) % repeat;
    if (above < 0) above += repeat;
    if (aside < 0) aside += repeat;
    int first_row = tap / tap_columns * repeat - above, first_column = tap % tap_columns * repeat - aside;
    float sum = 0.0f;
    for (int i = first_row; i < first_row + repeat; i++)
        for (int j = first_column; j < first_column + repeat; j++)
            if ((u32)i < (u32)window_rows && (u32)j < (u32)window_columns)
                sum += to_float(window[i * window_columns + j]);
    folded[number] = from_float<T>(sum);
}

// packed [taps, rows, width] ← a weight; `row_stride` and `column_stride` say where an output and a
// channel lie in it. Columns behind the last are zeros. Taps in reverse order turn a window around.
template <typename T>
__device__ __forceinline__ void pack_weight(const T *weight, T *packed, i64 taps, i64 rows, i64 columns,
                                            i64 width, i64 row_stride, i64 column_stride, int reverse) {
    i64 number = thread_number();
    if (number >= taps * rows * width) return;
    i64 column = number % width, row = number / width % rows, tap = number / width / rows;
    i64 from = row * row_stride + column * column_stride + (reverse ? taps - 1 - tap : tap);
    packed[number] = column < columns ? weight[from] : from_float<T>(0.0f);
}

// packed [rows, width] ← a weight of `window` elements for patches of a convolution's way back: the
// elements of each channel in reverse order.
template <typename T>
__device__ __forceinline__ void pack_turned_patches(const T *weight, T *packed, i64 rows, i64 channels,
                                                    i64 window, i64 width, i64 row_stride, i64 channel_stride) {
    i64 number = thread_number(), row = number / width, column = number - row * width;
    if (row >= rows) return;
    i64 channel = column / window, tap = column - channel * window;
    i64 from = row * row_stride + channel * channel_stride + window - 1 - tap;
    packed[number] = channel < channels ? weight[from] : from_float<T>(0.0f);
}

// slope ← upstream where y is positive, else zero.
template <typename T>
__device__ __forceinline__ void keep_positive(const T *upstream, const T *y, T *slope, i64 count) {
    i64 number = thread_number();
    if (number < count) slope[number] = to_float(y[number]) > 0.0f ? upstream[number] : from_float<T>(0.0f);
}

// gradient ← sums over blocks of repeat × repeat pixels of `channels` each; a line of the gradient has
// `width` pixels. One thread per element of the gradient.
template <typename T>
__device__ __forceinline__ void sum_repeats(const T *upstream, T *gradient, i64 count, i64 width, i64 channels,
                                            i64 repeat, int accumulate) {
    i64 number = thread_number();
    if (number >= count) return;
    i64 pixel = number / channels, channel = number - pixel * channels, line = pixel / width;
    i64 column = pixel - line * width;
    float sum = 0.0f;
    for (i64 i = 0; i < repeat; i++)
        for (i64 j = 0; j < repeat; j++)
            sum += to_float(upstream[((line * repeat + i) * width * repeat + column * repeat + j) * channels + channel]);
    put(gradient + number, sum, accumulate);
}

#define CONVOLVE(name, Kind, RIGHT, T)                                                             \
    extern "C" __global__ void __launch_bounds__(128)                                              \
        name(const T *x, const T *weight, const float *bias, const T *residual, T *target,         \
             int relu, SLIDING) {                                                                  \
        convolve<Kind, RIGHT>(x, weight, bias, residual, target, relu, OF_SLIDING);                \
    }
#define KIND(suffix, Kind, T)                                                                      \
    CONVOLVE(convolve_wide_##suffix, Kind, 8, T)                                                   \
    CONVOLVE(convolve_narrow_##suffix, Kind, 2, T)                                                 \
    extern "C" __global__ void __launch_bounds__(128)                                              \
        weight_gradient_##suffix(const T *x, const T *upstream, float *sums, SLIDING) {            \
        weight_gradient<Kind>(x, upstream, sums, OF_SLIDING);                                      \
    }
KIND(brain, BrainKind, bf16)
KIND(rounded, RoundedKind, float)
KIND(whole, WholeKind, float)

#define AROUND(suffix, T)                                                                          \
    extern "C" __global__ void unfold_##suffix(const T *x, T *patches, int patch_width, SLIDING) { \
        unfold(x, patches, patch_width, OF_SLIDING);                                               \
    }                                                                                              \
    extern "C" __global__ void fold_weight_##suffix(                                               \
        const T *weight, T *folded, i64 filters, int window_rows, int window_columns,              \
        int tap_rows, int tap_columns, int repeat, int top, int left) {                            \
        fold_weight(weight, folded, filters, window_rows, window_columns, tap_rows, tap_columns,   \
                    repeat, top, left);                                                            \
    }                                                                                              \
    extern "C" __global__ void pack_weight_##suffix(                                               \
        const T *weight, T *packed, i64 taps, i64 rows, i64 columns, i64 width, i64 row_stride,    \
        i64 column_stride, int reverse) {                                                          \
        pack_weight(weight, packed, taps, rows, columns, width, row_stride, column_stride,         \
                    reverse);                                                                      \
    }                                                                                              \
    extern "C" __global__ void pack_turned_patches_##suffix(                                       \
        const T *weight, T *packed, i64 rows, i64 channels, i64 window, i64 width, i64 row_stride, \
        i64 channel_stride) {                                                                      \
        pack_turned_patches(weight, packed, rows, channels, window, width, row_stride,             \
                            channel_stride);                                                       \
    }                                                                                              \
    extern "C" __global__ void keep_positive_##suffix(const T *upstream, const T *y, T *slope,     \
                                                      i64 count) {                                 \
        keep_positive(upstream, y, slope, count);                                                  \
    }                                                                                              \
    extern "C" __global__ void sum_repeats_##suffix(const T *upstream, T *gradient, i64 count,     \
                                                    i64 width, i64 channels, i64 repeat,           \
                                                    int accumulate) {                              \
        sum_repeats(upstream, gradient, count, width, channels, repeat, accumulate);               \
    }
AROUND(f32, float)
AROUND(bf16, bf16)
