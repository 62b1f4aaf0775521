// Sums begin with the bias: its loads overlap those of the tile's first operands, and the epilogue does not know of it.
#pragma once

#include <kernels/sm90/mma.cuh>

// The two neighbouring columns of the bias that the thread holds of group `group` of 8 of the tile's columns.
template <class S, class Form>
__device__ __forceinline__ unsigned bias_pair(const GemmSm90Params& p, int tile_x, int group) {
    constexpr int parts = Form::has_halves ? 2 : 1, groups = S::tile_n / 8 / parts;
    const unsigned* const bias = group < groups ? p.bias : p.values_bias;
    const int column = tile_x * (S::tile_n / parts) + group % groups * 8 + 2 * static_cast<int>(threadIdx.x & 3);
    return column < p.bias_columns ? __ldg(bias + column / 2) : 0;
}

// The bias, by the block that has the first k-block of the tile; zero in its other splits, and in products without one.
template <class S, bool IS_BF16>
template <class Part>
__device__ __forceinline__ void MmaWarpgroup<S, IS_BF16>::begin_sums(const Part& part, const WorkTile& work) {
    const bool has_bias = Part::Form::has_bias && work.first == 0;
#pragma unroll
    for (int group = 0; group < S::tile_n / 8; ++group) {
        float2 pair = make_float2(0.0f, 0.0f);
        if (has_bias) pair = unpack<IS_BF16>(bias_pair<S, typename Part::Form>(part.p, work.tile.x, group));
#pragma unroll
        for (int i = 0; i < S::frags_m; ++i) {
            float* const sum = sum_[i] + 4 * group;
            sum[0] = sum[2] = pair.x, sum[1] = sum[3] = pair.y;
        }
    }
}
