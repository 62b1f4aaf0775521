"""A trace laid out in rows: one row per SM slot, and on it what worked, waited or idled when.

Example: on the 4-SM toy under stream sync, row 2 holds P2, an idle segment, C2 and another idle one.
Only arithmetic here; bars and rasters are drawn from the same segments.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wavesim.trace.trace import IntArray, Trace


@dataclass(frozen=True)
class Segments:
    """Stretches of time on rows; `block` is the trace row they belong to, -1 for idle. Arrays (n,)."""

    row: IntArray
    start_ns: IntArray
    end_ns: IntArray
    block: IntArray

    def __len__(self) -> int:
        return int(self.row.size)

    def longer_than(self, shortest_ns: float) -> "Segments":
        """Those that last at least so long."""
        return self.where(self.end_ns - self.start_ns >= max(1.0, shortest_ns))

    def spread(self, span: IntArray) -> "Segments":
        """Each segment on as many rows as its block covers; `span` (blocks,)."""
        times = span[self.block]
        first = np.repeat(np.cumsum(times) - times, times)
        below = np.arange(int(times.sum())) - first
        every = np.repeat(np.arange(len(self)), times)
        return Segments(self.row[every] + below, self.start_ns[every], self.end_ns[every], self.block[every])

    def where(self, mask: NDArray[np.bool_]) -> "Segments":
        """Those that a mask picks."""
        return Segments(self.row[mask], self.start_ns[mask], self.end_ns[mask], self.block[mask])


@dataclass(frozen=True)
class SmRows:
    """The layout: `slots` rows per SM, SM 0 first. Times count from the first issue.

    `work` has one segment per block, from the end of its leading wait to its end; `waiting` holds
    leading waits and those inside; `idle` what no block occupied until the trace's last end. `span` is how
    many rows each block covers, from its row on: a kernel of two blocks per SM fills an SM of 16 slots too.
    """

    sm_count: int
    slots: int
    makespan_ns: int
    work: Segments
    waiting: Segments
    idle: Segments
    span: IntArray

    @property
    def count(self) -> int:
        """Rows in all."""
        return self.sm_count * self.slots


def lay_out(trace: Trace) -> SmRows:
    """Rows and segments of a trace."""
    slots = int(trace.slot.max()) + 1 if len(trace) else 1
    origin = int(trace.issue_ns.min()) if len(trace) else 0
    span = _spans(trace, slots)
    row = trace.sm * slots + np.minimum(trace.slot * span, slots - span)
    waiting = _waiting(trace, row, origin)
    work_start = trace.start_ns - origin
    leads = waiting.start_ns <= work_start[waiting.block]
    np.maximum.at(work_start, waiting.block[leads], waiting.end_ns[leads])
    blocks, end = np.arange(len(trace)), trace.end_ns - origin
    work = Segments(row, work_start, end, blocks)
    count = trace.header.sm_count
    idle = _idle(Segments(row, trace.issue_ns - origin, end, blocks).spread(span), count * slots)
    return SmRows(count, slots, trace.makespan_ns, work, waiting, idle, span)


def _spans(trace: Trace, slots: int) -> IntArray:
    """How many of an SM's rows a block of each stage stands for."""
    per_sm = np.array([max(1, info.blocks_per_sm) for info in trace.header.stages])
    spans: IntArray = np.maximum(1, slots // per_sm)[trace.stage]
    return spans


def _waiting(trace: Trace, row: IntArray, origin: int) -> Segments:
    """Single waits where they were recorded, else each block's whole wait at its start."""
    if trace.waits is not None and trace.waits.block.size:
        waits = trace.waits
        found = Segments(row[waits.block], waits.start_ns - origin, waits.end_ns - origin, waits.block)
        return found.longer_than(1)
    block = np.flatnonzero(trace.wait_ns > 0)
    start = trace.start_ns[block] - origin
    return Segments(row[block], start, start + trace.wait_ns[block], block)


def _idle(held: Segments, count: int) -> Segments:
    """Gaps between the blocks that hold a row, from time 0 to the last end."""
    last = int(held.end_ns.max()) if len(held) else 0
    every = np.arange(count)
    rows = np.concatenate([held.row, every])
    begins = np.concatenate([held.start_ns, np.full(count, last)])
    ends = np.concatenate([held.end_ns, np.full(count, last)])
    order = np.lexsort((begins, rows))
    rows, begins, ends = rows[order], begins[order], ends[order]
    is_first = np.concatenate([[True], rows[1:] != rows[:-1]])
    # A block of several rows and one of a single row may overlap: what counts is the last end so far.
    reached = np.maximum.accumulate(ends + rows * (last + 1)) - rows * (last + 1)
    before = np.where(is_first, 0, np.concatenate([[0], reached[:-1]]))
    gaps = Segments(rows, before, begins, np.full(rows.size, -1))
    return gaps.longer_than(1)
