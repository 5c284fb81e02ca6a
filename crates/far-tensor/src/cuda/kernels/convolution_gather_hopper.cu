// Convolution on Hopper in bf16 by any window: as `convolve` of convolution.cu does it, with warpgroup
// products. Compiled after prelude.cuh, copy.cuh, sliding.cuh and hopper.cuh.
//
// convolve_gather_hopper
//   grid     ceil(pixels / 256), ceil(outputs / 64)
//   block    256 threads
//   shared   81,920 bytes, dynamic
//
// Each warpgroup multiplies 128 pixels with 64 outputs. While it does so, its threads start the copies
// of the next tap into the other stage; two blocks share a multiprocessor.

static const int GATHER_THREADS = 256, GATHER_PIXELS = 256, GATHER_OUTPUTS = 64;
static const int GATHER_LEFT_BYTES = GATHER_PIXELS * ROW_BYTES;
static const int GATHER_STAGE = GATHER_LEFT_BYTES + GATHER_OUTPUTS * ROW_BYTES;

// The target's pixels ← the convolution, with a bias, with `residual` added and with what is
// negative set to zero, where asked. `weight` is [taps, outputs, channels]; channels fill chunks of 16
// bytes.
extern "C" __global__ void __launch_bounds__(GATHER_THREADS, 2)
    convolve_gather_hopper(const bf16 *x, const bf16 *weight, const float *bias, const bf16 *residual,
                           bf16 *target, int relu, SLIDING) {
    const Sliding of = OF_SLIDING;
    extern __shared__ __align__(1024) char shared[];
    __shared__ int2 places[GATHER_PIXELS];
    u32 tiles = shared_address(shared);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, group = warpgroup_number();
    i64 start = (i64)blockIdx.x * GATHER_PIXELS;
    int first_output = blockIdx.y * GATHER_OUTPUTS;

    places[threadIdx.x] = of.stand(start + threadIdx.x);
    __syncthreads();

    int chunk = threadIdx.x % 8, first = threadIdx.x / 8;
    int chunks = (of.channels + 63) / 64, steps = of.kernel_rows * of.kernel_columns * chunks;
    int i = 0, j = 0, part = 0, tap = 0;
    auto start_copy = [&](int stage) {
        // Rows are 32 apart, so that the place in the row stays.
        u32 to = tiles + stage * GATHER_STAGE + swizzled(first, chunk);
        int column = part * 64 + chunk * 8;
        bool filled = column < of.channels;
#pragma unroll
        for (int row = 0; row < GATHER_PIXELS; row += GATHER_THREADS / 8) {
            i64 from = of.under(places[first + row], i, j);
            bool exists = from >= 0 && filled;
            copy_near(to + row * ROW_BYTES, exists ? x + from * of.channels + column : x, exists);
        }
#pragma unroll
        for (int row = 0; row < GATHER_OUTPUTS; row += GATHER_THREADS / 8) {
            int output = first_output + first + row;
            bool exists = output < of.outputs && filled;
            i64 from = ((i64)tap * of.outputs + output) * of.channels + column;
            copy_chunk(to + GATHER_LEFT_BYTES + row * ROW_BYTES, exists ? weight + from : weight, exists);
        }
        if (++part < chunks) return;
        part = 0, tap++;
        if (++j == of.kernel_columns) j = 0, i++;
    };

    float sums[2][32] = {};
    start_copy(0);
    close_copies();
    for (int step = 0; step < steps; step++) {
        // Behind this barrier the copies of this step have come from all threads, and the products of
        // the step before have read the other stage.
        await_older_copies<0>();
        publish_shared();
        products_wait<0>();
        hold(sums[0]), hold(sums[1]);
        __syncthreads();
        u32 stage = tiles + step % 2 * GATHER_STAGE;
        u64 left = tile_descriptor(stage + group * 128 * ROW_BYTES);
        u64 right = tile_descriptor(stage + GATHER_LEFT_BYTES);
        products_begin();
#pragma unroll
        for (int inner = 0; inner < 4; inner++)
#pragma unroll
            for (int m = 0; m < 2; m++)
                product<0, 0>(sums[m], left + m * (64 * ROW_BYTES / 16) + inner * STEP_ALONG,
                              right + inner * STEP_ALONG, 1);
        products_commit();
        if (step + 1 < steps) start_copy((step + 1) % 2);
        close_copies();
    }
    products_wait<0>();
    hold(sums[0]), hold(sums[1]);

#pragma unroll
    for (int n = 0; n < GATHER_OUTPUTS / 8; n++) {
        int output = first_output + 8 * n + lane % 4 * 2;
        if (output >= of.outputs) continue;
        float low = bias ? bias[output] : 0.0f, high = bias && output + 1 < of.outputs ? bias[output + 1] : 0.0f;
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                int row = group * 128 + 64 * m + 16 * warp + 8 * half + lane / 4;
                const float *pair = sums[m] + 4 * n + 2 * half;
                finish(of, residual, target, relu, of.place(start + row, places[row]), output, pair[0] + low,
                       pair[1] + high);
            }
    }
}
