"""In which tiles a product over several GPUs is tried, and in how many parts its K is cut.

Example: 2,048 x 4,096 x 8,192 is tried in 128 x 256, 256 x 128 and 128 x 192; 64 x 2,048 x 4,096 in 64 x 128
with K in three parts, which are 96 blocks, and in 64 x 256. Of each way the fastest counts, measured as well
as simulated.
"""

from wavesim.workloads.hopper import TILE_K, Tile

# Up to so many rows: tiles (rows, columns), those tried first that most often win.
TRIED: tuple[tuple[int, tuple[Tile, ...]], ...] = (
    (64, ((64, 128), (64, 256))),
    (256, ((128, 128), (64, 128), (64, 256))),
    (1023, ((128, 256), (128, 128), (128, 192))),
    (1 << 30, ((128, 256), (256, 128), (128, 192))),
)
SPLIT_BLOCKS, MOST_SPLITS = 100, 8  # where a product has fewer tiles, K is split


def tiles_tried(m: int) -> tuple[Tile, ...]:
    """Rows and columns of a tile, for a product of m rows."""
    return next(tiles for most, tiles in TRIED if m <= most)


def split_of(size: tuple[int, int, int], tile: Tile) -> int:
    """In how many parts K of (m, n, k) is cut, so that few tiles still keep the SMs busy."""
    m, n, k = size
    tiles = -(-m // tile[0]) * -(-n // tile[1])
    return max(1, min(MOST_SPLITS, SPLIT_BLOCKS // tiles, k // TILE_K))
