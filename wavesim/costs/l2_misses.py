"""What the blocks of a trace read from DRAM: every operand slab that the L2 no longer holds.

Example: 132 tiles in step read the same 48 panels of B, slab of K after slab of K; the first to get to a
slab fetches it, the others find it. A block that is a third of a tile late comes when 36 MB of other slabs
have pushed it out, and fetches it again. Source: kernels on an NVIDIA H200 (docs/mechanisms.md).
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wavesim.errors import DescriptionError
from wavesim.model.kernel import Grid, Panels
from wavesim.model.pipeline import Pipeline
from wavesim.trace.trace import IntArray, Trace

SLAB_K = 512  # of K, that go in and out of the L2 together
ELEMENT_BYTES = 2
MOST_KEPT = 2**18  # parts of a pipeline's blocks, in memory from one run to the next

MOST_SLABS = 2**24  # that the blocks of a run read: 1.3 GB in arrays

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
    in_time = np.argsort(reads.at_ns, kind="stable")
    sizes = reads.size_bytes[in_time].tolist()
    for i, slab in enumerate(reads.slab[in_time].tolist()):
        if slab in held:
            use_again(slab)
            continue
        missed.append(i)
        held[slab] = sizes[i]
        free -= sizes[i]
        while free < 0:
            free += held.popitem(last=False)[1]
    return np.asarray(in_time[missed], np.int64)


def reads_of(trace: Trace, pipeline: Pipeline) -> Reads:
    """The operand slabs that GEMM blocks read, evenly over the time from their last wait to their end.

    All spinning counts as before the work. Stages that are no GEMM read nothing that is known here.
    """
    begin, end = _k_range(trace, pipeline)
    start, end_ns = working_span(trace)
    ns_per_k = (end_ns - start) / (end - begin)
    operands = _operands(trace, pipeline, begin, end)
    at_ns = [np.zeros(0)]
    for row, from_k in operands.places:
        at_ns += [(start[row] + from_k * ns_per_k[row]).ravel()] * 2
    return Reads(
        np.concatenate(at_ns), operands.depth, operands.row, operands.slab, operands.size_bytes, ns_per_k
    )


def working_span(trace: Trace) -> tuple[IntArray, IntArray]:
    """(begin, end) of each block's work: after its spinning."""
    return trace.start_ns + trace.wait_ns, trace.end_ns


def _slabs(panels: Panels) -> int:
    return -(-panels.k // SLAB_K)


@dataclass(frozen=True, eq=False)
class _Operands:
    """What the blocks of a trace read whenever they run: arrays (reads,), as in `Reads`.

    A stage's reads of A come before those of B, at the same times: `places` has for each stage, once for
    both, which row reads and where in its share of K, together (reads of A,) or (blocks, slabs).
    """

    depth: FloatArray
    row: IntArray
    slab: IntArray
    size_bytes: IntArray
    places: list[tuple[IntArray, FloatArray]]


_StageBlocks = tuple[Panels, Grid, tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def _operands(trace: Trace, pipeline: Pipeline, begin: FloatArray, end: FloatArray) -> _Operands:
    """Of blocks that compute from `begin` to `end` of K, (blocks,)."""
    stages: list[_StageBlocks] = []
    for index, stage in enumerate(pipeline.stages):
        if (panels := stage.work.panels) is not None:
            rows = np.flatnonzero(trace.stage == index)
            x, y = tuple(trace.x[rows].tolist()), tuple(trace.y[rows].tolist())
            stages.append((panels, stage.grid, tuple(rows.tolist()), x, y))
    is_whole = not begin.any() and bool((end == 1).all())
    slabs = sum(len(rows) * _slabs(panels) for panels, _, rows, _, _ in stages)
    if slabs > MOST_SLABS:
        raise DescriptionError(
            f"pipeline {pipeline.name}: its blocks read {slabs:,} slabs of {SLAB_K} of K; at most "
            f"{MOST_SLABS:,} are simulated. Use larger tiles or a smaller k"
        )
    if is_whole and slabs <= MOST_KEPT:
        return _whole_operands(tuple(stages))
    places = ((np.array(rows, dtype=np.int64), panels) for panels, _, rows, _, _ in stages)
    return _joined(stages, [_parts(begin[rows], end[rows], panels) for rows, panels in places])


@lru_cache(maxsize=4)
def _whole_operands(stages: tuple[_StageBlocks, ...]) -> _Operands:
    """Of blocks that compute all of K; kept, as every run and round of a pipeline needs them."""
    of_one = ((_parts(np.zeros(1), np.ones(1), panels), len(rows)) for panels, _, rows, _, _ in stages)
    return _joined(stages, [part.of_all(blocks) for part, blocks in of_one])


def _joined(stages: Sequence[_StageBlocks], parts: Sequence["_Parts"]) -> _Operands:
    """All stages' parts in a row. A's panels have numbers before B's, a stage's before the next one's."""
    empty = np.zeros(0, dtype=np.int64)
    columns: list[list[NDArray[Any]]] = [[empty.astype(float), empty, empty, empty]]
    places, first = [], 0
    for (panels, grid, rows, x, y), part in zip(stages, parts, strict=True):
        row = np.array(rows, dtype=np.int64)[part.block]
        for panel, size_bytes in zip((np.array(y), np.array(x) + grid.y), part.size_bytes, strict=True):
            slab = (first + panel * _slabs(panels))[part.block] + part.slab
            each = (part.depth, row, slab, size_bytes)
            columns.append([np.broadcast_to(entry, slab.shape).ravel() for entry in each])
        places.append((row, part.from_k))
        first += _slabs(panels) * (grid.x + grid.y)
    joined = [np.concatenate(column) for column in zip(*columns, strict=True)]
    return _Operands(joined[0], joined[1], joined[2], joined[3], places)


@dataclass(frozen=True, eq=False)
class _Parts:
    """What the blocks of a stage read whenever they run: a slab's part within a block's K.

    `slab` counts from K's beginning, `from_k` from where the block begins, as a share of K, as `depth` is;
    bytes of A and of B. Arrays (parts,); where all blocks read the same, `block` is (blocks, 1) and the
    others (slabs,).
    """

    block: IntArray
    slab: IntArray
    from_k: FloatArray
    depth: FloatArray
    size_bytes: tuple[IntArray, IntArray]

    def of_all(self, blocks: int) -> "_Parts":
        """Those of one block, for so many blocks."""
        return replace(self, block=np.arange(blocks)[:, None])


def _parts(begin: FloatArray, end: FloatArray, panels: Panels) -> _Parts:
    """Of blocks that compute from `begin` to `end` of K, (blocks,)."""
    count = _slabs(panels)
    slab = np.arange(count)
    inside = (slab + 1 > begin[:, None] * count) & (slab < end[:, None] * count)
    block, slabs = np.nonzero(inside)
    from_k = np.maximum(slabs / count, begin[block])
    depth = np.minimum((slabs + 1) / count, end[block]) - from_k
    a, b = (
        np.rint(width * depth * panels.k * ELEMENT_BYTES).astype(np.int64)
        for width in (panels.rows, panels.columns)
    )
    return _Parts(block, slabs, from_k - begin[block], depth, (a, b))


def _k_range(trace: Trace, pipeline: Pipeline) -> tuple[FloatArray, FloatArray]:
    """The part of K, 0 to 1, that each row computes: all of it, its slice, or its part under Stream-K."""
    if trace.k_first is not None and trace.k_upto is not None and trace.k_of is not None:
        return trace.k_first / trace.k_of, trace.k_upto / trace.k_of
    slices = np.array([stage.grid.z for stage in pipeline.stages])[trace.stage]
    return trace.z / slices, (trace.z + 1) / slices
