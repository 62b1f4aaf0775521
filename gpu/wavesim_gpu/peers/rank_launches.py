"""One rank's kernels of a call, with their parameters: the GEMM, the blocks that add, the blocks that send.

Example: rank 0 of a two-shot all-reduce over two ranks: a GEMM of 124 blocks that stores tiles of even
columns into its own staging and those of odd columns into rank 1's, then 8 blocks that add the even ones of
both. The rank's GPU is current while this is made.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wavesim_gpu.cusync.sync_state import SyncState
from wavesim_gpu.kernels.backend import Addresses
from wavesim_gpu.kernels.sm90.gemm_sm90 import Hopper
from wavesim_gpu.kernels.sm90.parameters import record_of
from wavesim_gpu.kernels.sm90.tensor_map import PANEL, encode_sequences
from wavesim_gpu.kernels.sm90.tile_config import TILE_CONFIGS, WgmmaTile
from wavesim_gpu.kernels.stage_backend import KernelLaunch
from wavesim_gpu.peers import layout as records
from wavesim_gpu.peers.memory import SharedMemory
from wavesim_gpu.peers.problem import UNIT, SharedGemm
from wavesim_gpu.peers.regions import ELEMENT, WORD
from wavesim_gpu.record.layout import RECORD
from wavesim_gpu.runtime.compiler import Build
from wavesim_gpu.runtime.device import require_cupy
from wavesim_gpu.runtime.device_launch import DeviceLaunch
from wavesim_gpu.runtime.functions import load_function

FOLDER = Path(__file__).parent
GEMM, REDUCE, SEND = (FOLDER / name for name in ("gemm.cu", "reduce.cu", "send.cu"))
COMM_THREADS = 512
# Blocks that write fill an NVLink from 16 on; adding is half of what they then do, and each costs the GEMM an
# SM.
REDUCE_BLOCKS, SEND_BLOCKS = 8, 16
LIMIT_S = 30.0


@dataclass(frozen=True)
class RankOperands:
    """Device addresses of a rank's operands and result; `a` of an all-gather is the rank's share of rows."""

    a: int
    b: int
    c: int
    bias: int = 0


@dataclass(frozen=True)
class CallOptions:
    """How a call is made, beyond what it computes.

    `by_blocks`: the GEMM keeps its tiles, and `send_blocks` blocks beside it copy them to their owners.
    `reduce_blocks` add. A wait that lasts longer than `limit_s` gives up, on all ranks.
    """

    by_blocks: bool = False
    reduce_blocks: int = REDUCE_BLOCKS
    send_blocks: int = SEND_BLOCKS
    limit_s: float = LIMIT_S
    build: Build = Build()  # noqa: RUF009  # frozen


@dataclass(frozen=True)
class PeerBlocks:
    """Thread blocks of each kernel of a call on one GPU; 0 where it has no such kernel."""

    gemm: int
    reduce: int
    send: int

    @property
    def all(self) -> int:
        """Of all of them: the last one to retire ends the call."""
        return self.gemm + self.reduce + self.send


class RankLaunches:
    """Those of rank `rank`, whose GPU is current."""

    def __init__(
        self,
        problem: SharedGemm,
        memory: SharedMemory,
        rank: int,
        operands: RankOperands,
        blocks: PeerBlocks,
        options: CallOptions,
    ) -> None:
        self._problem, self._memory, self._rank, self._operands = problem, memory, rank, operands
        self._blocks, self._by_blocks, self._build = blocks, options.by_blocks, options.build
        self._cupy = require_cupy()
        self._limit_ns = int(options.limit_s * 1e9)
        self._common = self._peer_params()
        self.kept: list[Any] = []  # device memory that the launches point to
        self.records: Any = None  # of the tiles that this rank adds up, where the build records
        self.state = SyncState(
            problem.pipeline,
            problem.plan,
            limit_ns=self._limit_ns,
            block_count=blocks.gemm,
            is_recording=self._build.is_recording,
        )
        self.launches = self._all()

    def _all(self) -> list[DeviceLaunch]:
        """In the order of the stream; each but the first may start when all blocks of the one before have."""
        if self._problem.gathers:
            return [self._send(), self._gemm()]
        send = [self._send()] if self._by_blocks else []
        return [self._gemm(), *send, self._reduce()]

    def _peer_params(self) -> Any:
        record = np.zeros(1, records.PEER_PARAMS)[0]
        for name in ("done", "errors"):
            record["ranks"][name][: self._problem.ranks] = self._memory.addresses(self._rank, name)
        record["calls"], record["limit_ns"] = self._own("calls"), self._limit_ns
        record["rank"], record["rank_count"] = self._rank, self._problem.ranks
        record["block_count"] = self._blocks.all
        return record

    def _gemm(self) -> DeviceLaunch:
        problem = self._problem
        config = TILE_CONFIGS[problem.tile_m, problem.tile_n]
        record = np.zeros(1, records.GATHER_PARAMS if problem.gathers else records.SCATTER_PARAMS)[0]
        record["plain"], record["first_row"] = self._plain(config), problem.first_row(self._rank)
        if problem.gathers:
            record["inputs"], record["peers"] = self._own("arrived"), self._common
        else:
            record["c"]["peers"], record["c"]["tiles"] = self._common, self._tiles()
            for to in range(problem.ranks):
                record["c"]["to"][to], record["c"]["posts"][to] = self._destination(to)
        shape = KernelLaunch(
            gemm_expression(problem, config),
            config.threads,
            config.dynamic_shared_bytes,
            self._blocks.gemm,
            is_dependent=problem.gathers,
        )
        return self._launch(GEMM, shape, (self.state.params("gemm"), record), self.state.headers["gemm"].text)

    def _plain(self, config: WgmmaTile) -> Any:
        problem, operands = self._problem, self._operands
        partials = self._cupy.zeros(max(1, Hopper().partial_bytes(problem.gemm, problem.plan)), np.uint8)
        self.kept.append(partials)
        addresses = Addresses(
            a=self._own("a") if problem.gathers else operands.a,
            b=operands.b,
            # Where tiles go to ranks nothing is stored to C; a map is encoded all the same.
            c=operands.c if problem.gathers else self._own("staging"),
            partials=int(partials.data.ptr),
            tickets=self.state.tickets("gemm"),
            bias=operands.bias,
        )
        plain = record_of(problem.gemm, config, addresses)
        plain["is_persistent"] = 1
        return plain

    def _destination(self, to: int) -> tuple[Any, int]:
        """Where the epilogue stores tiles for a rank, and posts them: there, or in this rank's outbox."""
        problem, matrix = self._problem, self._problem.m * self._problem.n
        if self._by_blocks and to != self._rank:
            place, apart, posts = self._own("outbox"), matrix, self._sent(to)
        else:
            place, apart, posts = self._staging(to), problem.ranks * matrix, self._arrived(to)
        size = (2, problem.m, problem.n)  # of even and odd calls
        return encode_sequences(place, size, (apart, problem.n), PANEL, problem.dtype), posts

    def _reduce(self) -> DeviceLaunch:
        problem = self._problem
        order = self._table(problem.added_by(self._rank))
        record = np.zeros(1, records.REDUCE_PARAMS)[0]
        record["peers"], record["tiles"] = self._common, self._tiles()
        for name, region in (("staging", "staging"), ("arrived", "arrived"), ("own_finished", "finished")):
            record[name] = self._own(region)
        for name in ("out", "finished"):
            record[name][: problem.ranks] = self._memory.addresses(self._rank, name)
        record["order"], record["unit_count"] = order.data.ptr, order.size
        record["all_units"] = problem.tiles
        if problem.collective.kind == "reduce-scatter":
            record["first_row"] = self._rank * problem.share * problem.tile_m
        elif not problem.is_one_shot:
            record["sends"], record["finished_count"] = 1, problem.tiles
        if self._build.is_recording:
            self.records = self._cupy.zeros(order.size * RECORD.itemsize, np.uint8)
            record["records"] = self.records.data.ptr
        name = f"reduce_tiles<{problem.ranks}, {is_bf16(problem)}>"
        shape = KernelLaunch(name, COMM_THREADS, 0, self._blocks.reduce, is_dependent=True)
        return self._launch(REDUCE, shape, (record,))

    def _send(self) -> DeviceLaunch:
        problem = self._problem
        record = np.zeros(1, records.SEND_PARAMS)[0]
        record["peers"] = self._common
        shipments = self._write_gathering(record) if problem.gathers else self._write_outbox(record)
        order = self._table(shipments)
        record["order"], record["shipment_count"] = order.data.ptr, len(shipments)
        shape = KernelLaunch("send_tiles", COMM_THREADS, 0, self._blocks.send, is_dependent=self._by_blocks)
        return self._launch(SEND, shape, (record,))

    def _write_gathering(self, record: Any) -> list[tuple[int, int]]:
        """(rank, tile) in the order in which the rank's rows of A are sent, each tile to all."""
        problem, gathered, ranks = self._problem, self._problem.gathered, self._problem.ranks
        # Tiles are numbered through all of A, whose first row would be so far ahead of this share's.
        before = self._rank * (problem.m // ranks) * problem.k * ELEMENT
        record["from"][:ranks] = self._operands.a - before
        record["to"][:ranks] = self._memory.addresses(self._rank, "a")
        record["posts"][:ranks] = self._memory.addresses(self._rank, "arrived")
        record["rows"], record["n"], record["tile_m"] = problem.m, problem.k, problem.tile_m
        record["tile_n"], record["columns"], record["awaits_done"] = gathered.tile_n, gathered.grid.x, 1
        share = problem.rows // ranks
        return [
            ((self._rank + step) % ranks, (self._rank * share + row) * gathered.grid.x + column)
            for row in range(share)
            for column in range(gathered.grid.x)
            for step in range(ranks)  # itself first: its GEMM begins with its own rows
        ]

    def _write_outbox(self, record: Any) -> list[tuple[int, int]]:
        """The tiles that the GEMM leaves here, to their owners, in the order in which it makes them."""
        problem, ranks = self._problem, self._problem.ranks
        for to in range(ranks):
            record["from"][to], record["to"][to] = self._own("outbox"), self._staging(to)
            record["sent"][to], record["posts"][to] = self._sent(to), self._arrived(to)
        vectors = problem.m * problem.n // UNIT
        record["from_parity"], record["to_parity"] = vectors, ranks * vectors
        record["rows"], record["n"], record["tile_m"] = problem.m, problem.n, problem.tile_m
        record["tile_n"], record["columns"] = problem.tile_n, problem.columns
        owned = [(problem.owner(x, y), y * problem.columns + x) for x, y in problem.made(self._rank)]
        return [(to, tile) for to, tile in owned if to != self._rank]

    def _tiles(self) -> Any:
        problem = self._problem
        record = np.zeros(1, records.TILES)[0]
        for name in ("m", "n", "tile_m", "tile_n", "columns", "ranks", "share"):
            record[name] = getattr(problem, name)
        record["to_all"] = problem.is_one_shot
        return record

    def _launch(
        self, source: Path, shape: KernelLaunch, arguments: tuple[Any, ...], header: str = ""
    ) -> DeviceLaunch:
        function = load_function(source, shape.expression, self._build, shape.dynamic_shared_bytes, header)
        return DeviceLaunch(function, shape, arguments, 0)

    def _table(self, values: Sequence[Any]) -> Any:
        self.kept.append(self._cupy.asarray(np.array(values, np.int32)))
        return self.kept[-1]

    def _own(self, name: str) -> int:
        return self._memory.address(self._rank, self._rank, name)

    def _staging(self, to: int) -> int:
        """Where what this rank sends to another begins there."""
        matrix = self._problem.m * self._problem.n * ELEMENT
        return self._memory.address(self._rank, to, "staging") + self._rank * matrix

    def _arrived(self, to: int) -> int:
        return self._memory.address(self._rank, to, "arrived") + WORD * self._rank * self._problem.tiles

    def _sent(self, to: int) -> int:
        return self._own("sent") + WORD * to * self._problem.tiles


def gemm_expression(problem: SharedGemm, config: WgmmaTile) -> str:
    """The template instance of the GEMM."""
    form = "Form<Activation::none" + (f", Order::{problem.b_order}" if problem.b_order != "row" else "")
    if problem.has_bias:
        form = f"Form<Activation::none, Order::{problem.b_order}, true"
    params = "GatherGemmParams" if problem.gathers else "ScatterGemmParams"
    kinds = f"{config.name}, {is_bf16(problem)}, PeerForm<{form}>, {params}>"
    return f"gemm_with_peers<{kinds}, generated::stage>"


def is_bf16(problem: SharedGemm) -> str:
    """The C++ word."""
    return str(problem.dtype == "bf16").lower()
