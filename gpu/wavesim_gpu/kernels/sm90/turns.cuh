// Which tiles a block computes, and which chunks of their K. A block takes turns; the blocks of a cluster take a turn
// together, and neighbouring tiles of the order in it:
//
//   turn            |    0    |    1    | ...
//   position        |  0 |  1 |  2 |  3 | ...     of rank 0, of rank 1, where slices do not come between
#pragma once

#include <kernels/sm90/loader.cuh>

// A cluster takes turns together: its first block draws and sends the number to the second. The first lane knows.
template <class S, class Part>
__device__ __forceinline__ int Loader<S, Part>::take_turn() {
    int turn = never;
    if constexpr (S::cluster == 1) {
        if (is_first_lane()) turn = stage_.next_position();
    } else if constexpr (!Generated::draws_position) {
        if (is_first_lane()) turn = stage_.next_position() / S::cluster;
    } else {
        int& letter = shared_.control().mail[at_.mail.slot];
        const unsigned mailed = shared_.mailed(at_.mail.slot);
        if (is_first_lane() && rank_ == 0) {
            turn = stage_.next_position();
            mbarrier::send(shared_.address(letter), 1, turn, mailed);
        } else if (is_first_lane()) {
            mbarrier::expect(mailed, sizeof(letter));
            mbarrier::wait(mailed, at_.mail.parity);
            turn = letter;
        }
        at_.mail.advance();
    }
    return turn;
}

// The position of block `rank` in a turn of the cluster, or the end. Its blocks take the same slice, of
// neighbouring tiles; slices are neighbours in the order, or all tiles come before the next slice.
template <class S, class Part>
__device__ __forceinline__ int Loader<S, Part>::position_of(int turn, int rank) const {
    if constexpr (S::cluster == 1) return turn;
    const int slices = sync_.generated.slices, tiles = stage_.positions() / slices;
    const int turns = (tiles + S::cluster - 1) / S::cluster;  // of one slice
    const int tile = S::cluster * (is_slice_next_ ? turn / slices : turn % turns) + rank;
    if (turn >= turns * slices || tile >= tiles) return stage_.positions();
    return is_slice_next_ ? tile * slices + turn % slices : turn / turns * tiles + tile;
}

// Past the last tile the second block keeps the first company with one that lies outside.
template <class S, class Part>
__device__ __forceinline__ cusync::Tile Loader<S, Part>::tile_of(int turn, int rank) const {
    const int position = position_of(turn, rank);
    if (S::cluster == 1 || position < stage_.positions()) return stage_.tile_at(position);
    return {sync_.generated.columns, sync_.generated.rows, stage_.tile_at(position_of(turn, 0)).z, -1, position};
}

template <class S, class Part>
__device__ __forceinline__ int Loader<S, Part>::chunks_of_k() const { return (p_.k + S::tile_k - 1) / S::tile_k; }

// A tile, or with split-K a slice of it, as the host divides it too.
template <class S, class Part>
__device__ __forceinline__ TileNote Loader<S, Part>::piece_of(const cusync::Tile& tile) const {
    const int chunks = chunks_of_k(), slices = sync_.generated.slices;
    const int first = chunks * tile.z / slices, last = chunks * (tile.z + 1) / slices;
    return {tile, first, last, tile.z, slices, tile.linear, tile.linear * slices, 0, tile.linear >= 0, sync_.sync.stage};
}
