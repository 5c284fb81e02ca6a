// Convolution on Hopper in bf16 by square windows that move by one pixel, over at most 64 channels.
// Compiled after prelude.cuh and hopper.cuh.
//
// convolve_slabs_3_hopper, convolve_slabs_2_hopper: windows of 3 × 3, and of 2 × 2
//   grid     blocks that take turns, at most one for each multiprocessor; ceil(outputs / 64)
//   block    320 threads
//   shared   217,208 or 135,256 bytes, dynamic
//   maps     sizes {channels, columns, rows, images}, x dense; boxes of {64, 8, 15 + side, 1} of x and
//            of {64, 8, 16, 1} of residual and target; weight {channels, outputs, taps, 1} with boxes
//            of {64, 64, 1, 1}
//
// The weight of all taps stays in shared memory. A warpgroup takes a tile of 8 × 16 pixels of the
// result. What it reads comes in slabs, one for each column of the window: 8 × 18 pixels of the source
// where the window is 3 × 3. The taps of that column are products with the same slab, each begun a line
// of eight pixels further down, which is where the swizzle begins anew. So a pixel of the source is
// copied three to four times instead of nine, by the copy engine alone, with zeros where the image ends.
// The left operand is the weight and the right one the pixels: 128 of these for each reading of the
// weight. Two warpgroups keep their own pace, so that one multiplies while the other writes.

static const int WARPGROUPS = 2, TILE_COLUMNS = 8, TILE_ROWS = 16;
static const int LINE_BYTES = TILE_COLUMNS * ROW_BYTES;
static const int TAP_BYTES = 64 * ROW_BYTES;
static const int RESULT_BYTES = TILE_ROWS * LINE_BYTES;

// The first pixel of a tile.
struct Corner {
    int column, row, image;

    __device__ __forceinline__ Corner(int tile, int across, int down) {
        int line = tile / across;
        column = (tile - line * across) * TILE_COLUMNS;
        image = line / down, row = (line - image * down) * TILE_ROWS;
    }
};

// target ← the convolution, with a bias, with `residual` added where `adds`, and with what is negative
// set to zero where `relu`. `residual` may be `target`: a tile is read before it is written. `memory` is
// the shared memory.
template <int SIDE>
__device__ __forceinline__ void convolve_slabs(u32 memory, const TensorMap &x, const TensorMap &weight,
                                               const TensorMap &residual, const TensorMap &target,
                                               const float *bias, int adds, int relu, int images, int rows,
                                               int columns, int top, int left, int outputs) {
    const int TAPS = SIDE * SIDE, SLAB_BYTES = (TILE_ROWS + SIDE - 1) * LINE_BYTES;
    const int SLABS_AT = TAPS * TAP_BYTES, RESULTS_AT = SLABS_AT + WARPGROUPS * SIDE * SLAB_BYTES;
    // One barrier for the weight; for each warpgroup those of slabs that have come, of slabs that every
    // warp has used up, and of the residual.
    const int BARRIERS_AT = RESULTS_AT + WARPGROUPS * RESULT_BYTES, OWN_BARRIERS = 2 * SIDE + 1;
    u32 weight_came = memory + BARRIERS_AT;
    int lane = threadIdx.x % 32, warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
    // The last two warps copy, each for one warpgroup.
    bool copies = warp >= 4 * WARPGROUPS;
    int group = copies ? warp - 4 * WARPGROUPS : warp / 4;
    u32 filled = weight_came + 8 + group * OWN_BARRIERS * 8, emptied = filled + 8 * SIDE, added = emptied + 8 * SIDE;
    if (threadIdx.x == 0) barrier_begin(weight_came, 1);
    if (copies && lane == 0) {
        for (int j = 0; j < SIDE; j++) barrier_begin(filled + 8 * j, 1), barrier_begin(emptied + 8 * j, 4);
        barrier_begin(added, 1);
    }
    publish_shared();
    __syncthreads();

    int first_output = blockIdx.y * 64;
    int across = (columns + TILE_COLUMNS - 1) / TILE_COLUMNS, down = (rows + TILE_ROWS - 1) / TILE_ROWS;
    int tiles = images * down * across, workers = WARPGROUPS * gridDim.x;
    int tile = WARPGROUPS * blockIdx.x + group;
    u32 slabs = memory + SLABS_AT + group * SIDE * SLAB_BYTES;
    if (copies) {
        if (lane) return;
        if (group == 0) {
            barrier_expect(weight_came, TAPS * TAP_BYTES);
            for (int tap = 0; tap < TAPS; tap++)
                copy_box(memory + tap * TAP_BYTES, weight, weight_came, 0, first_output, tap, 0);
        }
        for (u32 round = 0; tile < tiles; tile += workers, round++) {
            Corner at(tile, across, down);
            for (int j = 0; j < SIDE; j++) {
                if (round) barrier_wait(emptied + 8 * j, (round - 1) & 1);
                barrier_expect(filled + 8 * j, SLAB_BYTES);
                copy_box(slabs + j * SLAB_BYTES, x, filled + 8 * j, 0, at.column + j - left, at.row - top,
                         at.image);
            }
        }
        return;
    }

    bool leads = threadIdx.x % 128 == 0;
    u32 result = memory + RESULTS_AT + group * RESULT_BYTES;
    int output = first_output + 16 * (warp % 4) + lane / 4;
    float shift[2] = {bias && output < outputs ? bias[output] : 0.0f,
                      bias && output + 8 < outputs ? bias[output + 8] : 0.0f};
    u64 weights = tile_descriptor(memory), pixels = tile_descriptor(slabs);
    barrier_wait(weight_came, 0);
    for (u32 round = 0; tile < tiles; tile += workers, round++) {
        Corner at(tile, across, down);
        if (leads) {
            writes_read();
            if (adds) {
                barrier_expect(added, RESULT_BYTES);
                copy_box(result, residual, added, first_output, at.column, at.row, at.image);
            }
        }
        // In the order of columns of the window: output, then pixel (see `product`).
        float sums[64];
        hold(sums);
#pragma unroll
        for (int j = 0; j < SIDE; j++) {
            barrier_wait(filled + 8 * j, round & 1);
            products_begin();
#pragma unroll
            for (int i = 0; i < SIDE; i++)
#pragma unroll
                for (int inner = 0; inner < 4; inner++)
                    product<0, 0>(sums, weights + (SIDE * i + j) * (TAP_BYTES / 16) + inner * STEP_ALONG,
                                  pixels + (j * SLAB_BYTES + i * LINE_BYTES) / 16 + inner * STEP_ALONG,
                                  i + j + inner > 0);
            products_commit();
            if (j == 0) continue;
            products_wait<1>();
            if (lane == 0) barrier_arrive(emptied + 8 * (j - 1));
        }
        products_wait<0>();
        hold(sums);
        if (lane == 0) barrier_arrive(emptied + 8 * (SIDE - 1));

        // Outputs of a pixel lie beside each other in the result, pixels in registers: blocks turn.
        named_barrier(1 + group, 128);
        if (adds) barrier_wait(added, round & 1);
#pragma unroll
        for (int sixteen = 0; sixteen < TILE_COLUMNS * TILE_ROWS / 16; sixteen++) {
            u32 place = result + swizzled(16 * sixteen + lane / 16 * 8 + lane % 8, 2 * (warp % 4) + lane / 8 % 2);
            u32 pairs[4] = {};
            if (adds) load_blocks_turned(place, pairs);
#pragma unroll
            for (int block = 0; block < 4; block++) {
                const float *pair = sums + 8 * sixteen + 2 * block;
                float low = pair[0] + shift[block % 2] + __uint_as_float(pairs[block] << 16);
                float high = pair[1] + shift[block % 2] + __uint_as_float(pairs[block] & 0xffff0000u);
                if (relu) low = low > 0.0f ? low : 0.0f, high = high > 0.0f ? high : 0.0f;
                pairs[block] = to_bf16_pair(low, high);
            }
            store_blocks_turned(place, pairs);
        }
        publish_shared();
        named_barrier(1 + group, 128);
        if (leads) write_box(target, result, first_output, at.column, at.row, at.image);
    }
    if (leads) writes_done();
}

#define CONVOLVE_SLABS(SIDE)                                                                       \
    extern "C" __global__ void __launch_bounds__(320, 1) convolve_slabs_##SIDE##_hopper(           \
        const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap weight,             \
        const __grid_constant__ TensorMap residual, const __grid_constant__ TensorMap target,      \
        const float *bias, int adds, int relu, int images, int rows, int columns, int top,         \
        int left, int outputs) {                                                                   \
        extern __shared__ __align__(1024) char shared[];                                           \
        convolve_slabs<SIDE>(shared_address(shared), x, weight, residual, target, bias, adds,      \
                             relu, images, rows, columns, top, left, outputs);                     \
    }
CONVOLVE_SLABS(3)
CONVOLVE_SLABS(2)
