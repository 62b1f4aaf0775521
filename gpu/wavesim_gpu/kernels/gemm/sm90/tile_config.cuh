// What the host chooses, as gemm_sm90.py describes it too: a tile configuration per compiled kernel, parameters per launch.
#pragma once

#include <kernels/gemm/sm90/activation.cuh>
#include <kernels/convolution/im2col.cuh>
#include <kernels/gemm/sm90/tma.cuh>

struct GemmSm90Params {
    TensorMap a;  // (m, k), boxes of (tile_m / cluster, 64), or of m rows in eights where that is less
    // B (k, n), boxes of (64 / cluster, 64); stored by columns, (n, k), boxes of (tile_n, 64) in as many parts as are loaded.
    // With gates in halves the gates' matrix, of n / 2 columns.
    TensorMap b;
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
    TensorMap b_values;       // with gates in halves, the values' matrix
    const unsigned* bias;     // pairs of elements: of all columns, or the gates'
    const unsigned* values_bias;
    int bias_columns;         // of either
};
static_assert(sizeof(GemmSm90Params) == 896, "gemm_sm90.py packs 896 bytes");

// Of forms whose outputs a layer goes on with: see Form.
struct LayerGemmParams : GemmSm90Params {
    TensorMap residual;  // as C
    // K's and V's cache from a sequence's first new row on: (sequences, new rows, columns), boxes of (1, 64, 64).
    TensorMap k_cache, v_cache;
    const float4* rope;  // (positions, half a head) of cosine and sine
    int rope_heads;      // the first ones
    int first_position;  // of a sequence's first row
    int rope_rows;       // of a sequence
    int k_column, v_column, cache_rows;  // where K's and V's columns begin; rows of a sequence in the caches' maps
};
static_assert(sizeof(LayerGemmParams) == 1344, "parameters.py packs 1344 bytes");

// Of a convolution: `a` is the map of its images (images, height, width, channels), from which TMA gathers the pixels of
// 64 channels that a tile's outputs read (im2col); `b` its weights, (filters, taps, channels), boxes of (tile_n, 1, 64).
// Where each output reads one pixel, that of its own number, both are matrices as those of a product.
struct ConvSm90Params : LayerGemmParams {
    alignas(64) Im2col im2col;  // behind the padding of what comes before
};
static_assert(sizeof(ConvSm90Params) == 1408, "kernels/convolution/conv_sm90.py packs 1408 bytes");

template <bool IS_LAYER>
struct ParamsOf {
    using type = GemmSm90Params;
};
template <>
struct ParamsOf<true> {
    using type = LayerGemmParams;
};

// Of a matrix: the one whose elements are neighbours in memory.
enum class Order { row = 0, column = 1 };

// What an epilogue buffer is handed over with, for the outputs that go there: nothing, or a residual, added to the rounded
// outputs; the sums may be rectified.
enum class Residual { none, added, added_and_rectified };

// What is computed of A x B, and how B is given. With halves the first half of a tile's columns are gates from one matrix,
// the second half the values from another that belong to them. A residual (m, columns) is added to the rounded outputs.
// RoPE rotates pairs (i, i + ROPE_DIM / 2) of the first heads of ROPE_DIM columns. With a cache the columns are Q, K and V,
// of which K and V are stored into a cache each, and only Q into C.
template <Activation ACTIVATION_, Order B_ORDER_ = Order::row, bool HAS_BIAS_ = false, bool HAS_HALVES_ = false,
          bool HAS_RESIDUAL_ = false, int ROPE_DIM_ = 0, bool HAS_CACHE_ = false>
struct Form {
    static constexpr Activation activation = ACTIVATION_;
    static constexpr Order b_order = B_ORDER_;
    static constexpr bool has_bias = HAS_BIAS_, has_halves = HAS_HALVES_;
    static constexpr bool has_residual = HAS_RESIDUAL_, has_cache = HAS_CACHE_;
    static constexpr Residual residual = HAS_RESIDUAL_ ? Residual::added : Residual::none;
    static constexpr bool is_im2col = false, waits_by_tile = false, is_short = false;
    static constexpr int rope_dim = ROPE_DIM_;
    static constexpr bool is_layer = has_residual || rope_dim > 0 || has_cache;
    using Params = typename ParamsOf<is_layer>::type;
    // Whether MMA threads need no more registers than a tile configuration gives them.
    static constexpr bool fits_registers =
        (activation == Activation::none || activation == Activation::gelu || activation == Activation::swiglu) &&
        b_order == Order::row && !has_bias && !has_halves && !is_layer;
    static_assert(!has_halves || is_gated(activation));
    static_assert((rope_dim == 0 && !has_cache) || activation == Activation::none, "Q, K and V are sums");
};

// A convolution, its weights by filters. What a tile waits for depends on its column too, as its residual does. With
// IS_IM2COL the taps are k-blocks of their own; else there is one, and each output reads the pixel of its number. It is
// short: often of a few microseconds, of which round trips to the L2 that others do one after the other are a good part.
template <bool IS_IM2COL_, bool HAS_RELU_ = false, bool HAS_BIAS_ = false, bool HAS_RESIDUAL_ = false>
struct ConvForm : Form<HAS_RELU_ && !HAS_RESIDUAL_ ? Activation::relu : Activation::none, Order::column, HAS_BIAS_, false,
                       HAS_RESIDUAL_> {
    using Params = ConvSm90Params;
    static constexpr Residual residual = !HAS_RESIDUAL_ ? Residual::none
                                         : HAS_RELU_    ? Residual::added_and_rectified
                                                        : Residual::added;
    static constexpr bool is_im2col = IS_IM2COL_, waits_by_tile = true, is_short = true, fits_registers = false;
};

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
    // Registers per thread once the producer's warpgroup has released some of its own; block.cuh moves some more.
    static constexpr int mma_registers = warpgroups == 3 ? 152 : 216, producer_registers = warpgroups == 3 ? 56 : 72;
    // A block starts with as many per thread as the SM has for it, in eights. A warpgroup that asks for more than the
    // others released waits for ever.
    static constexpr int start_registers = 65536 / threads / 8 * 8;
    static_assert(!is_stream_k || cluster == 1, "a cluster's blocks would have to split alike");
    static_assert(warpgroups <= 3, "one epilogue warp each, beside the producer warp");
    static_assert(tile_n % 16 == 0 && tile_n <= 256 && (cluster == 1 || cluster == 2));
};

// Columns of a tile's outputs: of two sums a gated activation makes one.
template <class S, Activation ACTIVATION>
constexpr int columns_of() {
    return S::tile_n / (is_gated(ACTIVATION) ? 2 : 1);
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
