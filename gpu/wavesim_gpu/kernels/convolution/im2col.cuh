// Which pixels, channels and weights a k-block of a convolution reads. The product's rows are output pixels, image after
// image; its k-blocks are filter taps, each in blocks of channels:
//
//   k-block   | 0: tap (0, 0), channels from 0 | 1: tap (0, 0), from 64 | 2: tap (0, 1), from 0 | ...
//
// Integers alone: im2col.py computes the same, and tests compile this file for the host.
#pragma once

// Of a convolution, as im2col.py packs it.
struct Im2col {
    int image_outputs, row_outputs;  // output pixels of an image, and of one of its rows
    int stride;
    int row_padding, column_padding; // zeros above an image and to its left
    int filter_width;                // taps in a row of the filter; 1 where a row of taps is a k-block
    int channel_blocks;              // k-blocks of a tap, or of such a row
    unsigned per_tap, per_row;       // 2^32 over channel_blocks and over filter_width, rounded up; 0 of 1
};

// The pixel that an output's first tap reads, which may lie in the padding.
struct Pixel {
    int column, row, image;
};

struct Tap {
    int number, row, column;
    int channel_block;
};

__host__ __device__ __forceinline__ Pixel pixel_of(const Im2col& c, int output) {
    const int image = output / c.image_outputs, in_image = output - image * c.image_outputs;
    const int row = in_image / c.row_outputs, column = in_image - row * c.row_outputs;
    return {column * c.stride - c.column_padding, row * c.stride - c.row_padding, image};
}

// A number below 2^16 over a divisor below 2^16 by its multiplier, which 1 has none of.
__host__ __device__ __forceinline__ int quotient(int number, unsigned multiplier) {
    if (multiplier == 0) return number;
    return static_cast<int>(static_cast<unsigned long long>(static_cast<unsigned>(number)) * multiplier >> 32);
}

__host__ __device__ __forceinline__ Tap tap_of(const Im2col& c, int k_block) {
    const int number = quotient(k_block, c.per_tap), row = quotient(number, c.per_row);
    return {number, row, number - row * c.filter_width, k_block - number * c.channel_blocks};
}
