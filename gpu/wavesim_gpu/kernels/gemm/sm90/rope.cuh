// Rotary position embedding (RoPE): of a head's columns, pairs (i, i + half a head) are rotated by an angle that grows with
// the row's position. A thread holds both columns of a pair, as tiles hold whole heads.
#pragma once

#include <kernels/gemm/sm90/mma.cuh>

__device__ __forceinline__ void rotate(float& x, float& y, float cosine, float sine) {
    const float turned = x * cosine - y * sine;
    y = y * cosine + x * sine;
    x = turned;
}

template <class S, bool IS_BF16, Residual RESIDUAL>
template <class Params, int DIM>
__device__ __forceinline__ void MmaWarpgroup<S, IS_BF16, RESIDUAL>::rotate_heads(const Params& p, const cusync::Tile& tile) {
    constexpr int heads = S::tile_n / DIM, half = DIM / 16;  // groups of 8 columns in half a head
    static_assert(S::tile_n % DIM == 0, "tiles hold whole heads");
    const int first_head = tile.x * heads;
    if (first_head >= p.rope_heads) return;
    const int lane = threadIdx.x & 31, warp = (threadIdx.x / 32) & 3;
    const int first_row = tile.y * S::tile_m + group_ * S::frags_m * 64 + warp * 16 + lane / 4;
#pragma unroll
    for (int i = 0; i < 2 * S::frags_m; ++i) {  // the two rows that a thread has of each fragment
        const int position = p.first_position + (first_row + i / 2 * 64 + i % 2 * 8) % p.rope_rows;
        const float4* const angles = p.rope + static_cast<long long>(position) * (DIM / 4) + (lane & 3);
#pragma unroll
        for (int group = 0; group < half; ++group) {
            const float4 angle = angles[4 * group];  // cosine and sine of two neighbouring columns
#pragma unroll
            for (int head = 0; head < heads; ++head) {
                float* const low = sum_[i / 2] + 4 * (head * 2 * half + group) + i % 2 * 2;
                float* const high = low + 4 * half;
                if (first_head + head < p.rope_heads) {
                    rotate(low[0], high[0], angle.x, angle.y);
                    rotate(low[1], high[1], angle.z, angle.w);
                }
            }
        }
    }
}
