// out = x by tiles of tile_m x tile_n elements of 16 bits, 16 bytes a load. sm_80 and later; columns and tile_n must be
// multiples of 8 (copy_tiles.py checks).

#include <generated.cuh>

#include <kernels/rows/rows.cuh>

struct CopyParams {
    RowMatrix x, out;
    RowTiles tiles;
    int columns, tile_n;
};
static_assert(sizeof(CopyParams) == 64, "row_kernel.py packs 64 bytes");

constexpr int in_flight = 4;  // loads of a thread, all issued before the first store

// `Generated`: the stage's struct in the generated header.
template <int THREADS, class Generated>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS)
copy_tiles(const __grid_constant__ cusync::StageParams<Generated> sync, const __grid_constant__ CopyParams p) {
    cusync::launch_dependents();
    for_each_tile(sync, p.tiles, [&](const cusync::Tile& tile, bool is_there) {
        const RowRange rows(p.tiles, tile.y);
        const int first = tile.x * p.tile_n, width = min(p.tile_n, p.columns - first) / vector_elements;
        const int count = (rows.end - rows.first) * width;
        for (int begin = threadIdx.x; begin < count; begin += in_flight * THREADS) {
            uint4 values[in_flight];
#pragma unroll
            for (int i = 0; i < in_flight; ++i) {
                const int at = begin + i * THREADS;
                if (at < count) values[i] = p.x.row(rows.first + at / width, first)[at % width];
                if (!is_there) values[i] = make_uint4(~0u, ~0u, ~0u, ~0u);  // NaN in any type
            }
#pragma unroll
            for (int i = 0; i < in_flight; ++i) {
                const int at = begin + i * THREADS;
                if (at < count) p.out.row(rows.first + at / width, first)[at % width] = values[i];
            }
        }
    });
}
