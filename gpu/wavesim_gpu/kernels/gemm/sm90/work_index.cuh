// Which tiles a block computes, and which of their k-blocks. A block fetches one work index after the other; the blocks
// of a cluster share a work index and take neighbouring tiles of the order for it:
//
//   work index      |    0    |    1    | ...
//   position        |  0 |  1 |  2 |  3 | ...     of rank 0, of rank 1, where no splits come between
#pragma once

#include <kernels/gemm/sm90/producer.cuh>

// Dynamic tile scheduling: the first lane of the cluster's first block fetches the index and writes it into the other
// block's mailbox. Only the first lane of each block knows the result.
template <class S, class Part>
__device__ __forceinline__ int ProducerWarp<S, Part>::fetch_work() {
    int index = no_work;
    if constexpr (S::cluster == 1) {
        if (is_first_lane()) index = stage_.fetch_position();
    } else if constexpr (!Generated::draws_position) {
        if (is_first_lane()) index = stage_.fetch_position() / S::cluster;
    } else {
        int& message = shared_.control().mailbox[state_.mailbox.slot];
        const unsigned full = shared_.mailbox_full(state_.mailbox.slot);
        if (is_first_lane() && rank_ == 0) {
            index = stage_.fetch_position();
            mbarrier::store_remote(shared_.address(message), 1, index, full);
        } else if (is_first_lane()) {
            mbarrier::arrive_and_expect_tx(full, sizeof(message));
            mbarrier::wait(full, state_.mailbox.parity);
            index = message;
        }
        state_.mailbox.advance();
    }
    return index;
}

// The position that block `rank` of the cluster computes for a work index, or the number of positions when there is no
// more work. The blocks take the same split of neighbouring tiles. Splits of a tile are neighbours in the order, or all
// tiles come before the next split.
template <class S, class Part>
__device__ __forceinline__ int ProducerWarp<S, Part>::position_of(int index, int rank) const {
    if constexpr (S::cluster == 1) return index;
    const int splits = sync_.generated.slices, tiles = stage_.positions() / splits;
    const int per_split = (tiles + S::cluster - 1) / S::cluster;  // work indices
    const int tile = S::cluster * (is_split_next_ ? index / splits : index % per_split) + rank;
    if (index >= per_split * splits || tile >= tiles) return stage_.positions();
    return is_split_next_ ? tile * splits + index % splits : index / per_split * tiles + tile;
}

// With an odd number of tiles the second block computes one that lies outside of the output, beside the first's last.
template <class S, class Part>
__device__ __forceinline__ cusync::Tile ProducerWarp<S, Part>::tile_of(int index, int rank) const {
    const int position = position_of(index, rank);
    if (S::cluster == 1 || position < stage_.positions()) return stage_.tile_at(position);
    return {sync_.generated.columns, sync_.generated.rows, stage_.tile_at(position_of(index, 0)).z, -1, position};
}

template <class S, class Part>
__device__ __forceinline__ int ProducerWarp<S, Part>::k_block_count() const { return (p_.k + S::tile_k - 1) / S::tile_k; }

// A whole tile or, with split-K, one split of it. The host divides K the same way (cusync/waits.py).
template <class S, class Part>
__device__ __forceinline__ WorkTile ProducerWarp<S, Part>::work_of(const cusync::Tile& tile) const {
    const int k_blocks = k_block_count(), splits = sync_.generated.slices;
    const int first = k_blocks * tile.z / splits, last = k_blocks * (tile.z + 1) / splits;
    return {tile, first, last, tile.z, splits, tile.linear, tile.linear * splits, 0, tile.linear >= 0, sync_.sync.stage};
}
