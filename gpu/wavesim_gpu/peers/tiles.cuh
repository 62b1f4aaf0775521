// Which rank adds up which tiles of a product. All ranks lay out what they receive alike: the whole matrix per source, of
// which only the tiles that a rank adds up are ever filled.
//
//   share 0, two ranks:   columns of tiles 0 2 4 .. belong to rank 0, 1 3 5 .. to rank 1: all are busy from start to end
//   share 1:              rows of tiles in turns, where whole rows are needed together (a norm)
//   share rows / ranks:   the first rows belong to rank 0, the next to rank 1, as reduce-scatter has them
//   to_all:               every rank adds up every tile (one-shot)
#pragma once

namespace peers {

struct Tiles {
    int m, n;            // of the matrix
    int tile_m, tile_n;
    int columns;         // of tiles
    int ranks, share;    // share: consecutive rows of tiles that belong to one rank; 0: columns do, in turns
    int to_all;

    __device__ __forceinline__ int owner(int x, int y) const { return share == 0 ? x % ranks : y / share % ranks; }
};
static_assert(sizeof(Tiles) == 32, "layout.py packs 32 bytes");

}  // namespace peers
