// Which rank adds up which tiles of a product. All ranks lay out what they receive alike: the whole matrix per source, of
// which only the tiles that a rank adds up are ever filled.
//
//   share 0, two ranks:   columns of tiles 0 2 4 .. belong to rank 0, 1 3 5 .. to rank 1: all are busy from start to end
//   share 1:              rows of tiles in turns, where whole rows are needed together (a norm)
//   share rows / ranks:   the first rows belong to rank 0, the next to rank 1, as reduce-scatter has them
//   to_all:               every rank adds up every tile (one-shot)
#pragma once

#include <kernels/rows/rows.cuh>

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

// A tile of the matrix: its first row and column (of vectors), and what of it lies inside.
struct Extent {
    int row, column, rows, vectors;

    __device__ __forceinline__ Extent(const Tiles& tiles, int x, int y) {
        row = y * tiles.tile_m, column = x * (tiles.tile_n / vector_elements);
        rows = min(tiles.tile_m, tiles.m - row);
        vectors = min(tiles.tile_n, tiles.n - x * tiles.tile_n) / vector_elements;
    }
};

// NaN in a tile of a matrix (m, n). By one thread: it is rare.
__device__ __forceinline__ void poison_tile(const Tiles& tiles, uint4* out, int x, int y) {
    const Extent tile(tiles, x, y);
    const long long width = tiles.n / vector_elements;
#pragma unroll 1
    for (int at = 0; at < tile.rows * tile.vectors; ++at) {
        out[(tile.row + at / tile.vectors) * width + tile.column + at % tile.vectors] = make_uint4(~0u, ~0u, ~0u, ~0u);
    }
}

}  // namespace peers
