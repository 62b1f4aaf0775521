// A of an all-gather: a rank's own rows from where they are, the others' from where these store them. Among peers the GEMM
// has the loader of a convolution (kernels/convolution/im2col.cuh), whose geometry and pixels are then these: the "pixel" of
// a tile is its first row, and K is one tap of many channels. So own rows are multiplied before any other has come.
#pragma once

#include <kernels/convolution/im2col.cuh>
#include <kernels/gemm/sm90/tma.cuh>

namespace peers {

// What takes the place of A's tensor map: it is that of all rows as they are gathered.
struct GatheredRows : TensorMap {
    TensorMap own;   // boxes as of A
    int first, end;  // the rows that are own, as they are numbered among all

    __device__ __forceinline__ bool has(int row) const { return first <= row && row < end; }
    __device__ __forceinline__ const TensorMap& all() const { return *this; }
};
static_assert(sizeof(GatheredRows) == 320, "layout.py packs 320 bytes");

// Of B by columns, which convolutions load as weights.
struct Columns : TensorMap {};

// What takes the place of a convolution's geometry.
struct PlainRows {};

__device__ __forceinline__ Pixel pixel_of(const PlainRows&, int row) { return {0, row, 0}; }
__device__ __forceinline__ Tap tap_of(const PlainRows&, int k_block) { return {0, 0, 0, k_block}; }

}  // namespace peers

// Declared ahead of the producer warp, which calls them for a Params whose a, b and im2col are these.
namespace tma {

__device__ __forceinline__ void prefetch(const peers::GatheredRows& a) { prefetch(a.own), prefetch(a.all()); }

__device__ __forceinline__ void load_pixels(unsigned to, const peers::GatheredRows& a, PixelCorner at, int, int, unsigned barrier) {
    const bool is_own = a.has(at.row);
    load(to, is_own ? a.own : a.all(), Corner{at.channel, is_own ? at.row - a.first : at.row}, barrier);
}

__device__ __forceinline__ void load(unsigned to, const peers::Columns& b, WeightCorner at, unsigned barrier) {
    load(to, static_cast<const TensorMap&>(b), Corner{at.channel, at.filter}, barrier);
}

}  // namespace tma
