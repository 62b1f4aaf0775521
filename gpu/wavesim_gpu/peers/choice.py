"""Whether a product goes over peer memory, and in which tiles; else a library's product and collective.

Example: an all-reduce after 2,048 x 4,096 x 8,192 on two Hopper GPUs goes over peer memory, in 128 x 256;
with 64 rows NCCL takes it, and every all-gather. Only what all ranks see alike may decide: shapes, types, the
kind of GPU.

Source of the bounds: on two H200s ours, in the tiles of `choice.toml`, were faster than cuBLAS and NCCL in a
row for all 20 all-reduces of 128 rows or more and all 16 reduce-scatters, slower for the 4 smaller
all-reduces and most all-gathers (measured, docs/two-gpus.md). Of narrower or less deep products nothing is
known, so that the library takes them.
"""

from functools import cache
from math import log2
from pathlib import Path

from wavesim.guard.documents import read_toml
from wavesim_gpu.peers.problem import TILE_K, UNIT

HOPPER = (9, 0)
RANKS = 2  # more were not measured
FEWEST_ROWS = {"all-reduce": 128, "reduce-scatter": 512}
FEWEST_COLUMNS, FEWEST_DEPTH = 4096, 1408  # the least that were measured
TILE_ROWS, USUAL_TILE = 128, (128, 256)
SPLIT_BLOCKS, MOST_SPLITS = 100, 8  # where a product has fewer tiles, K is split
TILES = Path(__file__).with_suffix(".toml")

Size = tuple[int, int, int]


def takes_peers(kind: str, size: Size, ranks: int, capability: tuple[int, int]) -> bool:
    """`size` is (m, n, k) of one rank's product; `kind` that of a `Collective`."""
    m, n, k = size
    return (
        kind in FEWEST_ROWS
        and capability == HOPPER
        and ranks == RANKS
        and m >= FEWEST_ROWS[kind]
        and n >= FEWEST_COLUMNS
        and k >= FEWEST_DEPTH
        and (kind == "all-reduce" or m % (ranks * TILE_ROWS) == 0)
        and n % UNIT == 0
        and k % UNIT == 0
    )


def tile_of(kind: str, size: Size) -> tuple[int, int]:
    """Rows and columns: of the measured product nearest to (m, n, k) the tile that was fastest, among those
    that a reduce-scatter's rows are whole tiles of.

    An all-gather has the usual one.
    """
    known = [
        (_distance(one, size), tile)
        for one, tile in _tiles().get(kind, ())
        if kind == "all-reduce" or size[0] % (RANKS * tile[0]) == 0
    ]
    return min(known)[1] if known else USUAL_TILE


def split_of(size: Size, tile: tuple[int, int]) -> int:
    """In how many parts K of (m, n, k) is cut, so that few tiles still keep the SMs busy."""
    m, n, k = size
    tiles = -(-m // tile[0]) * -(-n // tile[1])
    return max(1, min(MOST_SPLITS, SPLIT_BLOCKS // tiles, k // TILE_K))


def _distance(one: Size, other: Size) -> float:
    return sum(abs(log2(left / right)) for left, right in zip(one, other, strict=True))


@cache
def _tiles() -> dict[str, list[tuple[Size, tuple[int, int]]]]:
    found: dict[str, list[tuple[Size, tuple[int, int]]]] = {}
    for kind, m, n, k, rows, columns in read_toml(TILES)["rows"]:
        found.setdefault(kind, []).append(((m, n, k), (rows, columns)))
    return found
