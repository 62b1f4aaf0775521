"""What takes tiles to other ranks where the GEMM does not: communication blocks, or the copy engine.

Example: an all-gather's blocks copy rank 0's rows to all ranks, tile by tile in the order in which these read
them; of an all-reduce by copies, the copy engine takes two rows of tiles at a time, and one warp before and
after each copy waits for the tiles and posts them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wavesim_gpu.kernels.stage_backend import KernelLaunch
from wavesim_gpu.peers import layout as records
from wavesim_gpu.peers.problem import UNIT
from wavesim_gpu.peers.rank_view import RankView
from wavesim_gpu.peers.regions import ELEMENT, WORD
from wavesim_gpu.runtime.device import require_cupy
from wavesim_gpu.runtime.device_launch import DeviceLaunch

SEND, COPY = (Path(__file__).with_name(name) for name in ("send.cu", "copy.cu"))
THREADS = 512
MAIN, BESIDE = 0, 1  # a rank's streams
ANY_DIRECTION = 4  # cudaMemcpyDefault: the addresses say


def send_launch(view: RankView) -> DeviceLaunch:
    """Communication blocks, for an all-gather or for tiles that the GEMM leaves in the outbox."""
    record = np.zeros(1, records.SEND_PARAMS)[0]
    record["peers"] = view.peer_params()
    gathers = view.problem.gathers
    shipments = _write_gathering(view, record) if gathers else _write_outbox(view, record)
    record["order"], record["shipment_count"] = view.table(shipments).data.ptr, len(shipments)
    shape = KernelLaunch("send_tiles", THREADS, 0, view.blocks.send, is_dependent=not gathers)
    return view.launch(SEND, shape, (record,))


def _write_gathering(view: RankView, record: Any) -> list[tuple[int, int]]:
    """(rank, tile) in the order in which the rank's rows of A are sent, each tile to all."""
    problem, gathered, ranks = view.problem, view.problem.gathered, view.problem.ranks
    # Tiles are numbered through all of A, whose first row would be so far ahead of this share's.
    before = view.rank * (problem.m // ranks) * problem.k * ELEMENT
    record["from"][:ranks] = view.operands.a - before
    record["to"][:ranks] = view.memory.addresses(view.rank, "a")
    record["posts"][:ranks] = view.memory.addresses(view.rank, "arrived")
    record["rows"], record["n"], record["tile_m"] = problem.m, problem.k, problem.tile_m
    record["tile_n"], record["columns"], record["awaits_done"] = gathered.tile_n, gathered.grid.x, 1
    share = problem.rows // ranks
    return [
        ((view.rank + step) % ranks, (view.rank * share + row) * gathered.grid.x + column)
        for row in range(share)
        for column in range(gathered.grid.x)
        for step in range(ranks)  # itself first: its GEMM begins with its own rows
    ]


def _write_outbox(view: RankView, record: Any) -> list[tuple[int, int]]:
    """The tiles that the GEMM leaves here, to their owners, in the order in which it makes them."""
    problem, ranks = view.problem, view.problem.ranks
    for to in range(ranks):
        record["from"][to], record["to"][to] = view.own("outbox"), view.staging(to)
        record["sent"][to], record["posts"][to] = view.sent(to), view.arrived(to)
    vectors = problem.m * problem.n // UNIT
    record["from_parity"], record["to_parity"] = vectors, ranks * vectors
    record["rows"], record["n"], record["tile_m"] = problem.m, problem.n, problem.tile_m
    record["tile_n"], record["columns"] = problem.tile_n, problem.columns
    owned = [(problem.owner(x, y), y * problem.columns + x) for x, y in problem.made(view.rank)]
    return [(to, tile) for to, tile in owned if to != view.rank]


@dataclass(frozen=True)
class EngineCopy:
    """Bytes that the copy engine takes to an address, on whatever GPU, in the order of a stream."""

    target: int
    source: int
    bytes: int

    def enqueue(self, streams: Any) -> None:
        """Launches it."""
        runtime = require_cupy().cuda.runtime
        runtime.memcpyAsync(self.target, self.source, self.bytes, ANY_DIRECTION, streams[BESIDE].ptr)


@dataclass(frozen=True)
class StreamsMeet:
    """What stream `later` is given from here on comes after what stream `earlier` has been given."""

    earlier: int
    later: int
    event: Any

    def enqueue(self, streams: Any) -> None:
        """In the order of both streams."""
        self.event.record(streams[self.earlier])
        streams[self.later].wait_event(self.event)


def meeting(earlier: int, later: int) -> StreamsMeet:
    """One between two of the current GPU's streams."""
    return StreamsMeet(earlier, later, require_cupy().cuda.Event(disable_timing=True))


def copy_steps(view: RankView) -> list[DeviceLaunch | EngineCopy]:
    """Waits, copies and posts of all chunks, for the stream beside the GEMM's."""
    problem, width = view.problem, view.problem.n * ELEMENT
    steps: list[DeviceLaunch | EngineCopy] = []
    posts = posted_count = 0
    for to, row, rows in problem.chunks_sent(view.rank):
        first, count = row * problem.columns, rows * problem.columns
        steps.append(_between(view, posts, posted_count, awaited=(to, first, count)))
        height = min(rows * problem.tile_m, problem.m - row * problem.tile_m)
        before = row * problem.tile_m * width
        steps.append(EngineCopy(view.staging(to) + before, view.own("outbox") + before, height * width))
        posts, posted_count = view.arrived(to) + WORD * first, count
    return [*steps, _between(view, posts, posted_count)] if steps else []


def _between(
    view: RankView, posts: int, posted_count: int, awaited: tuple[int, int, int] = (0, 0, 0)
) -> DeviceLaunch:
    to, first, count = awaited
    record = np.zeros(1, records.BETWEEN_PARAMS)[0]
    record["peers"], record["sent"] = view.peer_params(), view.sent(to) + WORD * first
    record["posts"], record["posted_count"] = posts, posted_count
    record["awaited_count"], record["to"], record["first"] = count, to, first
    return view.launch(COPY, KernelLaunch("between_copies", 32, 0, 1), (record,), stream=BESIDE)
