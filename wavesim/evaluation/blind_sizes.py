"""What blind runs measure: written down, and split into development and test, before anything of it ran.

Example: a pair of products of 1,408 tokens in tiles of 128x256, on one backend under one schedule. It is
measured in two tile orders, each under stream sync, row and tile semaphores, with dependent launch and as
Stream-K. The hash of its name says which split it is in. The list is `blind_sizes.toml`.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from wavesim.evaluation.stored_kernels import StoredKernels, kernels_named, stored_data
from wavesim.model.dependency import gemm_rows
from wavesim.model.kernel import Gemm
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.plan import Plan
from wavesim.workloads.catalogue import Tile, workload
from wavesim.workloads.gpt3 import gemm_block
from wavesim.workloads.hopper import BLOCKS, TILE_K

ORDERS = ("row", "grouped:4")
SEMAPHORES = ("row", "tile")
BASELINE = "stream"
RIVALS = (*SEMAPHORES, "pdl", "stream-k")
# Four blocks of 128 threads share an SM, so the compiler keeps to this; `gemm_block` would guess more.
SMALL_TILE, SMALL_TILE_REGISTERS = (64, 64), 128


@dataclass(frozen=True)
class BlindSize:
    """A pair of products: `tiles` and `split_k` of the first and of the second.

    `kernels` is the stored name of what computes them. Every order of `orders` is a case: stream sync and all
    of `plans`, measured in turns. `blocks_per_sm` are resident on an SM.
    """

    kernels: str
    workload: str
    tokens: int
    tiles: tuple[Tile, Tile]
    split_k: tuple[int, int] = (1, 1)
    plans: tuple[str, ...] = SEMAPHORES
    orders: tuple[str, ...] = ORDERS
    blocks_per_sm: int = 1

    @property
    def name(self) -> str:
        """What it is called in reports; its hash decides the split."""
        first, second = (f"{m}x{n}" for m, n in self.tiles)
        tile = first if first == second else f"{first}+{second}"
        split = "" if self.split_k == (1, 1) else f" K/{self.split_k[0]}+{self.split_k[1]}"
        return f"{self.kernels} {self.workload} {tile}{split} M={self.tokens}"

    @property
    def stem(self) -> str:
        """The start of its files' names."""
        return self.name.replace(" ", "_").replace("M=", "m").replace("K/", "k")

    @property
    def stored(self) -> StoredKernels:
        """The backend, and how it runs stream sync."""
        return kernels_named(self.kernels)

    @property
    def set_name(self) -> str:
        """The set that its semaphores' predictions are scored in."""
        backend, per_sm = self.stored.backend, self.blocks_per_sm
        if self.is_persistent:
            return f"{backend}-persistent"
        if self.split_k != (1, 1):
            return f"{backend}-split-k"
        if self.tiles[0] != self.tiles[1]:
            return f"{backend}-unequal"
        return f"{backend}-{per_sm}-block{'s' if per_sm > 1 else ''}"

    @property
    def is_persistent(self) -> bool:
        """Whether a block computes tile after tile."""
        return self.plan(BASELINE, ORDERS[0]).schedule.fetches_tiles

    def plan(self, word: str, order: str) -> Plan:
        """What runs on a GPU under a word of `plans`, or under `BASELINE`."""
        return self.stored.plan_of(word, order)

    def pipeline(self) -> Pipeline:
        """The two stages as the kernels compute them."""
        plain = workload(self.workload, self.tokens, self.tiles[0])
        first, second = (
            Stage(stage.name, self._cut(stage.gemm, tile, split), self.stored.backend)
            for stage, tile, split in zip(plain.stages, self.tiles, self.split_k, strict=True)
        )
        parameters = {**plain.parameters, "judged_size": self.name}
        return Pipeline(self.workload, [first, second], [gemm_rows(first, second)], parameters)

    def _cut(self, gemm: Gemm, tile: Tile, split: int) -> Gemm:
        """The product in these tiles and splits, with the blocks of its kernels."""
        block, tile_k = BLOCKS.get(tile), self.stored.k_block
        if tile_k != TILE_K:
            block = gemm_block(tile)
            if tile == SMALL_TILE:
                block = replace(block, registers=SMALL_TILE_REGISTERS)
        assert block is not None, f"no kernel with k-blocks of {tile_k} is described for {tile}"
        return replace(gemm, tile_m=tile[0], tile_n=tile[1], tile_k=tile_k, split_k=split, block=block)


@cache
def all_sizes() -> tuple[BlindSize, ...]:
    """All of them; each in two orders."""
    return tuple(_size(entry, tokens) for entry in stored_data()["sizes"] for tokens in entry["tokens"])


def _size(entry: dict[str, Any], tokens: int) -> BlindSize:
    first, second = (tuple(tile) for tile in entry["tiles"])
    return BlindSize(
        entry["kernels"],
        entry["workload"],
        tokens,
        (first, second),
        tuple(entry.get("split_k", (1, 1))),
        tuple(entry.get("plans", SEMAPHORES)),
        blocks_per_sm=entry.get("blocks_per_sm", 1),
    )
