// How Stream-K deals out the work: whole tiles, the same number to every block, and of the last wave or two of tiles the
// chunks of K, evenly, so that all blocks end together. Three tiles for two blocks:
//
//   tiles   |    0    |    1    |    2    |
//   shares  |   block 0    |   block 1    |     tile 1 is the sum of two slices
#pragma once

#include <kernels/sm90/loader.cuh>

// This block's share of the last tiles' chunks first, so that sums that others wait for come early; then
// whole tiles, the same number in every block.
template <class S, class Part>
__device__ __forceinline__ void Loader<S, Part>::run_stream_k() {
    static_assert(!S::is_stream_k || !has_input, "Stream-K runs under stream sync");
    const int tiles = stage_.positions(), blocks = gridDim.x, block = blockIdx.x, chunks = chunks_of_k();
    const int left = tiles % blocks, last_full = min(tiles - left, blocks);
    // A small rest alone would be cut into many slices per tile: it is dealt out with a full wave.
    const int whole = tiles - left - (left > 0 && 4 * left < blocks ? last_full : 0);
    const int cut = tiles - whole, most_slices = (blocks + cut - 1) / max(cut, 1) + 1;
    const long long units = static_cast<long long>(cut) * chunks;
    const int begin = static_cast<int>(units * block / blocks), end = static_cast<int>(units * (block + 1) / blocks);
    // What starts a tile comes before what ends another: blocks are then at about the same chunk of K at a time, and find
    // in the L2 what others have fetched.
    const int turn = max(begin, end / chunks * chunks);
    for (int part = 0; part < 2; ++part) {
        const int stop = part == 0 ? end : turn;
        for (int unit = part == 0 ? turn : begin; unit < stop;) {
            const int tile = unit / chunks, first = unit - tile * chunks, last = min(chunks, first + stop - unit);
            const int first_block = block_of(tile * chunks, units), last_block = block_of((tile + 1) * chunks - 1, units);
            load({stage_.tile_at(whole + tile), first, last, block - first_block, last_block - first_block + 1, tile,
                  tile * most_slices, 0, 1}, never);
            unit += last - first;
        }
    }
    for (int position = block; position < whole; position += blocks) load(piece_of(stage_.tile_at(position)), never);
}

// The block in whose share a chunk is.
template <class S, class Part>
__device__ __forceinline__ int Loader<S, Part>::block_of(int unit, long long units) {
    const int blocks = gridDim.x;
    int block = static_cast<int>(static_cast<long long>(unit) * blocks / units);
    while (units * (block + 1) / blocks <= unit) ++block;
    return block;
}
