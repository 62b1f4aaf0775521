"""What one rank sees of a call: addresses of words and regions, its own and the others', and what all of its
kernels are told.

Example: `RankView(problem, memory, rank=0, ...).staging(1)` is where rank 0 stores what rank 1 adds up.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.driver.functions import load_function
from wavesim_gpu.driver.kernel_launch import DeviceLaunch, KernelLaunch
from wavesim_gpu.peers import layout as records
from wavesim_gpu.peers.memory import SharedMemory
from wavesim_gpu.peers.options import CallOptions, PeerBlocks
from wavesim_gpu.peers.problem import SharedGemm
from wavesim_gpu.peers.regions import ELEMENT, WORD, parities_of


@dataclass(frozen=True)
class RankOperands:
    """Device addresses of a rank's operands and results; `a` of an all-gather is the rank's share of rows."""

    a: int
    b: int
    c: int
    bias: int = 0
    residual: int = 0
    weight: int = 0
    next_b: int = 0
    next_c: int = 0


@dataclass(frozen=True)
class RankView:
    """Of rank `rank`, whose GPU is current while its kernels are made."""

    problem: SharedGemm
    memory: SharedMemory
    rank: int
    operands: RankOperands
    blocks: PeerBlocks
    options: CallOptions
    kept: list[Any] = field(default_factory=list)  # device memory that launches point to

    @property
    def limit_ns(self) -> int:
        """Of a wait."""
        return int(self.options.limit_s * 1e9)

    @property
    def parities(self) -> int:
        """How many calls' tiles have a place each: 2, or 1 where nothing is sent before it is read."""
        return parities_of(self.options.way)

    def own(self, name: str) -> int:
        """Where a region of its own begins."""
        return self.memory.address(self.rank, self.rank, name)

    def staging(self, to: int) -> int:
        """Where what this rank sends to another begins there."""
        matrix = self.problem.m * self.problem.n * ELEMENT
        return self.memory.address(self.rank, to, "staging") + self.rank * matrix

    def arrived(self, to: int) -> int:
        """The words by which another knows of them, one per tile."""
        return self.memory.address(self.rank, to, "arrived") + WORD * self.rank * self.problem.tiles

    def sent(self, to: int) -> int:
        """Own words: tiles that the GEMM has left in the outbox for another."""
        return self.own("sent") + WORD * to * self.problem.tiles

    def peer_params(self) -> Any:
        """semaphores.cuh, PeerParams."""
        return peer_params(
            self.memory,
            self.rank,
            self.problem.ranks,
            limit_ns=self.limit_ns,
            blocks=self.blocks.all,
            parity_mask=self.parities - 1,
        )

    def tiles(self) -> Any:
        """tiles.cuh, Tiles."""
        record = np.zeros(1, records.TILES)[0]
        for name in ("m", "n", "tile_m", "tile_n", "columns", "ranks", "share"):
            record[name] = getattr(self.problem, name)
        record["to_all"] = self.problem.is_one_shot
        return record

    def table(self, values: Sequence[Any]) -> Any:
        """Numbers on the GPU, kept as long as this is."""
        self.kept.append(require_cupy().asarray(np.array(values, np.int32)))
        return self.kept[-1]

    def launch(
        self,
        source: Path,
        shape: KernelLaunch,
        arguments: tuple[Any, ...],
        header: str = "",
        stream: int = 0,
    ) -> DeviceLaunch:
        """A kernel, loaded."""
        build = self.options.build
        function = load_function(source, shape.expression, build, shape.dynamic_shared_bytes, header)
        return DeviceLaunch(function, shape, arguments, stream)


def peer_params(
    memory: SharedMemory, rank: int, ranks: int, *, limit_ns: int, blocks: int, parity_mask: int
) -> Any:
    """semaphores.cuh, PeerParams, of a call of so many blocks."""
    record = np.zeros(1, records.PEER_PARAMS)[0]
    for name in ("done", "errors"):
        record["ranks"][name][:ranks] = memory.addresses(rank, name)
    record["calls"], record["limit_ns"] = memory.address(rank, rank, "calls"), limit_ns
    record["rank"], record["rank_count"] = rank, ranks
    record["block_count"], record["parity_mask"] = blocks, parity_mask
    return record


def is_bf16(problem: SharedGemm) -> str:
    """The C++ word."""
    return str(problem.dtype == "bf16").lower()
