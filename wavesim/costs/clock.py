"""The SM clock: the fewer SMs compute, the less power they draw, and the higher it is.

Example: in the last wave of a GEMM 12 of 132 SMs compute, at 1.74 GHz; in a full wave all do, at 1.68. A tile
takes as many cycles in either. Source: cycles and nanoseconds of blocks on an NVIDIA H200, runs of 0.8 ms;
in runs of 2 ms and more the clock hardly moves (docs/mechanisms.md).
"""

import numpy as np

from wavesim.costs.l2_misses import FloatArray
from wavesim.trace.trace import IntArray, Trace


def clock_factors(trace: Trace, clock_gain: float) -> FloatArray:
    """The clock that each block ran at, over that of a device with all SMs computing, (blocks,)."""
    if not clock_gain:
        return np.ones(len(trace))
    return np.asarray(1.0 + clock_gain * (1.0 - busy_share(trace)))


def busy_share(trace: Trace) -> FloatArray:
    """The mean share, 0 to 1, of the device's SMs that compute while each block does, (blocks,)."""
    begin, end = trace.start_ns + trace.wait_ns, trace.end_ns
    times, changes = _changes(np.concatenate([begin, end]), np.concatenate([trace.sm, trace.sm]))
    level = np.cumsum(changes) / trace.header.sm_count
    total = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(times))])
    span = np.interp(end, times, total) - np.interp(begin, times, total)
    return np.asarray(np.minimum(1.0, span / np.maximum(1, end - begin)))


def _changes(times: IntArray, sm: IntArray) -> tuple[IntArray, IntArray]:
    """(instants in order, by how much the number of computing SMs changes there), from begins, then ends."""
    step = np.repeat([1, -1], times.size // 2)
    by_sm = np.lexsort((-step, times, sm))
    blocks = np.cumsum(step[by_sm])  # on the SM of that row: those of the SMs before have ended
    is_busy = (blocks > 0).astype(np.int64)
    changes = np.diff(is_busy, prepend=0)
    order = np.argsort(times[by_sm], kind="stable")
    return times[by_sm][order], changes[order]
