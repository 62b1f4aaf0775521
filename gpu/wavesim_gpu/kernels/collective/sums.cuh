// Outputs of all ranks, added up: fp32 sums in the order of the ranks, rounded once.
#pragma once

#include <kernels/rows/rows.cuh>

namespace peers {

// Sums of vectors in the order of the ranks, rounded once.
template <int RANKS, bool IS_BF16>
__device__ __forceinline__ uint4 add_ranks(const uint4 (&of_rank)[RANKS]) {
    float sums[vector_elements];
    unpack_vector<IS_BF16>(of_rank[0], sums);
#pragma unroll
    for (int r = 1; r < RANKS; ++r) {
        float values[vector_elements];
        unpack_vector<IS_BF16>(of_rank[r], values);
#pragma unroll
        for (int j = 0; j < vector_elements; ++j) sums[j] += values[j];
    }
    return pack_vector<IS_BF16>(sums);
}

}  // namespace peers
