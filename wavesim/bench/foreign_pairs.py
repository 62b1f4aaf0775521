"""Pairs of kernels that are not ours: a matrix product, and behind it another one or a softmax of its rows.

Example: 1,536 tokens through 4,096 x 6,144 x 4,096 in tiles of 128 x 256, three k-blocks in flight, waits at
a barrier of the block before each tile of A. What its author knows of it becomes a `Pipeline`. Who has only
seen it in a profiler knows grids, registers and shared memory: `seen()`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Block, Grid, Kernel, MainLoop, WaitPlace
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import Plan
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.reads import gemm_rows

THREADS = 256
SOFTMAX_ROWS, SOFTMAX_THREADS = 16, 256
PADDING, HALF = 8, 2  # elements behind a row in shared memory; bytes of an fp16
BASELINE = "stream"
PLANS = ("row", "tile", "pdl+row", "pdl+tile")
NAMES = ("product", "consumer")
# tile_2, is_softmax, wait_place, is_persistent of Triton's pairs: a wait in the loop would end its pipeline.
TRITON = (None, False, "before-main-loop", False)
Waits = Literal["block-barrier", "before-main-loop"]


@dataclass(frozen=True)
class ForeignPair:
    """hidden (m, n1) = A (m, k) B (k, n1), and out (m, n2) = hidden C (n1, n2), or the softmax of its rows.

    `tile`: rows, columns and depth of a k-block; `tile_2` the second product's where it differs. `n2` is 0
    for a softmax. `kernels` are CUDA C++, or those of gpu/examples/triton_matmul.py. Raises
    `DescriptionError` for what they do not compute.
    """

    name: str
    m: int
    k: int
    n1: int
    n2: int
    tile: tuple[int, int, int] = (128, 256, 32)
    tile_2: tuple[int, int, int] | None = None
    pipeline_depth: int = 3
    blocks_per_sm: int = 1
    wait_place: Waits = "block-barrier"
    is_persistent: bool = False
    order: str = "row"
    plans: tuple[str, ...] = PLANS
    kernels: Literal["cuda", "triton"] = "cuda"

    def __post_init__(self) -> None:
        for what, size, part in (
            ("k", self.k, self.tile[2]),
            ("n1", self.n1, self.tile[1]),
            ("n1", self.n1, self.second_tile[2]),
            ("n2", self.n2, self.second_tile[1]),
        ):
            if size % part:
                raise DescriptionError(f"{self.name}: {what} is {size}; it must be a multiple of {part}")
        result = (self.tile_2, self.is_softmax, self.wait_place, self.is_persistent)
        if self.kernels == "triton" and result != TRITON:
            raise DescriptionError(
                f"{self.name}: Triton's pairs are two products with one tile that wait before the main loop "
                "and are not persistent"
            )
        if self.is_softmax and self.is_persistent:
            raise DescriptionError(f"{self.name}: is_persistent is True; the softmax has no persistent form")

    @property
    def second_tile(self) -> tuple[int, int, int]:
        """Of the second product."""
        return self.tile_2 or self.tile

    @property
    def is_softmax(self) -> bool:
        """Whether the consumer is no product."""
        return self.n2 == 0

    @property
    def group(self) -> int:
        """Tile rows in a group of the tile order."""
        return int(self.order.partition(":")[2] or 1)

    def shared_bytes(self, stage: int) -> int:
        """Dynamic shared memory of a block of a product."""
        tile_m, tile_n, tile_k = (self.tile, self.second_tile)[stage]
        halves = tile_m * (tile_k + PADDING) + tile_k * (tile_n + PADDING)
        return HALF * self.pipeline_depth * halves

    def plan(self, word: str) -> Plan:
        """What runs under a word of `plans`, or under `BASELINE`."""
        return parse_plan(word, self.order)

    def told(self, blocks: Mapping[str, Block] | None = None) -> Pipeline:
        """As the author describes it; `blocks` are what compiled blocks occupy."""
        first = self._product(0, self.n1, self.k, blocks)
        if not self.is_softmax:
            second = self._product(1, self.n2, self.n1, blocks)
            return Pipeline(self.name, [first, second], [gemm_rows(first, second)])
        block = (blocks or {}).get(NAMES[1], Block(SOFTMAX_THREADS))
        rows = Kernel(NAMES[1], Grid(1, -(-self.m // SOFTMAX_ROWS)), block, carveout="full")
        second = Stage(
            NAMES[1],
            rows,
            main_loop=MainLoop(1, "block-barrier", is_persistent=False, tests_each_k_block=False),
        )
        row = (y * SOFTMAX_ROWS) // self.tile[0]
        return Pipeline(self.name, [first, second], [Dependency(second[x, y], [first[:, row]])])

    def seen(self, blocks: Mapping[str, Block] | None = None) -> Pipeline:
        """As a profiler shows it: grids and what a block occupies; and who reads what."""
        told = self.told(blocks)
        first, second = (
            Stage(stage.name, replace(stage.kernel, flops_per_block=0, bytes_per_block=0))
            for stage in told.stages
        )
        (needs,) = told.dependencies[0].needs
        return Pipeline(self.name, [first, second], [Dependency(second[x, y], [replace(needs, stage=first)])])

    def _product(self, stage: int, n: int, k: int, blocks: Mapping[str, Block] | None) -> Stage:
        name = NAMES[stage]
        tile_m, tile_n, tile_k = (self.tile, self.second_tile)[stage]
        block = (blocks or {}).get(name, Block(THREADS, 128, 0, self.shared_bytes(stage)))
        place: WaitPlace = self.wait_place
        gemm = Gemm(name, self.m, n, k, tile_m, tile_n, tile_k, block=block, carveout="full")
        loop = MainLoop(self.pipeline_depth, place, self.is_persistent, tests_each_k_block=False)
        return Stage(name, gemm, main_loop=loop)


def pair_of(entry: Mapping[str, Any]) -> ForeignPair:
    """From a file's values; without a name it is called by its sizes. Raises `DescriptionError`."""
    tuples = {name: tuple(value) for name, value in entry.items() if isinstance(value, list)}
    try:
        pair = ForeignPair(**{"name": "", **entry, **tuples})
    except TypeError as error:
        raise DescriptionError(f"a foreign pair: {error}") from None
    return pair if pair.name else replace(pair, name=_name(pair))


def _name(pair: ForeignPair) -> str:
    tiles = "+".join(dict.fromkeys(f"{m}x{n}" for m, n, _ in (pair.tile, pair.second_tile)))
    waits = "" if pair.wait_place == "block-barrier" else " before"
    persistent = " persistent" if pair.is_persistent else ""
    consumer = "softmax" if pair.is_softmax else "product"
    consumer = f"triton {consumer}" if pair.kernels == "triton" else consumer
    sizes = f"{pair.m}x{pair.k}x{pair.n1}" + (f"x{pair.n2}" if pair.n2 else "")
    return (
        f"foreign {consumer} {sizes} {tiles} depth {pair.pipeline_depth}{waits}{persistent} "
        f"{pair.blocks_per_sm}/SM {pair.order}"
    )
