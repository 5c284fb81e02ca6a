// What kernels on tensor cores share: tiles in shared memory, asynchronous copies and the two kinds
// of matrix instructions (bf16 and tf32 operands, f32 sums).
//
// A tile holds rows of COLUMNS elements as chunks of 16 bytes. The chunk c of row r lies at place
// c ^ (r mod 8) of its row, so that eight rows of one column of chunks, which is what one matrix
// load reads, fall into different banks. Every address is built as
//     tile + first row · ROW_BYTES + (place of the lane ^ 32 · step)
// where first rows are multiples of 8 and a step is a pair of chunks; the place of a lane is
// computed once. One step is also what one matrix instruction contracts: 16 bf16 or 8 f32.

static const float LOG2_E = 1.4426950408889634f;
static const float LN_2 = 0.6931471805599453f;
static const u32 EVERY_LANE = 0xffffffffu;

__device__ __forceinline__ float infinity() { return __uint_as_float(0x7f800000u); }

// 2^x, with 0 for −inf.
__device__ __forceinline__ float power_of_two(float x) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

template <typename T, int COLUMNS> struct Tile {
    static const int CHUNKS = COLUMNS * (int)sizeof(T) / 16;
    static const int ROW_BYTES = COLUMNS * (int)sizeof(T);
    static_assert(CHUNKS >= 4 && (CHUNKS & (CHUNKS - 1)) == 0, "rows of 64, 128, 256, … bytes");
    // Rows of 64 bytes share a line of all banks in pairs.
    static __device__ __forceinline__ u32 place(int row, int chunk) {
        int turn = CHUNKS >= 8 ? row % 8 : (row / 2) % 4;
        return row * ROW_BYTES + (chunk ^ turn) * 16;
    }
};

// Starts the copy of a tile of ROWS rows, `stride` elements apart; rows from `valid` on become zeros.
template <typename T, int COLUMNS, int ROWS, int THREADS>
__device__ __forceinline__ void copy_tile(u32 tile, const T *from, i64 stride, int valid) {
    typedef Tile<T, COLUMNS> Shape;
    const int ROWS_AT_ONCE = THREADS / Shape::CHUNKS;
    static_assert(THREADS % Shape::CHUNKS == 0 && ROWS % ROWS_AT_ONCE == 0, "threads fill the tile");
    int chunk = threadIdx.x % Shape::CHUNKS, first = threadIdx.x / Shape::CHUNKS;
    const T *source = from + first * stride + chunk * Vector<T>::width;
    // Where whole groups of 8 rows are skipped, the place in the row stays.
    u32 start = tile + Shape::place(first, chunk);
#pragma unroll
    for (int row = 0; row < ROWS; row += ROWS_AT_ONCE) {
        u32 to = ROWS_AT_ONCE % 8 == 0 ? start + row * Shape::ROW_BYTES : tile + Shape::place(first + row, chunk);
        copy_chunk(to, source, first + row < valid);
        source += ROWS_AT_ONCE * stride;
    }
}

// Writes the rows [first, first + ROWS) of a tile, as far as they are valid, to rows `stride` apart;
// called by one warp for rows that this warp has written.
template <typename T, int COLUMNS, int ROWS>
__device__ __forceinline__ void write_rows(T *to, i64 stride, int valid, const char *tile, int first) {
    typedef Tile<T, COLUMNS> Shape;
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int index = 0; index < ROWS * Shape::CHUNKS; index += 32) {
        int row = first + (index + lane) / Shape::CHUNKS, chunk = (index + lane) % Shape::CHUNKS;
        if (row < valid) {
            *(uint4 *)(to + row * stride + chunk * Vector<T>::width) =
                *(const uint4 *)(tile + Shape::place(row, chunk));
        }
    }
}

// Sums are laid into a tile in pairs: columns 8·`eight` + 2·(lane mod 4) and the next of row
// `row` + lane / 4, where `row` is a multiple of 8 and `place` the lane's, from `pair_place`.
template <typename T, int COLUMNS> __device__ __forceinline__ u32 pair_place(int lane) {
    int byte = lane % 4 * 2 * (int)sizeof(T);
    return Tile<T, COLUMNS>::place(lane / 4, byte / 16) + byte % 16;
}
template <typename T, int COLUMNS>
__device__ __forceinline__ void lay_pair(char *tile, int row, int eight, u32 place, float low, float high) {
    u32 turned = place ^ (eight * 8 * (u32)sizeof(T));
    write_pair((T *)(tile + row * Tile<T, COLUMNS>::ROW_BYTES + turned), low, high);
}

// Four 8×8 matrices of 16-bit (or 8×4 of 32-bit) elements; each lane names a row of 16 bytes.
__device__ __forceinline__ void load_matrices(u32 (&to)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}
__device__ __forceinline__ void load_matrices_turned(u32 (&to)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}
__device__ __forceinline__ u32 load_shared(u32 address) {
    u32 value;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
    return value;
}

// A core says how operands of one kind reach the matrix instruction, sums [16, 8] += a [16, STEP] ·
// b [STEP, 8]. In the sums, lane 4·r + p holds columns 2p and 2p + 1 of rows r and r + 8.
//
// Operands are read from tiles in four ways. "Rows": the tile's columns are contracted. "Columns":
// the tile's rows are contracted. A right operand comes as two neighbors of 8 columns at once:
// words 0, 1 and words 2, 3. `sums_as_left` turns STEP columns of sums into a left operand in
// registers, which is what spares the probabilities the way through shared memory.
struct BrainCore {
    typedef bf16 Element;
    static const int STEP = 16;

    template <int COLUMNS> static __device__ __forceinline__ u32 left_rows_place(int lane) {
        return Tile<bf16, COLUMNS>::place(lane % 16, lane / 16);
    }
    template <int COLUMNS> static __device__ __forceinline__ u32 right_rows_place(int lane) {
        return Tile<bf16, COLUMNS>::place(lane % 8 + lane / 16 * 8, lane / 8 % 2);
    }
    template <int COLUMNS> static __device__ __forceinline__ u32 left_columns_place(int lane) {
        return right_rows_place<COLUMNS>(lane);
    }
    template <int COLUMNS> static __device__ __forceinline__ u32 right_columns_place(int lane) {
        return left_rows_place<COLUMNS>(lane);
    }
    // Rows [row, row + STEP) of the tile contracted, its columns [16·pair, 16·pair + 16) kept.
    template <int COLUMNS>
    static __device__ __forceinline__ void left_columns(u32 (&to)[4], u32 tile, int row, int pair, u32 place) {
        load_matrices_turned(to, tile + row * Tile<bf16, COLUMNS>::ROW_BYTES + (place ^ (pair * 32)));
    }
    template <int COLUMNS>
    static __device__ __forceinline__ void right_columns(u32 (&to)[4], u32 tile, int row, int pair, u32 place) {
        load_matrices_turned(to, tile + row * Tile<bf16, COLUMNS>::ROW_BYTES + (place ^ (pair * 32)));
    }
    static __device__ __forceinline__ void sums_as_left(u32 (&to)[4], const float (*sums)[4], int step) {
        const float(&low)[4] = sums[2 * step];
        const float(&high)[4] = sums[2 * step + 1];
        to[0] = to_bf16_pair(low[0], low[1]), to[1] = to_bf16_pair(low[2], low[3]);
        to[2] = to_bf16_pair(high[0], high[1]), to[3] = to_bf16_pair(high[2], high[3]);
    }
    static __device__ __forceinline__ void multiply(float (&sums)[4], const u32 (&a)[4], u32 b0, u32 b1) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
    // What a sum becomes on the way into a tile of operands; bf16 are rounded as they are stored.
    static __device__ __forceinline__ float operand(float x) { return x; }
    // bf16 tiles are ready as they arrive.
    template <int COLUMNS, int ROWS, int THREADS> static __device__ __forceinline__ void prepare(char *) {}
};

// Rounds to the 10 fraction bits that the matrix instruction reads; without this it would cut them.
__device__ __forceinline__ u32 to_tf32(float x) {
    u32 result;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(result) : "f"(x));
    return result;
}

// f32 tiles, operands rounded to tf32. There is no turning load for 32-bit elements, so columns are
// read word by word. Where rows of the tile are contracted, place p of the instruction stands for
// row 2p and place p + 4 for row 2p + 1: the order that sums have, and one without bank conflicts.
struct SingleCore {
    typedef float Element;
    static const int STEP = 8;

    template <int COLUMNS> static __device__ __forceinline__ u32 left_rows_place(int lane) {
        return Tile<float, COLUMNS>::place(lane % 16, lane / 16);
    }
    template <int COLUMNS> static __device__ __forceinline__ u32 right_rows_place(int lane) {
        return Tile<float, COLUMNS>::place(lane % 8 + lane / 16 * 8, lane / 8 % 2);
    }
    template <int COLUMNS> static __device__ __forceinline__ u32 left_columns_place(int lane) {
        return Tile<float, COLUMNS>::place(2 * (lane % 4), lane / 16) + lane / 4 % 4 * 4;
    }
    template <int COLUMNS> static __device__ __forceinline__ u32 right_columns_place(int lane) {
        return left_columns_place<COLUMNS>(lane);
    }
    template <int COLUMNS>
    static __device__ __forceinline__ void left_columns(u32 (&to)[4], u32 tile, int row, int pair, u32 place) {
        u32 even = tile + row * Tile<float, COLUMNS>::ROW_BYTES;
        u32 odd = even + Tile<float, COLUMNS>::ROW_BYTES;
        to[0] = load_shared(even + (place ^ (pair * 64)));
        to[1] = load_shared(even + (place ^ (pair * 64 + 32)));
        to[2] = load_shared(odd + (place ^ (pair * 64 + 16)));
        to[3] = load_shared(odd + (place ^ (pair * 64 + 48)));
    }
    template <int COLUMNS>
    static __device__ __forceinline__ void right_columns(u32 (&to)[4], u32 tile, int row, int pair, u32 place) {
        u32 words[4];
        left_columns<COLUMNS>(words, tile, row, pair, place);
        to[0] = words[0], to[1] = words[2], to[2] = words[1], to[3] = words[3];
    }
    static __device__ __forceinline__ void sums_as_left(u32 (&to)[4], const float (*sums)[4], int step) {
        const float(&from)[4] = sums[step];
        to[0] = to_tf32(from[0]), to[1] = to_tf32(from[2]);
        to[2] = to_tf32(from[1]), to[3] = to_tf32(from[3]);
    }
    static __device__ __forceinline__ void multiply(float (&sums)[4], const u32 (&a)[4], u32 b0, u32 b1) {
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
    static __device__ __forceinline__ float operand(float x) { return __uint_as_float(to_tf32(x)); }
    // Rounds in place what this thread has copied by `copy_tile`, after its copies have arrived.
    template <int COLUMNS, int ROWS, int THREADS> static __device__ __forceinline__ void prepare(char *tile) {
        typedef Tile<float, COLUMNS> Shape;
        int chunk = threadIdx.x % Shape::CHUNKS, first = threadIdx.x / Shape::CHUNKS;
#pragma unroll
        for (int row = 0; row < ROWS; row += THREADS / Shape::CHUNKS) {
            uint4 *words = (uint4 *)(tile + Shape::place(first + row, chunk));
            uint4 value = *words;
            value.x = to_tf32(__uint_as_float(value.x)), value.y = to_tf32(__uint_as_float(value.y));
            value.z = to_tf32(__uint_as_float(value.z)), value.w = to_tf32(__uint_as_float(value.w));
            *words = value;
        }
    }
};

// The same as `multiply_step`, with the left operand in registers.
template <class Core, int COLUMNS, int LEFT, int RIGHT>
__device__ __forceinline__ void multiply_held(float (&sums)[LEFT][RIGHT][4], const u32 (&left)[LEFT][4], u32 right,
                                              int right_row, u32 right_place, int step) {
    const int ROW_BYTES = Tile<typename Core::Element, COLUMNS>::ROW_BYTES;
#pragma unroll
    for (int pair = 0; pair < RIGHT / 2; pair++) {
        u32 b[4];
        load_matrices(b, right + (right_row + 16 * pair) * ROW_BYTES + (right_place ^ (step * 32)));
#pragma unroll
        for (int m = 0; m < LEFT; m++) {
            Core::multiply(sums[m][2 * pair], left[m], b[0], b[1]);
            Core::multiply(sums[m][2 * pair + 1], left[m], b[2], b[3]);
        }
    }
}

// One step of sums [16·LEFT, 8·RIGHT] += left · rightᵀ, where both tiles contract their COLUMNS
// columns: LEFT·16 rows of `left` from `left_row` on against RIGHT·8 rows of `right` from `right_row` on.
template <class Core, int COLUMNS, int LEFT, int RIGHT>
__device__ __forceinline__ void multiply_step(float (&sums)[LEFT][RIGHT][4], u32 left, int left_row, u32 left_place,
                                              u32 right, int right_row, u32 right_place, int step) {
    const int ROW_BYTES = Tile<typename Core::Element, COLUMNS>::ROW_BYTES;
    u32 a[LEFT][4];
#pragma unroll
    for (int m = 0; m < LEFT; m++)
        load_matrices(a[m], left + (left_row + 16 * m) * ROW_BYTES + (left_place ^ (step * 32)));
    multiply_held<Core, COLUMNS>(sums, a, right, right_row, right_place, step);
}

// One step of sums [16·LEFT, COLUMNS] += weights · tile, where `weights` [16·LEFT, 8·INNER] are sums of
// an earlier product and the tile's rows from `row` on are contracted.
template <class Core, int COLUMNS, int LEFT, int INNER>
__device__ __forceinline__ void weigh_step(float (&sums)[LEFT][COLUMNS / 8][4], const float (&weights)[LEFT][INNER][4],
                                           u32 tile, int row, u32 place, int step) {
    u32 a[LEFT][4];
#pragma unroll
    for (int m = 0; m < LEFT; m++) Core::sums_as_left(a[m], weights[m], step);
#pragma unroll
    for (int pair = 0; pair < COLUMNS / 16; pair++) {
        u32 b[4];
        Core::template right_columns<COLUMNS>(b, tile, row + step * Core::STEP, pair, place);
#pragma unroll
        for (int m = 0; m < LEFT; m++) {
            Core::multiply(sums[m][2 * pair], a[m], b[0], b[1]);
            Core::multiply(sums[m][2 * pair + 1], a[m], b[2], b[3]);
        }
    }
}

template <int A, int B> __device__ __forceinline__ void clear(float (&sums)[A][B][4]) {
#pragma unroll
    for (int a = 0; a < A; a++)
#pragma unroll
        for (int b = 0; b < B; b++)
#pragma unroll
            for (int i = 0; i < 4; i++) sums[a][b][i] = 0.0f;
}
