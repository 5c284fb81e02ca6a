// What the kernels for Hopper (compute capability 9.0a) share: warpgroup matrix products, barriers
// in shared memory and asynchronous copies. Compiled between prelude.cuh and a kernel's own file.
//
// Tiles in shared memory have rows of 64 bf16 (128 bytes) and begin at a multiple of 1,024 bytes.
// The 16-byte chunk c of row r lies at chunk c ^ (r % 8) of that row: the 128-byte swizzle, by which
// neither rows nor columns of chunks meet in one bank. The same tile serves as an operand whose rows
// run along the output (`along rows`) or along the summed dimension (`across rows`).

#define MINUS_INFINITY __int_as_float(0xff800000)
#define PLUS_INFINITY __int_as_float(0x7f800000)

static const int ROW_BYTES = 128;
// How far a descriptor moves for the next 16 of the summed dimension, in units of 16 bytes: 16
// channels within a row, or 16 rows.
static const int STEP_ALONG = 2;
static const int STEP_ACROSS = 128;

// Where the chunk lies in a tile, in bytes.
__device__ __forceinline__ u32 swizzled(int row, int chunk) {
    return row * ROW_BYTES + ((chunk ^ (row & 7)) << 4);
}

// The descriptor of a tile: its address, 1,024 bytes from eight rows to the next eight, 128-byte
// swizzle. The leading offset is used by operands wider than 64 channels only.
__device__ __forceinline__ u64 tile_descriptor(u32 address) {
    return (u64)((address & 0x3ffff) >> 4) | (u64)1 << 16 | (u64)64 << 32 | (u64)1 << 62;
}

// Orders register and shared-memory accesses before the products that follow.
__device__ __forceinline__ void products_begin() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void products_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits until at most `PENDING` committed groups of products are unfinished.
template <int PENDING> __device__ __forceinline__ void products_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}
// Keeps the compiler from moving uses of accumulators across the fences and waits around products.
template <int COUNT> __device__ __forceinline__ void hold(float (&values)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) asm volatile("" : "+f"(values[i])::"memory");
}

#define EIGHT(d, i)                                                                                \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]),    \
        "+f"(d[i + 6]), "+f"(d[i + 7])
#define REGISTERS_32                                                                               \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                      \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"
#define REGISTERS_64                                                                               \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                      \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "             \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "             \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}"

// One product of 64 × N × 16, both operands in shared memory, N from the accumulators; the result
// replaces the accumulators where `accumulate` is zero. An operand is ACROSS where the summed
// dimension runs over the rows of its tile. Thread t of the warpgroup holds in values[4 j + e] row
// 16 (t / 32) + t % 32 / 4 + 8 (e / 2), column 8 j + 2 (t % 4) + e % 2.
template <int LEFT_ACROSS, int RIGHT_ACROSS>
__device__ __forceinline__ void product(float (&d)[32], u64 left, u64 right, int accumulate) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " REGISTERS_32
                 ", %32, %33, p, 1, 1, %35, %36;\n}"
                 : EIGHT(d, 0), EIGHT(d, 8), EIGHT(d, 16), EIGHT(d, 24)
                 : "l"(left), "l"(right), "r"(accumulate), "n"(LEFT_ACROSS), "n"(RIGHT_ACROSS));
}
template <int LEFT_ACROSS, int RIGHT_ACROSS>
__device__ __forceinline__ void product(float (&d)[64], u64 left, u64 right, int accumulate) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " REGISTERS_64
                 ", %64, %65, p, 1, 1, %67, %68;\n}"
                 : EIGHT(d, 0), EIGHT(d, 8), EIGHT(d, 16), EIGHT(d, 24), EIGHT(d, 32),
                   EIGHT(d, 40), EIGHT(d, 48), EIGHT(d, 56)
                 : "l"(left), "l"(right), "r"(accumulate), "n"(LEFT_ACROSS), "n"(RIGHT_ACROSS));
}
// The same with the left operand in registers: four of bf16 pairs, which are the accumulators of a
// 64 × 16 product in their order.
template <int RIGHT_ACROSS>
__device__ __forceinline__ void product(float (&d)[32], const u32 *left, u64 right,
                                        int accumulate) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " REGISTERS_32
                 ", {%32, %33, %34, %35}, %36, p, 1, 1, %38;\n}"
                 : EIGHT(d, 0), EIGHT(d, 8), EIGHT(d, 16), EIGHT(d, 24)
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right),
                   "r"(accumulate), "n"(RIGHT_ACROSS));
}

// Makes this thread's writes to shared memory visible to the matrix units and the copy engine.
__device__ __forceinline__ void publish_shared() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// A tensor map as the driver encodes it (cuTensorMapEncodeTiled), passed by value: bf16, rank 4,
// element strides of 1, no interleave, 128-byte swizzle, promotion to 256 bytes in the second cache,
// zeros outside. For attention: sizes {channels of a head, heads, tokens, groups}, strides in bytes {2 · channels, 2 · stride,
// 2 · stride · tokens} where a token begins `stride` elements after the one before, boxes of
// {64, 1, 64, 1}.
struct alignas(64) TensorMap {
    u64 opaque[16];
};
static const int BOX_ROWS = 64;

// Begins to copy the box that starts at these coordinates; its bytes count toward `barrier`.
__device__ __forceinline__ void copy_box(u32 to, const TensorMap &map, u32 barrier, int first, int second,
                                         int third, int fourth) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
                 "l"(&map), "r"(barrier), "r"(first), "r"(second), "r"(third), "r"(fourth)
                 : "memory");
}
// Begins to write a box from shared memory; what lies outside the tensor is left out.
__device__ __forceinline__ void write_box(const TensorMap &map, u32 from, int first, int second, int third,
                                          int fourth) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];\n"
                 "cp.async.bulk.commit_group;" ::"l"(&map),
                 "r"(from), "r"(first), "r"(second), "r"(third), "r"(fourth)
                 : "memory");
}
// Begins to copy ROWS tokens of a head into a tile, or into one for each 64 channels, one after the
// other; the bytes count toward `barrier`.
template <int ROWS, int CHANNELS>
__device__ __forceinline__ void copy_rows(u32 to, const TensorMap &map, u32 barrier, int head,
                                          int token, int group) {
#pragma unroll
    for (int channel = 0; channel < CHANNELS; channel += 64) {
#pragma unroll
        for (int row = 0; row < ROWS; row += BOX_ROWS, to += BOX_ROWS * ROW_BYTES)
            copy_box(to, map, barrier, channel, head, token + row, group);
    }
}
// The same for consecutive bytes; addresses and count are multiples of 16.
__device__ __forceinline__ void copy_bytes(u32 to, const void *from, u32 bytes, u32 barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(to), "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}
// Begins to add consecutive floats in shared memory to device memory, one by one atomically.
__device__ __forceinline__ void add_bytes(float *to, u32 from, u32 bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;\n"
                 "cp.async.bulk.commit_group;" ::"l"(to), "r"(from), "r"(bytes)
                 : "memory");
}
// Waits until this thread's additions and boxes have read their source, or are complete.
__device__ __forceinline__ void writes_read() {
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
__device__ __forceinline__ void writes_done() {
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// A barrier in shared memory that `arrivals` threads complete.
__device__ __forceinline__ void barrier_begin(u32 barrier, u32 arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals)
                 : "memory");
}
__device__ __forceinline__ void barrier_arrive(u32 barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Arrives, and makes the completion wait for as many bytes of copies too.
__device__ __forceinline__ void barrier_expect(u32 barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
                 "r"(bytes)
                 : "memory");
}
// Waits for the completion whose number is even (parity 0) or odd (parity 1).
__device__ __forceinline__ void barrier_wait(u32 barrier, u32 parity) {
    u32 done;
    do {
        asm volatile("{\n.reg .pred p;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p;\n}"
                     : "=r"(done)
                     : "r"(barrier), "r"(parity)
                     : "memory");
    } while (!done);
}
// A barrier of `threads` threads; number 0 belongs to __syncthreads.
__device__ __forceinline__ void named_barrier(int number, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// The number of the thread's warpgroup, from lane 0, so that the compiler knows it to be the same
// in the whole warp.
__device__ __forceinline__ int warpgroup_number() {
    return __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
}

__device__ __forceinline__ void store_shared(u32 address, float value) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}
__device__ __forceinline__ uint4 load_shared_chunk(u32 address) {
    uint4 value;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "r"(address)
                 : "memory");
    return value;
}
__device__ __forceinline__ float2 load_shared_pair(u32 address) {
    float2 value;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                 : "=f"(value.x), "=f"(value.y)
                 : "r"(address)
                 : "memory");
    return value;
}
// Accumulators of a 64 × 64 product in an order of their own: of each warp 4,096 bytes, where lane l
// has 16 bytes at 16 l of every 512.
__device__ __forceinline__ void store_sums(u32 address, const float (&values)[32]) {
    address += threadIdx.x % 128 / 32 * 4096 + threadIdx.x % 32 * 16;
#pragma unroll
    for (int j = 0; j < 8; j++)
        asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address + 512 * j),
                     "f"(values[4 * j]), "f"(values[4 * j + 1]), "f"(values[4 * j + 2]),
                     "f"(values[4 * j + 3])
                     : "memory");
}
// Stores the accumulators of a warp's 16 × 16 products, as pairs, into a tile: lane l gives the
// address of row l % 8 of the 8 × 8 block l / 8 (blocks down the rows first).
__device__ __forceinline__ void store_blocks(u32 address, const u32 *pairs) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
                 "r"(pairs[0]), "r"(pairs[1]), "r"(pairs[2]), "r"(pairs[3])
                 : "memory");
}
// Eight by eight blocks turned around, four at a time: lane l names the row of 16 bytes in shared
// memory that is column l % 8 of the block l / 8 in registers.
__device__ __forceinline__ void store_blocks_turned(u32 address, const u32 (&pairs)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
                 "r"(pairs[0]), "r"(pairs[1]), "r"(pairs[2]), "r"(pairs[3])
                 : "memory");
}
__device__ __forceinline__ void load_blocks_turned(u32 address, u32 (&pairs)[4]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(pairs[0]), "=r"(pairs[1]), "=r"(pairs[2]), "=r"(pairs[3])
                 : "r"(address)
                 : "memory");
}

__device__ __forceinline__ float power_of_two(float x) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

// Writes a warp's 16 rows of 64 accumulators (times `factor` of the row's half) as bf16: through the
// warp's own 16 rows of a tile, so that the stores to device memory are whole 16-byte chunks.
// `row` is the first of them in the tile; rows of `to` from `count` on are left alone.
__device__ __forceinline__ void write_rows(float (&values)[32], float upper, float lower, u32 tile,
                                           int row, bf16 *to, i64 stride, int count) {
    int lane = threadIdx.x % 32;
    int place = row + lane % 16;
    __syncwarp();
#pragma unroll
    for (int step = 0; step < 4; step++) {
        const float *v = values + 8 * step;
        u32 pairs[4] = {to_bf16_pair(v[0] * upper, v[1] * upper),
                        to_bf16_pair(v[2] * lower, v[3] * lower),
                        to_bf16_pair(v[4] * upper, v[5] * upper),
                        to_bf16_pair(v[6] * lower, v[7] * lower)};
        store_blocks(tile + swizzled(place, 2 * step + lane / 16), pairs);
    }
    __syncwarp();
#pragma unroll
    for (int step = 0; step < 4; step++) {
        int inner = row + lane / 8 + 4 * step;
        if (inner < count)
            *(uint4 *)(to + inner * stride + lane % 8 * 8) =
                load_shared_chunk(tile + swizzled(inner, lane % 8));
    }
}
