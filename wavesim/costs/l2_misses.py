"""What the blocks of a trace read from DRAM: every operand slab that the L2 no longer holds.

Example: 132 tiles in step read the same 48 panels of B, slab of K after slab of K; the first to get to a
slab fetches it, the others find it. A block that is a third of a tile late comes when 36 MB of other slabs
have pushed it out, and fetches it again. Source: kernels on an NVIDIA H200 (docs/the-model.md).
"""

from collections import OrderedDict
from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from wavesim.model.kernel import Gemm
from wavesim.model.pipeline import Pipeline
from wavesim.trace.trace import IntArray, Trace

SLAB_K = 512  # of K, that go in and out of the L2 together
ELEMENT_BYTES = 2
MOST_KEPT = 2**18  # parts of a stage, in memory from one run to the next

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Reads:
    """Slabs as they are read, arrays (reads,) in no order: from when, how long, by which row, what, bytes.

    Where a block's share of K ends within a slab, it reads part of it.
    """

    at_ns: FloatArray
    span_ns: FloatArray
    row: IntArray
    slab: IntArray
    size_bytes: IntArray


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
    found, first = [], 0
    for index, stage in enumerate(pipeline.stages):
        if isinstance(stage.work, Gemm):
            found += _of_stage(trace, np.flatnonzero(trace.stage == index), stage.work, first)
            first += _slabs(stage.work) * (stage.grid.x + stage.grid.y)
    if not found:
        empty = np.zeros(0, dtype=np.int64)
        return Reads(empty.astype(float), empty.astype(float), empty, empty, empty)
    names = [column.name for column in fields(Reads)]
    return Reads(*(np.concatenate([getattr(reads, name) for reads in found]) for name in names))


def working_span(trace: Trace) -> tuple[IntArray, IntArray]:
    """(begin, end) of each block's work: after its spinning."""
    return trace.start_ns + trace.wait_ns, trace.end_ns


def _slabs(gemm: Gemm) -> int:
    return -(-gemm.k // SLAB_K)


def _of_stage(trace: Trace, rows: IntArray, gemm: Gemm, first: int) -> list[Reads]:
    """Reads of A and of B; slabs are numbered from `first`, A's panels before B's."""
    begin, end = _k_range(trace, rows, gemm.split_k)
    is_kept = rows.size * _slabs(gemm) <= MOST_KEPT and not begin.any() and (end == 1).all()
    parts = _whole_parts(rows.size, gemm) if is_kept else _parts(begin, end, gemm)
    start, end_ns = (times[rows] for times in working_span(trace))
    ns_per_k = ((end_ns - start) / (end - begin))[parts.block]
    at_ns = start[parts.block] + parts.from_k * ns_per_k
    span_ns, row = parts.depth * ns_per_k, rows[parts.block]
    panels = (trace.y[rows], trace.x[rows] + gemm.grid.y)
    return [
        Reads(at_ns, span_ns, row, (first + panel * _slabs(gemm))[parts.block] + parts.slab, size_bytes)
        for panel, size_bytes in zip(panels, parts.size_bytes, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class _Parts:
    """What the blocks of a stage read whenever they run, arrays (parts,): a slab's part within a block's K.

    `from_k` counts from where the block begins, as a share of K, as `depth` does; bytes of A and of B.
    """

    block: IntArray
    slab: IntArray
    from_k: FloatArray
    depth: FloatArray
    size_bytes: tuple[IntArray, IntArray]


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


@lru_cache(maxsize=4)
def _whole_parts(blocks: int, gemm: Gemm) -> _Parts:
    """Of blocks that compute all of K; kept, as every run and round of a pipeline needs them."""
    return _parts(np.zeros(blocks), np.ones(blocks), gemm)


def _k_range(trace: Trace, rows: IntArray, split_k: int) -> tuple[FloatArray, FloatArray]:
    """The part of K, 0 to 1, that each block computes: all of it, its slice, or its part under Stream-K."""
    if trace.k_first is not None and trace.k_upto is not None and trace.k_of is not None:
        return trace.k_first[rows] / trace.k_of[rows], trace.k_upto[rows] / trace.k_of[rows]
    return trace.z[rows] / split_k, (trace.z[rows] + 1) / split_k
