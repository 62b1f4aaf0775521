"""What the blocks of a trace read from DRAM: every operand slab that the L2 no longer holds.

Example: 132 tiles in step read the same 48 panels of B, slab of K after slab of K; the first to get to a
slab fetches it, the others find it. A block that is a third of a tile late comes when 36 MB of other slabs
have pushed it out, and fetches it again. Source: kernels on an NVIDIA H200 (docs/the-model.md).
"""

from collections import OrderedDict
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from wavesim.model.kernel import Gemm
from wavesim.model.pipeline import Pipeline
from wavesim.trace.trace import IntArray, Trace

SLAB_K = 512  # of K, that go in and out of the L2 together
ELEMENT_BYTES = 2

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Reads:
    """Slabs as they are read, arrays (reads,): from when, for how long, by which row, what, bytes.

    Where a block's share of K ends within a slab, it reads part of it.
    """

    at_ns: FloatArray
    span_ns: FloatArray
    row: IntArray
    slab: IntArray
    size_bytes: IntArray

    def sorted(self) -> "Reads":
        """The same in the order of time."""
        order = np.argsort(self.at_ns, kind="stable")
        at_ns, span_ns = self.at_ns[order], self.span_ns[order]
        return Reads(at_ns, span_ns, self.row[order], self.slab[order], self.size_bytes[order])


def dram_bytes(reads: Reads, l2_bytes: int) -> IntArray:
    """Of reads in the order of time the bytes that come from DRAM, (reads,): least recently used go first."""
    held: OrderedDict[int, int] = OrderedDict()
    use_again, free = held.move_to_end, l2_bytes
    missed = []
    sizes = reads.size_bytes.tolist()
    for i, slab in enumerate(reads.slab.tolist()):
        if slab in held:
            use_again(slab)
            continue
        missed.append(i)
        held[slab] = sizes[i]
        free -= sizes[i]
        while free < 0:
            free += held.popitem(last=False)[1]
    found = np.zeros(len(sizes), dtype=np.int64)
    found[missed] = reads.size_bytes[missed]
    return found


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
    return Reads(*(np.concatenate([getattr(reads, name) for reads in found]) for name in names)).sorted()


def working_span(trace: Trace) -> tuple[IntArray, IntArray]:
    """(begin, end) of each block's work: after its spinning."""
    return trace.start_ns + trace.wait_ns, trace.end_ns


def _slabs(gemm: Gemm) -> int:
    return -(-gemm.k // SLAB_K)


def _of_stage(trace: Trace, rows: IntArray, gemm: Gemm, first: int) -> list[Reads]:
    """Reads of A and of B; slabs are numbered from `first`, A's panels before B's."""
    count = _slabs(gemm)
    begin, end = _k_range(trace, rows, gemm.split_k)
    slab = np.arange(count)
    inside = (slab + 1 > begin[:, None] * count) & (slab < end[:, None] * count)
    which, slabs = np.nonzero(inside)
    from_k = np.maximum(slabs / count, begin[which])
    depth = np.minimum((slabs + 1) / count, end[which]) - from_k
    start, end_ns = (times[rows] for times in working_span(trace))
    ns_per_k = ((end_ns - start) / (end - begin))[which]
    at_ns = start[which] + (from_k - begin[which]) * ns_per_k
    panels = ((trace.y[rows], gemm.tile_m, 0), (trace.x[rows], gemm.tile_n, gemm.grid.y))
    return [
        Reads(
            at_ns,
            depth * ns_per_k,
            rows[which],
            first + (before + panel[which]) * count + slabs,
            np.rint(width * depth * gemm.k * ELEMENT_BYTES).astype(np.int64),
        )
        for panel, width, before in panels
    ]


def _k_range(trace: Trace, rows: IntArray, split_k: int) -> tuple[FloatArray, FloatArray]:
    """The part of K, 0 to 1, that each block computes: all of it, its slice, or its part under Stream-K."""
    if trace.k_first is not None and trace.k_upto is not None and trace.k_of is not None:
        return trace.k_first[rows] / trace.k_of[rows], trace.k_upto[rows] / trace.k_of[rows]
    return trace.z[rows] / split_k, (trace.z[rows] + 1) / split_k
