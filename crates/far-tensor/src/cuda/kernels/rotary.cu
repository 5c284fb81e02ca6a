// Rotary positions; the layout is in rotary.rs.

// Turns the pairs of the first `turned` of `width` columns and copies the others: one thread per pair.
// `turns` holds (cos, sin) for [tokens, channels / 2]; `target` may be `source`.
template <typename T>
__device__ __forceinline__ void rotary(const T *source, T *target, const float2 *turns, i64 rows,
                                       i64 width, i64 turned, i64 tokens, int channels, int half,
                                       float sign) {
    i64 pairs = width / 2, number = thread_number();
    if (number >= rows * pairs) return;
    i64 row = number / pairs, pair = number - row * pairs;
    i64 head = pair / (channels / 2);
    int within = (int)(pair - head * (channels / 2)), part = within / half;
    i64 column = head * channels + 2 * part * half + (within - part * half);
    i64 place = row * width + column;
    float a = to_float(source[place]), b = to_float(source[place + half]);
    if (column < turned) {
        float2 turn = turns[row % tokens * (channels / 2) + within];
        float sine = sign * turn.y, first = a * turn.x - b * sine;
        b = b * turn.x + a * sine;
        a = first;
    }
    target[place] = from_float<T>(a);
    target[place + half] = from_float<T>(b);
}

#define ROTARY(suffix, T)                                                                          \
    extern "C" __global__ void rotary_##suffix(const T *source, T *target, const float2 *turns,    \
                                               i64 rows, i64 width, i64 turned, i64 tokens,        \
                                               int channels, int half, float sign) {               \
        rotary(source, target, turns, rows, width, turned, tokens, channels, half, sign);          \
    }
ROTARY(f32, float)
ROTARY(bf16, bf16)
