"""What summing up split-K slices costs, found in a stream-sync trace.

Example: the two slices of a tile start together. One ends after 78 us, having stored its sums, the other
after 84: it has waited for them and added them to its own, which took 6 us. Under another plan it may be the
other way round, so both are taken to have worked for 76 us, and the sums are simulated.
"""

import numpy as np
from numpy.typing import NDArray

from wavesim.trace.trace import IntArray, Trace

FloatArray = NDArray[np.float64]


def without_sums(trace: Trace, work_ns: FloatArray, partial_ns: int) -> tuple[FloatArray, dict[str, int]]:
    """(the blocks' work without storing and adding sums, nanoseconds for adding one slice by stage).

    What storing costs, `partial_ns`, a trace does not tell; that it is the same for all is what counts.

    The last slice of a tile ends when it has added the others': after its own work or after the last of
    these was stored, whichever is later. It is taken to have worked as long as they did, on average.
    """
    found, sums_ns = work_ns.copy(), {}
    for index, info in enumerate(trace.header.stages):
        if info.grid[2] > 1:
            slices = _slices(trace, index)
            others, last = slices[:, :-1], slices[:, -1]
            alone = work_ns[others].mean(axis=1) - partial_ns
            since_stored = trace.end_ns[last] - trace.end_ns[others].max(axis=1)
            adding = np.minimum(work_ns[last] - alone, since_stored)
            sums_ns[info.name] = max(0, round(float(np.median(adding)) / others.shape[1]))
            found[others] -= partial_ns
            found[last] = alone
    return np.maximum(1.0, found), sums_ns


def _slices(trace: Trace, stage: int) -> IntArray:
    """Rows of the trace, (tiles, slices): those of a tile in the order of their ends."""
    columns, _, count = trace.header.stages[stage].grid
    rows = np.flatnonzero(trace.stage == stage)
    tile = trace.y[rows] * columns + trace.x[rows]
    return np.asarray(rows[np.lexsort((trace.end_ns[rows], tile))].reshape(-1, count))
