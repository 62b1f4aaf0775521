"""What blind runs measure: written down, and split into development and test, before anything of it ran.

Example: a pair of products of 1,408 tokens in tiles of 128x256, on one backend under one schedule. It is
measured in two tile orders, each under stream sync, row and tile semaphores, with dependent launch and as
Stream-K. The hash of its name says which split it is in. The lists are `lists/gemms.toml`, of the first
run, and `lists/gemms-second.toml`.
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

from wavesim.bench.stored_kernels import StoredKernels, kernels_named, stored_data
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.plan import Plan
from wavesim.work.gemm import GATED, Gemm
from wavesim.work.gemm.reads import gemm_rows
from wavesim.workloads.catalogue import Tile, workload
from wavesim.workloads.hopper import BLOCKS, TILE_K
from wavesim.workloads.mlps import gemm_block

SECOND_LIST = Path(__file__).parent / "lists" / "gemms-second.toml"
ORDERS = ("row", "grouped:4")
SEMAPHORES = ("row", "tile")
BASELINE = "stream"
# Four blocks of 128 threads share an SM, so the compiler keeps to this; `gemm_block` would guess more.
SMALL_TILE, SMALL_TILE_REGISTERS = (64, 64), 128


@dataclass(frozen=True)
class BlindSize:
    """A pair or a chain of products, each of which reads the one before: `tiles` and `split_k` of each.

    `workload` is a name of the catalogue, or of a chain in the second list. `kernels` is the stored name of
    what computes them. Every order of `orders` is a case: stream sync and all of `plans`, measured in turns.
    `blocks_per_sm` are resident on an SM.
    """

    kernels: str
    workload: str
    tokens: int
    tiles: tuple[Tile, ...]
    split_k: tuple[int, ...] = (1, 1)
    plans: tuple[str, ...] = SEMAPHORES
    orders: tuple[str, ...] = ORDERS
    blocks_per_sm: int = 1

    @property
    def name(self) -> str:
        """What it is called in reports; its hash decides the split."""
        words = [f"{m}x{n}" for m, n in self.tiles]
        tile = words[0] if len(set(words)) == 1 else "+".join(words)
        split = f" K/{'+'.join(map(str, self.split_k))}" if self.is_split else ""
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
        if self.is_chain:
            return f"{backend}-chain"
        if self.is_persistent:
            return f"{backend}-persistent"
        if self.is_split:
            return f"{backend}-split-k"
        if self.tiles[0] != self.tiles[1]:
            return f"{backend}-unequal"
        return f"{backend}-{per_sm}-block{'s' if per_sm > 1 else ''}"

    @property
    def is_chain(self) -> bool:
        """Whether there are more than two products."""
        return len(self.tiles) > 2

    @property
    def is_split(self) -> bool:
        """Whether blocks share the sums of a tile."""
        return set(self.split_k) != {1}

    @property
    def family(self) -> str:
        """The kernels that are left out together where intervals are tried on kernels never scored."""
        name = self.set_name.removeprefix(f"{self.stored.backend}-")
        return self.stored.backend if "block" in name else name

    @property
    def is_persistent(self) -> bool:
        """Whether a block computes tile after tile."""
        return self.plan(BASELINE, ORDERS[0]).schedule.fetches_tiles

    def plan(self, word: str, order: str) -> Plan:
        """What runs on a GPU under a word of `plans`, or under `BASELINE`."""
        return self.stored.plan_of(word, order)

    def pipeline(self) -> Pipeline:
        """The stages as the kernels compute them."""
        chains = _chains()
        if self.workload in chains:
            gemms = chain_gemms(chains[self.workload], self.tokens, self.tiles[0])
            parameters: dict[str, Any] = {"tokens": self.tokens}
        else:
            plain = workload(self.workload, self.tokens, self.tiles[0])
            gemms, parameters = [stage.gemm for stage in plain.stages], dict(plain.parameters)
        stages = [
            Stage(gemm.name, self._cut(gemm, tile, split), self.stored.backend)
            for gemm, tile, split in zip(gemms, self.tiles, self.split_k, strict=True)
        ]
        dependencies = [gemm_rows(entry, after) for entry, after in pairwise(stages)]
        return Pipeline(self.workload, stages, dependencies, {**parameters, "judged_size": self.name})

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
    """Those of both lists."""
    entries = [*stored_data()["case"], *_second_list()["case"]]
    return tuple(_size(entry, tokens) for entry in entries for tokens in entry["tokens"])


def shuffled(sizes: Iterable[BlindSize]) -> list[BlindSize]:
    """In an order that mixes kernels, tiles and splits: what is cut short lacks some of each."""
    return sorted(sizes, key=lambda size: sha256(size.name.encode()).digest()[1:])


def chain_gemms(chain: Mapping[str, Any], tokens: int, tile: Tile) -> list[Gemm]:
    """The products of a chain: `k` of the first, `n` of each and its `activations`, each on the one before.

    `n` counts the columns of B: of a gated activation twice those of C.
    """
    gemms: list[Gemm] = []
    k = chain["k"]
    for number, (n, word) in enumerate(zip(chain["n"], chain["activations"], strict=True), start=1):
        gemms.append(Gemm(f"gemm{number}", tokens, n, k, *tile, activation=word or None, carveout="full"))
        k = n // 2 if word in GATED else n
    return gemms


@cache
def _second_list() -> dict[str, Any]:
    return tomllib.loads(SECOND_LIST.read_text(encoding="utf-8"))


def _chains() -> dict[str, Any]:
    chains: dict[str, Any] = _second_list()["workloads"]
    return chains


def _size(entry: dict[str, Any], tokens: int) -> BlindSize:
    tiles = tuple((rows, columns) for rows, columns in entry["tiles"])
    return BlindSize(
        entry["kernels"],
        entry["workload"],
        tokens,
        tiles,
        tuple(entry.get("split_k", (1,) * len(tiles))),
        tuple(entry.get("plans", SEMAPHORES)),
        tuple(entry.get("orders", ORDERS)),
        entry.get("blocks_per_sm", 1),
    )
