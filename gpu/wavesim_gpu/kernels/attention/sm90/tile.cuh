// What the host chooses, as attention_sm90.py describes it too: a tile per compiled kernel, parameters per launch.
#pragma once

#include <kernels/attention/dropout.cuh>
#include <kernels/gemm/sm90/tma.cuh>

// Tensor maps are of rank 4, innermost first: (64 columns of a panel, rows of a sequence, panels, sequences). Rows past a
// sequence's end read as zeros and are not stored.
struct AttentionSm90Params {
    TensorMap q;            // boxes of (64, tile_m, panels of a head, 1)
    TensorMap k, v;         // boxes of (64, tile_keys, panels of a head, 1)
    TensorMap out;          // boxes of (64, 64, panels of a head, 1)
    float scale_log2;       // of the scores, times log2(e): softmax is taken to base 2
    int length;             // query rows of a sequence
    int keys;               // of a sequence; the queries stand behind the last `length` of them
    int first_key;          // where block 0 begins, at most 0: blocks of keys end where tiles of queries do
    int row_blocks;         // tiles of a sequence
    int heads, group;       // query heads; how many of them share a head of K and V
    int is_persistent;      // blocks take tiles until there are none, instead of one each
    int is_dependent;       // launched before the kernel ahead of it has ended
    Dropout dropout;
};
static_assert(sizeof(AttentionSm90Params) == 576, "attention_sm90.py packs 576 bytes");

// A block computes 128 query rows of one head, 64 in each MMA warpgroup, and walks the keys in blocks of tile_keys.
// pipeline_depth: K blocks that shared memory has room for, and V blocks as well.
template <int HEAD_, int TILE_KEYS_, int PIPELINE_DEPTH_, bool IS_CAUSAL_, bool HAS_DROPOUT_ = false>
struct AttentionTile {
    static constexpr int head = HEAD_, tile_keys = TILE_KEYS_, pipeline_depth = PIPELINE_DEPTH_;
    static constexpr int warpgroups = 2, tile_m = 64 * warpgroups;
    static constexpr bool is_causal = IS_CAUSAL_, has_dropout = HAS_DROPOUT_;
    static constexpr int panels = head / 64;  // of 64 columns, 128 bytes, as the swizzle takes them
    static constexpr int threads = 128 * (1 + warpgroups), mma_warps = 4 * warpgroups;
    // Registers per thread of the MMA warpgroups, and of the other, which gives them up; a block starts with 168 each.
    static constexpr int mma_registers = 232, producer_registers = 40;
    static_assert(warpgroups * mma_registers + producer_registers <= 168 * (1 + warpgroups));
    static constexpr int q_bytes = tile_m * head * 2, kv_bytes = tile_keys * head * 2, out_bytes = q_bytes;
    static_assert(head % 64 == 0 && tile_keys % 16 == 0 && tile_m % tile_keys == 0);
};
