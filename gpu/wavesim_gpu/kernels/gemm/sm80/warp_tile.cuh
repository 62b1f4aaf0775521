// A warp's share of the output tile: fragments in registers and the tensor-core instructions on them.
#pragma once

#include <kernels/gemm/sm80/tensor_core.cuh>
#include <kernels/gemm/sm80/tile_config.cuh>

// The warp's share of the tile: fragments of A and B for two k-steps, and the sums.
template <class S, bool IS_BF16>
struct WarpTile {
    unsigned a[2][S::frags_m][4];
    unsigned b[2][S::frags_n][2];
    float sum[S::frags_m][S::frags_n][4];

    __device__ __forceinline__ void fill(float value) {
#pragma unroll
        for (int i = 0; i < S::frags_m; ++i)
#pragma unroll
            for (int j = 0; j < S::frags_n; ++j)
#pragma unroll
                for (int e = 0; e < 4; ++e) sum[i][j][e] = value;
    }

    // Fragments of k-step STEP of the k-block in the slot at shared address `slot`. `a_lane` and `b_lane` are this
    // lane's offsets for step 0 and fragment 0: since the swizzle is an XOR, other steps of A and other fragments of B
    // are an XOR away, and all else is a constant offset.
    template <int HALF, int STEP>
    __device__ __forceinline__ void load(unsigned slot, unsigned a_lane, unsigned b_lane) {
        const unsigned a_from = slot + (a_lane ^ (STEP * 32));
#pragma unroll
        for (int i = 0; i < S::frags_m; ++i) load_matrices(a[HALF][i], a_from + i * 16 * S::a_row);
#pragma unroll
        for (int j = 0; j < S::frags_n / 2; ++j) {
            unsigned pair[4];
            load_matrices_transposed(pair, slot + S::a_bytes + (b_lane ^ (j * 32)) + STEP * 16 * S::b_row);
            b[HALF][2 * j][0] = pair[0], b[HALF][2 * j][1] = pair[1];
            b[HALF][2 * j + 1][0] = pair[2], b[HALF][2 * j + 1][1] = pair[3];
        }
    }

    __device__ __forceinline__ void multiply(int half) {
#pragma unroll
        for (int i = 0; i < S::frags_m; ++i)
#pragma unroll
            for (int j = 0; j < S::frags_n; ++j) {
                const int column = i & 1 ? S::frags_n - 1 - j : j;  // back and forth: neighbours share B
                multiply_accumulate<IS_BF16>(sum[i][column], a[half][i], b[half][column]);
            }
    }
};
