"""Whether a product's tiles go over peer memory, or the library's product and collective take it.

Example: an all-reduce after 2,048 x 6,144 x 12,288 on two Hopper GPUs goes over peer memory; the same with
256 rows stays with NCCL. Only what all ranks see alike may decide: shapes, types, the kind of GPU.

Source of `FEWEST_ROWS`: on two H200s PyTorch's fused kernels lose below 1,024 rows, and NCCL in chunks at
every size but one (measured, docs/two-gpus.md). Our kernels have not been measured: below it they are not
tried.
"""

from wavesim_gpu.peers.layout import MAX_RANKS
from wavesim_gpu.peers.problem import UNIT

HOPPER = (9, 0)
FEWEST_ROWS = 1024
TILE_ROWS = 128


def takes_peers(kind: str, size: tuple[int, int, int], ranks: int, capability: tuple[int, int]) -> bool:
    """`size` is (m, n, k) of one rank's product; `kind` that of a `Collective`."""
    m, n, k = size
    is_whole = kind == "all-reduce" or m % (ranks * TILE_ROWS) == 0
    return (
        capability == HOPPER
        and 2 <= ranks <= MAX_RANKS
        and m >= FEWEST_ROWS
        and n % UNIT == 0
        and k % UNIT == 0
        and is_whole
    )
