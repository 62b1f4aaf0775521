"""Whether a product's tiles go over peer memory, or the library's product and collective take it.

Example: an all-gather ahead of 4,096 x 8,192 x 2,816 on two Hopper GPUs goes over peer memory; of 4,096 x
4,096 x 14,336 the library takes it, and every all-reduce. Only what all ranks see alike may decide: shapes,
types, the kind of GPU.

Source of the bounds: on two H200s our kernels were faster than cuBLAS and NCCL in a row for the three of ten
all-gathers that lie within them, by 4 to 8 %, and for none of eleven all-reduces (measured,
docs/two-gpus.md).
"""

from wavesim_gpu.peers.problem import UNIT

HOPPER = (9, 0)
RANKS = 2  # more were not measured
FEWEST_ROWS, FEWEST_COLUMNS, MOST_DEPTH = 1024, 8192, 2816
TILE_ROWS = 128


def takes_peers(kind: str, size: tuple[int, int, int], ranks: int, capability: tuple[int, int]) -> bool:
    """`size` is (m, n, k) of one rank's product; `kind` that of a `Collective`."""
    m, n, k = size
    return (
        kind == "all-gather"
        and capability == HOPPER
        and ranks == RANKS
        and m >= FEWEST_ROWS
        and n >= FEWEST_COLUMNS
        and k <= MOST_DEPTH
        and m % (ranks * TILE_ROWS) == 0
        and n % UNIT == 0
        and k % UNIT == 0
    )
