// The parts of tiles that one block computes under Stream-K, in its order. Three tiles for two blocks:
//
//   tiles   |    0    |    1    |    2    |
//   shares  |   block 0    |   block 1    |     tile 1 is the sum of two parts
#pragma once

#include <kernels/gemm/sm90/stream_k_partition.cuh>

namespace stream_k {

// K iterations `first` up to, not including, `last` of a tile; part `index` of its `count`. `split` numbers the tiles
// that are split, -1 for a whole one.
struct TilePart {
    int position, first, last, index, count, split;
};

// Calls visit(part) for the parts of `block`. First its share of the split tiles, so that sums which others wait for come
// early, and of the share first what starts a tile: blocks are then at about the same k-block at a time and find in the
// L2 what others have loaded. Then whole tiles, as many for every block.
template <class Visit>
STREAM_K_FUNCTION void for_each_part(int tiles, int per_tile, int block, int blocks, Visit&& visit) {
    const int split = static_cast<int>(split_tiles(tiles, blocks)), whole = tiles - split;
    const long long iterations = static_cast<long long>(split) * per_tile;
    const int begin = static_cast<int>(share_begin(block, iterations, blocks));
    const int end = static_cast<int>(share_begin(block + 1, iterations, blocks));
    const int last_start = end / per_tile * per_tile, middle = begin > last_start ? begin : last_start;
    for (int half = 0; half < 2; ++half) {
        const int stop = half == 0 ? end : middle;
        for (int at = half == 0 ? middle : begin; at < stop;) {
            const int tile = at / per_tile, first = at - tile * per_tile;
            const int last = first + stop - at < per_tile ? first + stop - at : per_tile;
            const long long own = share_of(at, iterations, blocks);
            const long long first_share = share_of(static_cast<long long>(tile) * per_tile, iterations, blocks);
            visit(TilePart{whole + tile, first, last, static_cast<int>(own - first_share),
                           static_cast<int>(share_count(tile, per_tile, iterations, blocks)), tile});
            at += last - first;
        }
    }
    for (int position = block; position < whole; position += blocks) visit(TilePart{position, 0, per_tile, 0, 1, -1});
}

}  // namespace stream_k
