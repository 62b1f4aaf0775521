"""The difference between two traces of the same plan, explained.

Picture: predicted 505 us, measured 523 us. The SMs' time says where the 18 us went: 2 in launch
gaps, 4 in emptier waves, 3 in waiting, 9 because tiles took longer. The four add up, always:
makespan = busy + waiting + tail loss + launch gaps, as means over the SMs, in either trace.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wavesim.analysis.metrics import metrics_of, work_ns
from wavesim.errors import RecordingError
from wavesim.trace import Trace

IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Difference:
    """Measured minus predicted, in nanoseconds; the four reasons add up to `total_ns`.

    `launch_ns`: launch gaps and block starts. `waves_ns`: SM slots with no block (waves and
    placement). `waiting_ns`: spinning on semaphores. `slower_tiles_ns`: time computing. The arrays
    (blocks,) hold the same for each block's end, start and work, in the predicted trace's row order.
    """

    total_ns: int
    launch_ns: float
    waves_ns: float
    waiting_ns: float
    slower_tiles_ns: float
    tile_end_ns: IntArray
    tile_start_ns: IntArray
    tile_work_ns: IntArray

    @property
    def reasons(self) -> dict[str, float]:
        """The four reasons in words, in nanoseconds."""
        return {
            "launch": self.launch_ns,
            "waves": self.waves_ns,
            "waiting": self.waiting_ns,
            "slower tiles": self.slower_tiles_ns,
        }


def explain_difference(predicted: Trace, measured: Trace) -> Difference:
    """Explains why two traces of the same grids differ. Raises `RecordingError` if the grids differ."""
    rows = _matching_rows(predicted, measured)
    before, after = metrics_of(predicted), metrics_of(measured)
    return Difference(
        total_ns=after.makespan_ns - before.makespan_ns,
        launch_ns=after.launch_gap_ns + after.starting_ns - before.launch_gap_ns - before.starting_ns,
        waves_ns=after.tail_loss_ns - before.tail_loss_ns,
        waiting_ns=after.waiting_ns - before.waiting_ns,
        slower_tiles_ns=after.busy_ns - before.busy_ns,
        tile_end_ns=measured.end_ns[rows] - predicted.end_ns,
        tile_start_ns=measured.start_ns[rows] - predicted.start_ns,
        tile_work_ns=work_ns(measured)[rows] - work_ns(predicted),
    )


def _matching_rows(predicted: Trace, measured: Trace) -> IntArray:
    """For each predicted block, the row of the same block in the measured trace."""
    for ours, theirs in zip(predicted.header.stages, measured.header.stages, strict=False):
        if ours.grid != theirs.grid:
            raise RecordingError(
                f"stage {ours.name}: grid {ours.grid} predicted, {theirs.grid} measured; compare equal grids"
            )
    keys = [_keys(trace) for trace in (predicted, measured)]
    orders = [np.argsort(key, kind="stable") for key in keys]
    if len(predicted) != len(measured) or (keys[0][orders[0]] != keys[1][orders[1]]).any():
        raise RecordingError(
            f"{len(predicted)} blocks predicted, {len(measured)} measured: not the same blocks"
        )
    rows = np.empty(len(predicted), dtype=np.int64)
    rows[orders[0]] = orders[1]
    return rows


def _keys(trace: Trace) -> IntArray:
    """One number per block from stage, z, y and x."""
    key = trace.stage
    for column in (trace.z, trace.y, trace.x):
        key = key * 65_536 + column
    return key
