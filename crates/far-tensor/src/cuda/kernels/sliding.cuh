// What kernels of convolutions share: which pixels a window reaches, and what follows the sums.

// How pixels of the result reach pixels of the source. Where the window stands at `place`, its element
// i is at place · stride + i − before; there a pixel of the source is met if that is a multiple of
// `gap`, and each pixel is met `repeat` times in a row. The result's pixels are placed in the target
// `apart` rows and columns from each other, from `first_row` and `first_column` on.
struct Sliding {
    i64 pixels;
    int height, width, rows, columns, kernel_rows, kernel_columns, stride_rows, stride_columns, top, left,
        gap_rows, gap_columns, repeat, channels, outputs, apart, first_row, first_column, target_rows,
        target_columns;

    __device__ __forceinline__ bool is_plain() const {
        return gap_rows == 1 && gap_columns == 1 && repeat == 1;
    }
    // The pixel of the source under a position, in `y` and `z`; false where there is none.
    __device__ __forceinline__ bool reach(int &y, int &z) const {
        if (!is_plain()) {
            if (y < 0 || z < 0 || y % gap_rows || z % gap_columns) return false;
            y /= gap_rows * repeat, z /= gap_columns * repeat;
        }
        return (u32)y < (u32)height && (u32)z < (u32)width;
    }
    // Where the window of a pixel of the result stands: the image, and the row and column in one word.
    // Behind the last pixel nothing is reached: the lowest row is above every image.
    __device__ __forceinline__ int2 stand(i64 pixel) const {
        i64 line = pixel / columns;
        int image = (int)(line / rows), y = (int)(line - (i64)image * rows) * stride_rows - top;
        int z = (int)(pixel - line * columns) * stride_columns - left;
        if (pixel >= pixels) y = -32768;
        return make_int2(image, (y << 16) | (z & 0xffff));
    }
    // The pixel of the source under element (i, j) of a window that stands there; negative where there
    // is none.
    __device__ __forceinline__ i64 under(int2 at, int i, int j) const {
        int y = (at.y >> 16) + i, z = (int)(short)at.y + j;
        return reach(y, z) ? ((i64)at.x * height + y) * width + z : -1;
    }
    // Where a pixel of the result whose window stands there lies in the target; negative behind the last
    // pixel. Where pixels are apart, windows move by one, so that a stand tells the row and column.
    __device__ __forceinline__ i64 place(i64 pixel, int2 at) const {
        if (pixel >= pixels) return -1;
        if (apart == 1) return pixel;
        int row = ((at.y >> 16) + top) * apart + first_row;
        int column = ((int)(short)at.y + left) * apart + first_column;
        return ((i64)at.x * target_rows + row) * target_columns + column;
    }
};
#define SLIDING                                                                                    \
    i64 pixels, int height, int width, int rows, int columns, int kernel_rows, int kernel_columns, \
        int stride_rows, int stride_columns, int top, int left, int gap_rows, int gap_columns,     \
        int repeat, int channels, int outputs, int apart, int first_row, int first_column,         \
        int target_rows, int target_columns
#define OF_SLIDING                                                                                 \
    Sliding {                                                                                      \
        pixels, height, width, rows, columns, kernel_rows, kernel_columns, stride_rows,            \
            stride_columns, top, left, gap_rows, gap_columns, repeat, channels, outputs, apart,    \
            first_row, first_column, target_rows, target_columns                                   \
    }

// Adds bias, and `residual` where there is one, to the sums of two neighboring outputs of a pixel, sets
// what is negative to zero where asked, and writes them to `target`, where the pixel has this place or
// none. Both are [pixels, outputs] and may be the same: each element is read by the thread that writes it.
template <typename T>
__device__ __forceinline__ void finish(const Sliding &of, const T *residual, T *target, int relu, i64 at,
                                       int output, float low, float high) {
    if (at < 0) return;
    bool second = output + 1 < of.outputs;
    i64 place = at * of.outputs + output;
    if (residual) {
        low += to_float(residual[place]);
        if (second) high += to_float(residual[place + 1]);
    }
    if (relu) low = low > 0.0f ? low : 0.0f, high = high > 0.0f ? high : 0.0f;
    if (of.outputs % 2 == 0) return write_pair(target + place, low, high);
    target[place] = from_float<T>(low);
    if (second) target[place + 1] = from_float<T>(high);
}
