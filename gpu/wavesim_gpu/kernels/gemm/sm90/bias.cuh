// Sums begin with the bias: its loads overlap those of the tile's first operands, and the epilogue does not know of it.
#pragma once

#include <kernels/gemm/sm90/mma.cuh>

// A pair of elements, or zeros. A predicate, not a branch: all of a tile's loads are in flight before the first is used.
__device__ __forceinline__ unsigned load_pair(const unsigned* pair, bool is_there) {
    unsigned loaded;
    asm("{ .reg .pred p;\nsetp.ne.b32 p, %2, 0;\nmov.b32 %0, 0;\n@p ld.global.nc.b32 %0, [%1]; }"
        : "=r"(loaded) : "l"(pair), "r"(static_cast<int>(is_there)));
    return loaded;
}

// The columns of the bias that this thread holds, two of each group of 8; zeros where there is none.
template <class S, class Form>
__device__ __forceinline__ void load_bias(const GemmSm90Params& p, int tile_x, bool has_bias, unsigned (&pairs)[S::tile_n / 8]) {
    constexpr int parts = Form::has_halves ? 2 : 1, groups = S::tile_n / 8 / parts;
    const int column = tile_x * (S::tile_n / parts) + 2 * static_cast<int>(threadIdx.x & 3);
#pragma unroll
    for (int i = 0; i < parts * groups; ++i) {
        const int at = i % groups * 8;
        const unsigned* const bias = (i < groups ? p.bias : p.values_bias) + column / 2;
        pairs[i] = load_pair(bias + at / 2, has_bias && column + at < p.bias_columns);
    }
}

// The bias, by the block that has the first k-block of the tile; zero in its other splits, and in products without one.
template <class S, bool IS_BF16, Residual RESIDUAL>
template <class Part>
__device__ __forceinline__ void MmaWarpgroup<S, IS_BF16, RESIDUAL>::begin_sums(const Part& part, const WorkTile& work) {
    unsigned pairs[S::tile_n / 8] = {};
    if constexpr (Part::Form::has_bias) load_bias<S, typename Part::Form>(part.p, work.tile.x, work.first == 0, pairs);
#pragma unroll
    for (int group = 0; group < S::tile_n / 8; ++group) {
        const float2 pair = unpack<IS_BF16>(pairs[group]);
#pragma unroll
        for (int i = 0; i < S::frags_m; ++i) {
            float* const sum = sum_[i] + 4 * group;
            sum[0] = sum[2] = pair.x, sum[1] = sum[3] = pair.y;
        }
    }
    wgmma::fence_accumulators(sum_);  // else, of bf16, the compiler puts each k-block's multiply-adds one behind the other
}
