"""Which way a linear layer over two GPUs is computed where nobody has timed it: ours, or which library's.

Example: an all-reduce after 4,096 x 2,816 x 8,192 goes by `exchange`, after 64 rows by PyTorch's symmetric
memory; in fp16, which that does not take, by NCCL. Only what all ranks see alike may decide:
shapes, types, the kind of GPU.

Source: `choice.toml`, times measured on two H200s. Ours is chosen where it was faster than the library at
each of the nearest measured shapes;
`wavesim_gpu.torch.tune_parallel_linear` measures instead.
"""

from dataclasses import dataclass
from functools import cache
from math import log2
from pathlib import Path
from typing import Any

from wavesim.safe_io.documents import read_toml
from wavesim.work.collective import Kind
from wavesim_gpu.kernels.gemm.sm90.tile_config import TILE_CONFIGS
from wavesim_gpu.peers.problem import TILE_K, UNIT

HOPPER = (9, 0)
RANKS = 2  # more were not measured
USUAL_TILE = (128, 256)
NEIGHBOURS = 2
PROMISING = 3  # tiles that are tried besides those of the table
# Only order what is tried: how many outputs' multiply-adds take as long as loading a row or column of a
# k-block; the depth whose multiply-adds take a wave as long as its outputs take the link.
LOADED_ROWS, LINKED_DEPTH = 40, 2000
EXCHANGE, PUSH, TILED, HALVES, LIBRARY, FUSED, ONE_SHOT, TWO_SHOT, COPIES = (
    "exchange", "push", "tiled push", "halves", "library", "fused", "one-shot", "two-shot", "copies"
)  # fmt: skip
MOST_TILED, FEW_ROWS_TILES = 128, ((64, 64), (64, 128))  # rows; of more the host is ahead of the GPU
FEWEST_HALVED = 512  # rows: with fewer a half's GEMM takes as long as the whole
# By collective: those that a shape may take, best known first.
WAYS: dict[str, tuple[str, ...]] = {
    "all-reduce": (TWO_SHOT, ONE_SHOT, LIBRARY),
    "reduce-scatter": (LIBRARY, FUSED),
    "all-gather": (LIBRARY, FUSED, COPIES),
}
Size = tuple[int, int, int]


@dataclass(frozen=True)
class LinearShape:
    """What all ranks must have alike. (m, n, k) is one rank's GEMM: k is its part where sums follow."""

    kind: Kind
    m: int
    n: int
    k: int
    dtype: str  # "fp16" or "bf16"
    ranks: int = RANKS
    has_bias: bool = False

    @property
    def size(self) -> Size:
        """Rows, columns and depth."""
        return self.m, self.n, self.k


@dataclass(frozen=True)
class WayChoice:
    """`way` is one of the names above, with ":132" behind `exchange` as `options_named` reads it."""

    way: str
    tile: tuple[int, int] = USUAL_TILE

    @property
    def is_ours(self) -> bool:
        """Whether a kernel of ours computes the sums."""
        return self.way in (PUSH, TILED, HALVES) or self.exchanges

    @property
    def is_tiled(self) -> bool:
        """Whether our own kernel makes the GEMM, in tiles."""
        return self.way == TILED or self.exchanges

    @property
    def exchanges(self) -> bool:
        """Whether the product's own epilogue does."""
        return self.way.startswith(EXCHANGE)


def choice_of(shape: LinearShape, capability: tuple[int, int]) -> WayChoice:
    """By the measured times of the nearest shapes."""
    table, library = _table(), _library_of(shape, capability)
    is_large = shape.m >= table["fewest_rows"]
    if not is_large or not takes_exchange(shape, capability):
        return WayChoice(library)
    by_distance = sorted(table["rows"], key=lambda row: (_distance(row[:3], shape.size), row[:3]))
    near = by_distance[:NEIGHBOURS]
    column = "symmetric" if shape.dtype == "bf16" else "nccl"
    if min(_gain(row, column) for row in near) < table["least_gain"]:
        return WayChoice(library)
    _, _, _, way, *tile = near[0][:6]
    tile = tile if fits_tile(shape, (tile[0], tile[1])) else USUAL_TILE
    return WayChoice(way, (tile[0], tile[1])) if fits_tile(shape, (tile[0], tile[1])) else WayChoice(library)


def takes_exchange(shape: LinearShape, capability: tuple[int, int]) -> bool:
    """Whether `exchange` computes it at all: two Hopper GPUs, sums, whole vectors."""
    is_shape = shape.kind != "all-gather" and shape.n % UNIT == 0 and shape.k % UNIT == 0
    return capability == HOPPER and shape.ranks == RANKS and is_shape and shape.m > 0 and shape.k > 0


def takes_push(shape: LinearShape) -> bool:
    """Whether sums can be pushed: whole vectors for each rank."""
    outputs, parts = shape.m * shape.n, shape.ranks if shape.kind == "reduce-scatter" else 1
    return shape.kind != "all-gather" and outputs > 0 and outputs % (UNIT * parts) == 0


def takes_tiled(shape: LinearShape, capability: tuple[int, int]) -> bool:
    """Whether our kernel makes the GEMM ahead of a push, where that saves the host time."""
    is_tiled = capability == HOPPER and shape.m <= MOST_TILED and shape.k > 0
    return is_tiled and takes_push(shape) and shape.n % UNIT == 0 and shape.k % UNIT == 0


def takes_halves(shape: LinearShape) -> bool:
    """Whether two ranks have halves of the rows to add that are whole vectors."""
    is_halved = shape.ranks == RANKS and shape.m % RANKS == 0 and shape.m >= FEWEST_HALVED
    return is_halved and takes_push(shape) and shape.m // RANKS * shape.n % UNIT == 0


def fits_tile(shape: LinearShape, tile: tuple[int, int]) -> bool:
    """Whether its pieces are TMA's and each rank has rows of tiles, of a reduce-scatter as many."""
    if tile[1] % TILE_K:
        return False
    if shape.kind == "reduce-scatter":
        return shape.m % (RANKS * tile[0]) == 0
    return shape.m > tile[0]


def candidates_of(shape: LinearShape, capability: tuple[int, int], sm_count: int) -> list[WayChoice]:
    """All that `tune` times: the libraries', then ours in the tiles that were fast elsewhere and in those
    whose waves are full here.
    """
    ways = [WayChoice(way) for way in WAYS[shape.kind] if way == LIBRARY or shape.dtype == "bf16"]
    if takes_push(shape):
        ways.append(WayChoice(PUSH))
    if takes_tiled(shape, capability):
        ways += [WayChoice(TILED, tile) for tile in FEW_ROWS_TILES]
    if takes_halves(shape):
        ways.append(WayChoice(HALVES))
    if takes_exchange(shape, capability):
        fitting = [tile for tile in TILE_CONFIGS if fits_tile(shape, tile)]
        ordered = sorted(fitting, key=lambda tile: (_cost(shape, tile, sm_count), tile))
        known = {(row[3], (row[4], row[5])) for row in _table()["rows"]}
        turns = (EXCHANGE, f"{EXCHANGE}:{sm_count}") if shape.kind == "all-reduce" else (EXCHANGE,)
        chosen = known | {(way, tile) for tile in ordered[:PROMISING] for way in turns}
        ways += [WayChoice(way, tile) for way, tile in sorted(chosen) if fits_tile(shape, tile)]
    return ways


def _cost(shape: LinearShape, tile: tuple[int, int], sm_count: int) -> float:
    """What an SM does in waves of such tiles, and what of the link no wave hides; for an order alone."""
    tiles = -(-shape.m // tile[0]) * -(-shape.n // tile[1])
    waves, crossing = -(-tiles // sm_count), LINKED_DEPTH / shape.k
    exposed = crossing if waves > 1 else 2 * crossing  # of a single wave contributions and sums are
    return (waves + exposed) * tile[0] * tile[1] * (1 + LOADED_ROWS * (1 / tile[0] + 1 / tile[1]))


def _library_of(shape: LinearShape, capability: tuple[int, int]) -> str:
    """What follows a library's product: of sums our push, which was as fast as any on two Hopper GPUs."""
    is_measured = (shape.ranks, capability) == (RANKS, HOPPER)
    return PUSH if is_measured and shape.kind == "all-reduce" and takes_push(shape) else LIBRARY


def _gain(row: Any, library: str) -> float:
    columns = _table()["columns"]
    m, n = row[:2]
    own = row[columns.index(EXCHANGE)] + 2 * m * n / _table()["copied_bytes_per_us"]
    return float(row[columns.index(library)] / own)


def _distance(one: Size, other: Size) -> float:
    return sum(abs(log2(left / right)) for left, right in zip(one, other, strict=True))


@cache
def _table() -> dict[str, Any]:
    return dict(read_toml(Path(__file__).with_suffix(".toml")))
