"""What takes tiles to other ranks where the GEMM does not: communication blocks, or the copy engine.

Example: an all-gather's blocks copy rank 0's rows to the other ranks, tile by tile in the order in which
these read them, or the copy engine does, a part of K at a time. Of an all-reduce by copies it takes two rows
of tiles at a time; one warp before and after each copy waits for the tiles and posts them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.driver.kernel_launch import DeviceLaunch, KernelLaunch
from wavesim_gpu.kernels.collective import SOURCES
from wavesim_gpu.peers import layout as records
from wavesim_gpu.peers.problem import UNIT
from wavesim_gpu.peers.rank_view import RankView
from wavesim_gpu.peers.regions import ELEMENT, WORD

SEND, COPY = (SOURCES / name for name in ("send.cu", "copy.cu"))
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
        for step in range(1, ranks)
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
    """Rows of `width` bytes that the copy engine takes to an address, on whatever GPU, in the order of a
    stream; `pitch` bytes lie from one row to the next, there as here.
    """

    target: int
    source: int
    width: int
    rows: int = 1
    pitch: int = 0

    def enqueue(self, streams: Any) -> None:
        """Launches it."""
        runtime, stream = require_cupy().cuda.runtime, streams[BESIDE].ptr
        if self.rows == 1 or self.width == self.pitch:  # one piece
            runtime.memcpyAsync(self.target, self.source, self.width * self.rows, ANY_DIRECTION, stream)
            return
        there, here = (self.target, self.pitch), (self.source, self.pitch)
        runtime.memcpy2DAsync(*there, *here, self.width, self.rows, ANY_DIRECTION, stream)


@dataclass(frozen=True)
class _Posts:
    """Words in another rank's memory: `count` of them, `width` in a row and then `step` further."""

    words: int = 0
    count: int = 0
    width: int = 1
    step: int = 0


@dataclass(frozen=True)
class _Chunk:
    """What goes to a rank at once, and what is posted there then; `awaited_count` own words from tile
    `first` on tell that it is made.
    """

    to: int
    copy: EngineCopy
    posts: _Posts
    first: int = 0
    awaited_count: int = 0


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
    steps: list[DeviceLaunch | EngineCopy] = []
    posts = _Posts()
    for chunk in _gathered_chunks(view) if view.problem.gathers else _chunks(view):
        steps += [_between(view, posts, chunk), chunk.copy]
        posts = chunk.posts
    return [*steps, _between(view, posts)] if steps else []


def _chunks(view: RankView) -> Iterator[_Chunk]:
    """Rows of tiles, which the GEMM leaves in the outbox."""
    problem, width = view.problem, view.problem.n * ELEMENT
    for to, row, rows in problem.chunks_sent(view.rank):
        first, count = row * problem.columns, rows * problem.columns
        height = min(rows * problem.tile_m, problem.m - row * problem.tile_m)
        before = row * problem.tile_m * width
        copy = EngineCopy(view.staging(to) + before, view.own("outbox") + before, height * width)
        posts = _Posts(view.arrived(to) + WORD * first, count, count)
        yield _Chunk(to, copy, posts, first, awaited_count=count)


def _gathered_chunks(view: RankView) -> Iterator[_Chunk]:
    """Parts of K of this rank's rows, which are there."""
    problem, gathered = view.problem, view.problem.gathered
    rows, share, pitch = problem.m // problem.ranks, problem.rows // problem.ranks, problem.k * ELEMENT
    first = view.rank * share * gathered.grid.x  # of its tiles
    for to, column, columns in problem.parts_sent(view.rank, view.options.copies):
        begin = column * gathered.tile_n * ELEMENT
        width = min(columns * gathered.tile_n * ELEMENT, pitch - begin)
        there = view.memory.address(view.rank, to, "a") + view.rank * rows * pitch
        copy = EngineCopy(there + begin, view.operands.a + begin, width, rows, pitch)
        words = view.memory.address(view.rank, to, "arrived") + WORD * (first + column)
        yield _Chunk(to, copy, _Posts(words, share * columns, columns, gathered.grid.x))


def _between(view: RankView, posts: _Posts, chunk: _Chunk | None = None) -> DeviceLaunch:
    record = np.zeros(1, records.BETWEEN_PARAMS)[0]
    record["peers"], record["to"] = view.peer_params(), -1
    record["posts"], record["posted_count"] = posts.words, posts.count
    record["posted_width"], record["posted_step"] = posts.width, posts.step
    if chunk is not None:
        record["sent"] = view.sent(chunk.to) + WORD * chunk.first if chunk.awaited_count else 0
        record["awaited_count"], record["to"], record["first"] = chunk.awaited_count, chunk.to, chunk.first
    return view.launch(COPY, KernelLaunch("between_copies", 32, 0, 1), (record,), stream=BESIDE)
