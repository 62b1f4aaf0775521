// What the host chooses, as gemm.py describes it too: a tile configuration per compiled kernel, parameters per launch.
#pragma once

struct GemmParams {
    const unsigned short* a;
    const unsigned short* b;
    unsigned short* c;
    float* partials;    // (tile, split, TILE_M * TILE_N), in the order the threads hold them
    unsigned* tickets;  // one per tile: splits that are done
    int m, n, k;
};

// Byte offset of 16-byte chunk `chunk` in row `row` of a shared tile with ROW_BYTES a row. The chunk
// number is XORed with the row so that eight rows of one column fall into different banks.
template <int ROW_BYTES>
__device__ __forceinline__ int swizzled(int row, int chunk) {
    const int shift = ROW_BYTES == 64 ? (row >> 1) & 3 : row & 7;
    return row * ROW_BYTES + ((chunk ^ shift) << 4);
}

template <int TILE_M_, int TILE_N_, int TILE_K_, int WARPS_M_, int WARPS_N_, int PIPELINE_DEPTH_>
struct TileConfig {
    static constexpr int tile_m = TILE_M_, tile_n = TILE_N_, tile_k = TILE_K_, pipeline_depth = PIPELINE_DEPTH_;
    static constexpr int warps_m = WARPS_M_, warps_n = WARPS_N_;
    static constexpr int threads = warps_m * warps_n * 32;
    static constexpr int warp_m = tile_m / warps_m, warp_n = tile_n / warps_n;
    static constexpr int frags_m = warp_m / 16, frags_n = warp_n / 8, steps = tile_k / 16;
    static constexpr int a_bytes = tile_m * tile_k * 2, b_bytes = tile_k * tile_n * 2;
    static constexpr int slot_bytes = a_bytes + b_bytes;
    static constexpr int a_row = tile_k * 2, b_row = tile_n * 2, c_row = warp_n * 2;
    // Rows that one pass of all threads copies, and passes per k-block.
    static constexpr int a_step = threads / (tile_k / 8), a_passes = tile_m / a_step;
    static constexpr int b_step = threads / (tile_n / 8), b_passes = tile_k / b_step;
    static_assert(a_step % 8 == 0 && b_step % 8 == 0, "a thread's swizzle must not change between passes");
    static_assert(steps % 2 == 0 && frags_n % 2 == 0 && pipeline_depth >= 3, "fragments are double-buffered");
    static_assert(warp_n <= 64 && (tile_k == 32 || tile_k == 64), "fragment offsets must stay inside the swizzle");
    static_assert(tile_m * tile_n * 2 <= pipeline_depth * slot_bytes, "the output is rounded into the pipeline's memory");
};
