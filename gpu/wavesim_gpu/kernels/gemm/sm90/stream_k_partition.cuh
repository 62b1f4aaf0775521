// Stream-K's partition. Written by wavesim/codegen/stream_k_text.py from wavesim/plan/stream_k_partition.py,
// which says what each function returns; change it there.
#pragma once

namespace stream_k {

#if defined(__CUDACC__)
#define STREAM_K_FUNCTION __host__ __device__ __forceinline__ constexpr
#else
#define STREAM_K_FUNCTION constexpr
#endif

STREAM_K_FUNCTION long long min(long long a, long long b) { return a < b ? a : b; }
STREAM_K_FUNCTION long long max(long long a, long long b) { return a > b ? a : b; }

STREAM_K_FUNCTION long long split_tiles(long long tiles, long long blocks) {
    return ((tiles % blocks) + ((0 < (4 * (tiles % blocks)) && (4 * (tiles % blocks)) < blocks) ? min((tiles - (tiles % blocks)), blocks) : 0));
}

STREAM_K_FUNCTION long long share_begin(long long block, long long iterations, long long blocks) {
    return ((iterations * block) / blocks);
}

STREAM_K_FUNCTION long long share_of(long long iteration, long long iterations, long long blocks) {
    return ((iterations < blocks) ? iteration : ((((iteration + 1) * blocks) - 1) / iterations));
}

STREAM_K_FUNCTION long long share_count(long long tile, long long per_tile, long long iterations, long long blocks) {
    return ((share_of((((tile + 1) * per_tile) - 1), iterations, blocks) - share_of((tile * per_tile), iterations, blocks)) + 1);
}

STREAM_K_FUNCTION long long most_shares(long long split, long long blocks) {
    return ((((blocks + split) - 1) / max(split, 1)) + 1);
}

}  // namespace stream_k
