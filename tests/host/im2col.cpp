// kernels/convolution/im2col.cuh on the host: reads an Im2col, how many outputs and how many k-blocks there are, and
// prints the pixel of each output and the tap of each k-block.

#include <cstdio>

#define __host__
#define __device__
#define __forceinline__ inline
#include <kernels/convolution/im2col.cuh>

int main() {
    Im2col c;
    int outputs, k_blocks;
    while (std::scanf("%d %d %d %d %d %d %d %u %u %d %d", &c.image_outputs, &c.row_outputs, &c.stride,
                      &c.row_padding, &c.column_padding, &c.filter_width, &c.channel_blocks, &c.per_tap, &c.per_row,
                      &outputs, &k_blocks) == 11) {
        for (int output = 0; output < outputs; ++output) {
            const Pixel pixel = pixel_of(c, output);
            std::printf("%d %d %d\n", pixel.column, pixel.row, pixel.image);
        }
        for (int k_block = 0; k_block < k_blocks; ++k_block) {
            const Tap tap = tap_of(c, k_block);
            std::printf("%d %d %d %d\n", tap.number, tap.row, tap.column, tap.channel_block);
        }
    }
}
