"""What the blocks of a trace read from DRAM: every operand slab that the L2 no longer holds.

Example: 132 tiles in step read the same 48 panels of B, slab of K after slab of K; the first to get to a
slab fetches it, the others find it. A block that is a third of a tile late comes when 36 MB of other slabs
have pushed it out, and fetches it again. Source: kernels on an NVIDIA H200 (docs/the-model.md).
"""

from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wavesim.model.kernel import Gemm
from wavesim.model.pipeline import Pipeline
from wavesim.trace.trace import IntArray, Trace

SLAB_K = 512  # of K, that go in and out of the L2 together
ELEMENT_BYTES = 2
MOST_KEPT = 2**17  # parts of a stage, in memory from one run to the next

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Reads:
    """Slabs as they are read, arrays (reads,) in no order: from when, by which row, what, bytes.

    Where a block's share of K ends within a slab, it reads part of it: `depth`, of all of K. `ns_per_k` is
    how long each row of the trace takes for all of K, (rows,).
    """

    at_ns: FloatArray
    depth: FloatArray
    row: IntArray
    slab: IntArray
    size_bytes: IntArray
    ns_per_k: FloatArray

    @property
    def span_ns(self) -> FloatArray:
        """How long each takes, (reads,)."""
        return self.depth * self.ns_per_k[self.row]

    def chosen(self, places: IntArray) -> "Reads":
        """Those at some places alone."""
        at_ns, depth, row = self.at_ns[places], self.depth[places], self.row[places]
        return Reads(at_ns, depth, row, self.slab[places], self.size_bytes[places], self.ns_per_k)


def missed_reads(reads: Reads, l2_bytes: int) -> IntArray:
    """Which reads come from DRAM, (misses,) in the order of time: the slab used longest ago goes first."""
    held: OrderedDict[int, int] = OrderedDict()
    use_again, free = held.move_to_end, l2_bytes
    missed = []
    slabs, sizes = reads.slab.tolist(), reads.size_bytes.tolist()
    for i in np.argsort(reads.at_ns, kind="stable").tolist():
        slab = slabs[i]
        if slab in held:
            use_again(slab)
            continue
        missed.append(i)
        held[slab] = sizes[i]
        free -= sizes[i]
        while free < 0:
            free += held.popitem(last=False)[1]
    return np.array(missed, dtype=np.int64)


def reads_of(trace: Trace, pipeline: Pipeline) -> Reads:
    """The operand slabs that GEMM blocks read, evenly over the time from their last wait to their end.

    All spinning counts as before the work. Stages that are no GEMM read nothing that is known here.
    """
    begin, end = _k_range(trace, pipeline)
    start, end_ns = working_span(trace)
    ns_per_k = (end_ns - start) / (end - begin)
    columns, first = list[list[NDArray[Any]]](), 0
    for index, stage in enumerate(pipeline.stages):
        if isinstance(stage.work, Gemm):
            rows = np.flatnonzero(trace.stage == index)
            parts, slabs = _known_parts(trace, rows, (begin[rows], end[rows]), stage.work, first)
            row = rows[parts.block]
            at_ns = start[row] + parts.from_k * ns_per_k[row]
            for slab, size_bytes in zip(slabs, parts.size_bytes, strict=True):
                columns.append([at_ns, parts.depth, row, slab, size_bytes])
            first += _slabs(stage.work) * (stage.grid.x + stage.grid.y)
    if not columns:
        empty = np.zeros(0, dtype=np.int64)
        return Reads(empty.astype(float), empty.astype(float), empty, empty, empty, ns_per_k)
    joined = [np.concatenate(column) for column in zip(*columns, strict=True)]
    return Reads(joined[0], joined[1], joined[2], joined[3], joined[4], ns_per_k)


def working_span(trace: Trace) -> tuple[IntArray, IntArray]:
    """(begin, end) of each block's work: after its spinning."""
    return trace.start_ns + trace.wait_ns, trace.end_ns


def _slabs(gemm: Gemm) -> int:
    return -(-gemm.k // SLAB_K)


@dataclass(frozen=True, eq=False)
class _Parts:
    """What the blocks of a stage read whenever they run, arrays (parts,): a slab's part within a block's K.

    `slab` counts from K's beginning, `from_k` from where the block begins, as a share of K, as `depth` is;
    bytes of A and of B.
    """

    block: IntArray
    slab: IntArray
    from_k: FloatArray
    depth: FloatArray
    size_bytes: tuple[IntArray, IntArray]

    def times(self, blocks: int) -> "_Parts":
        """Those of one block, for so many blocks."""

        def all_blocks(one: NDArray[Any]) -> NDArray[Any]:
            return np.concatenate([one] * blocks)

        a, b = self.size_bytes
        block = np.repeat(np.arange(blocks), self.block.size)
        same = all_blocks(self.slab), all_blocks(self.from_k), all_blocks(self.depth)
        return _Parts(block, *same, (all_blocks(a), all_blocks(b)))


_Slabs = tuple[IntArray, IntArray]  # of A and of B: each part's slab among those of all stages


def _known_parts(
    trace: Trace, rows: IntArray, k_range: tuple[FloatArray, FloatArray], gemm: Gemm, first: int
) -> tuple[_Parts, _Slabs]:
    """Of a stage's rows; slabs are numbered from `first`."""
    (begin, end), x, y = k_range, trace.x[rows], trace.y[rows]
    if rows.size * _slabs(gemm) <= MOST_KEPT and not begin.any() and (end == 1).all():
        return _whole_parts(gemm, first, tuple(x.tolist()), tuple(y.tolist()))
    parts = _parts(begin, end, gemm)
    return parts, _numbered(parts, gemm, first, x, y)


@lru_cache(maxsize=6)
def _whole_parts(gemm: Gemm, first: int, x: tuple[int, ...], y: tuple[int, ...]) -> tuple[_Parts, _Slabs]:
    """Of blocks that compute all of K; kept, as every run and round of a pipeline needs them."""
    parts = _parts(np.zeros(1), np.ones(1), gemm).times(len(x))
    return parts, _numbered(parts, gemm, first, np.array(x), np.array(y))


def _parts(begin: FloatArray, end: FloatArray, gemm: Gemm) -> _Parts:
    """Of blocks that compute from `begin` to `end` of K, (blocks,)."""
    count = _slabs(gemm)
    slab = np.arange(count)
    inside = (slab + 1 > begin[:, None] * count) & (slab < end[:, None] * count)
    block, slabs = np.nonzero(inside)
    from_k = np.maximum(slabs / count, begin[block])
    depth = np.minimum((slabs + 1) / count, end[block]) - from_k
    a, b = (
        np.rint(width * depth * gemm.k * ELEMENT_BYTES).astype(np.int64)
        for width in (gemm.tile_m, gemm.tile_n)
    )
    return _Parts(block, slabs, from_k - begin[block], depth, (a, b))


def _numbered(parts: _Parts, gemm: Gemm, first: int, x: IntArray, y: IntArray) -> _Slabs:
    """Slabs of blocks that compute the tiles (x, y): A's panels are numbered before B's."""
    a, b = ((first + panel * _slabs(gemm))[parts.block] + parts.slab for panel in (y, x + gemm.grid.y))
    return a, b


def _k_range(trace: Trace, pipeline: Pipeline) -> tuple[FloatArray, FloatArray]:
    """The part of K, 0 to 1, that each row computes: all of it, its slice, or its part under Stream-K."""
    if trace.k_first is not None and trace.k_upto is not None and trace.k_of is not None:
        return trace.k_first / trace.k_of, trace.k_upto / trace.k_of
    slices = np.array([stage.grid.z for stage in pipeline.stages])[trace.stage]
    return trace.z / slices, (trace.z + 1) / slices
