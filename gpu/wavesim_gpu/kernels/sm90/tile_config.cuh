// What the host chooses, as gemm_sm90.py describes it too: a tile configuration per compiled kernel, parameters per launch.
#pragma once

#include <kernels/sm90/tma.cuh>

struct GemmSm90Params {
    TensorMap a;  // (m, k), boxes of (tile_m / cluster, 64), or of m rows in eights where that is less
    TensorMap b;  // (k, n), boxes of (64 / cluster, 64)
    TensorMap c;  // (m, columns), boxes of (64, 64)
    // B by tiles, a box for all columns of one: (tiles, panels of 64 columns, k, 64), boxes of (1, panels, 64, 64). Where a
    // tile's columns are no multiple of 64, its last panel reaches into the next tile.
    TensorMap b_tiles;
    TensorMap c_tiles;  // C by tiles, where a box ends with its tile: (m, tiles, columns of a tile), boxes of (64, 1, 64)
    float* partials;    // (tile, split, tile_m * tile_n), in the order the threads hold them
    unsigned* tickets;  // one per tile: splits that are done
    int k;
    int load_bytes;     // of a pipeline slot's boxes of A and B
    int is_persistent;  // blocks take tiles until there are none, instead of one each
    int whole_tiles;    // of a row of tiles, those that b_tiles has
    int is_dependent;   // launched before the kernel ahead of it has ended
};
static_assert(sizeof(GemmSm90Params) == 704, "gemm_sm90.py packs 704 bytes");

enum class Activation { none = 0, gelu = 1, swiglu = 2 };

// The sum of an output tile is spread over WARPGROUPS_ x FRAGS_M_ fragments of 64 rows, TILE_N_ columns each. With
// Stream-K the k-blocks of the last wave or two of tiles are distributed evenly, so that all blocks end together.
template <int WARPGROUPS_, int FRAGS_M_, int TILE_N_, int PIPELINE_DEPTH_, int EPILOGUE_BUFFERS_ = 2, int CLUSTER_ = 1,
          bool IS_STREAM_K_ = false>
struct TileConfig {
    static constexpr int warpgroups = WARPGROUPS_, frags_m = FRAGS_M_, pipeline_depth = PIPELINE_DEPTH_, cluster = CLUSTER_;
    static constexpr int tile_m = 64 * warpgroups * frags_m, tile_n = TILE_N_, tile_k = 64;
    static constexpr bool is_stream_k = IS_STREAM_K_;
    static constexpr int epilogue_buffers = EPILOGUE_BUFFERS_;  // per warpgroup, 64 x 64 outputs each
    // Pieces of 64 x 64 outputs whose stores an MMA warpgroup may defer to the next tile: as many as it has buffers. With
    // three MMA warpgroups there are no registers for them.
    static constexpr int deferred = warpgroups < 3 ? epilogue_buffers : 0;
    static constexpr int threads = 128 * (1 + warpgroups), mma_warps = 4 * warpgroups;
    static constexpr int panels = (tile_n + 63) / 64;  // of B, 64 columns each; the last may reach into the next tile's columns
    static constexpr int panel_bytes = 64 * 128;       // of B, or a fragment's 64 rows of A or of outputs
    static constexpr int a_bytes = tile_m * 128, b_bytes = panels * panel_bytes, slot_bytes = a_bytes + b_bytes;
    static constexpr int ring_bytes = pipeline_depth * slot_bytes;
    static constexpr int epilogue_bytes = warpgroups * epilogue_buffers * panel_bytes;
    // Registers per thread once the producer's warpgroup has released some of its own.
    static constexpr int mma_registers = warpgroups == 3 ? 152 : 216, producer_registers = warpgroups == 3 ? 56 : 72;
    // A block starts with as many per thread as the SM has for it, in eights. A warpgroup that asks for more than the
    // others released waits for ever.
    static constexpr int start_registers = 65536 / threads / 8 * 8;
    static_assert(warpgroups == 1 || 128 * (producer_registers + warpgroups * mma_registers) <= threads * start_registers);
    static_assert(!is_stream_k || cluster == 1, "a cluster's blocks would have to split alike");
    static_assert(warpgroups <= 3, "one epilogue warp each, beside the producer warp");
    static_assert(tile_n % 16 == 0 && tile_n <= 256 && (cluster == 1 || cluster == 2));
};

// Columns of a tile's outputs: of two sums SwiGLU makes one.
template <class S, Activation ACTIVATION>
constexpr int columns_of() {
    return S::tile_n / (ACTIVATION == Activation::swiglu ? 2 : 1);
}

// Epilogue buffers that a fragment of outputs fills one after the other: 64 columns each, the last one perhaps in part.
template <class S, Activation ACTIVATION>
constexpr int pieces_of() {
    return (columns_of<S, ACTIVATION>() + 63) / 64;
}

// How many of them an MMA warpgroup writes as soon as the tile ends; the others it defers.
template <class S, Activation ACTIVATION>
constexpr int pieces_at_once() {
    constexpr int all = S::frags_m * pieces_of<S, ACTIVATION>();
    constexpr int fewest = all < S::epilogue_buffers ? all : S::epilogue_buffers;
    return all - S::deferred > S::epilogue_buffers ? all - S::deferred : fewest;
}
