"""The difference between two traces of the same plan, explained.

Example: predicted 505 us, measured 523 us. The SMs' time says where the 18 us went: 2 in launch
gaps, 4 in emptier waves, 3 in waiting, 9 because tiles took longer. The four add up, always:
makespan = busy + waiting + tail loss + launch gaps, as means over the SMs, in either trace.

Where the measured trace has cycles, the 9 are split once more: 1 because more blocks shared an SM, 6 because
the clock was lower than in the run that the prediction was calibrated on, 2 because tiles took more cycles,
as they do when more of their reads miss the L2.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wavesim.errors import RecordingError
from wavesim.trace.metrics import metrics_of, sm_share, work_ns
from wavesim.trace.regimes import Regimes
from wavesim.trace.trace import Trace

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class SlowerTiles:
    """Why tiles took longer, in nanoseconds as means over the SMs; the three add up.

    `sharing_ns`: more or other blocks on the same SM. `clock_ns`: a lower clock than in the calibration run.
    `cycles_ns`: more cycles of their own (L2, DRAM).
    """

    sharing_ns: float
    clock_ns: float
    cycles_ns: float


@dataclass(frozen=True, eq=False)
class Difference:
    """Measured minus predicted, in nanoseconds; the four reasons add up to `total_ns`.

    `launch_ns`: launch gaps and block starts. `waves_ns`: SM slots with no block (waves and
    placement). `waiting_ns`: spinning on semaphores. `slower_tiles_ns`: time computing, and `slower_tiles`
    the reasons for it, None without cycles. The arrays (blocks,) hold the same for each block's end, start
    and work, in the predicted trace's row order.
    """

    total_ns: int
    launch_ns: float
    waves_ns: float
    waiting_ns: float
    slower_tiles_ns: float
    tile_end_ns: IntArray
    tile_start_ns: IntArray
    tile_work_ns: IntArray
    slower_tiles: SlowerTiles | None = None

    @property
    def reasons(self) -> dict[str, float]:
        """The four reasons in words, in nanoseconds."""
        return {
            "launch": self.launch_ns,
            "waves": self.waves_ns,
            "waiting": self.waiting_ns,
            "tile times": self.slower_tiles_ns,
        }

    @property
    def finest_reasons(self) -> dict[str, float]:
        """The same with tile times split where that is known; they add up as well."""
        if self.slower_tiles is None:
            return self.reasons
        parts = self.slower_tiles
        split = {"shared SM": parts.sharing_ns, "clock": parts.clock_ns, "tile cycles": parts.cycles_ns}
        return {name: value for name, value in self.reasons.items() if name != "tile times"} | split


def explain_difference(predicted: Trace, measured: Trace, calibration: Trace | None = None) -> Difference:
    """Explains why two traces of the same grids differ. Raises `RecordingError` if the grids differ.

    `calibration` is the measured trace that the prediction was made from; with it, and with cycles in both
    measured traces, the reasons for slower tiles are told apart.
    """
    rows = _matching_rows(predicted, measured)
    before, after = metrics_of(predicted), metrics_of(measured)
    slower_ns = after.busy_ns - before.busy_ns
    return Difference(
        total_ns=after.makespan_ns - before.makespan_ns,
        launch_ns=after.launch_gap_ns + after.starting_ns - before.launch_gap_ns - before.starting_ns,
        waves_ns=after.tail_loss_ns - before.tail_loss_ns,
        waiting_ns=after.waiting_ns - before.waiting_ns,
        slower_tiles_ns=slower_ns,
        tile_end_ns=measured.end_ns[rows] - predicted.end_ns,
        tile_start_ns=measured.start_ns[rows] - predicted.start_ns,
        tile_work_ns=work_ns(measured)[rows] - work_ns(predicted),
        slower_tiles=_slower_tiles(predicted, measured, calibration, slower_ns),
    )


def _slower_tiles(
    predicted: Trace, measured: Trace, calibration: Trace | None, slower_ns: float
) -> SlowerTiles | None:
    if calibration is None or measured.cycles is None or calibration.cycles is None:
        return None
    sharing_ns = _lost_to_sharing_ns(measured, predicted) - _lost_to_sharing_ns(predicted, predicted)
    clock_ns = metrics_of(measured).busy_ns * (1.0 - _clock(measured) / _predicted_clock(calibration))
    return SlowerTiles(sharing_ns, clock_ns, slower_ns - sharing_ns - clock_ns)


def _lost_to_sharing_ns(trace: Trace, predicted: Trace) -> float:
    """Busy time beyond what blocks alone would have needed, by the prediction's speeds, as a mean over SMs.

    Spinning blocks are counted as sharing, although they take no throughput: not every trace records when
    they spin.
    """
    sharing = tuple(predicted.header.costs.get("sharing", (1.0,)))
    if len(sharing) == 1:
        return 0.0
    oldest_first_bias = tuple(predicted.header.costs.get("oldest_first_bias", (0.0,)))
    regimes = Regimes.of(trace, len(sharing))
    total: FloatArray = regimes.together.sum(axis=1)
    lost = total - regimes.work(sharing, oldest_first_bias)
    return float((lost * sm_share(trace)).sum()) / trace.header.sm_count


def _clock(trace: Trace) -> float:
    """Mean SM cycles per nanosecond of a trace's blocks."""
    assert trace.cycles is not None
    return float(trace.cycles.sum() / (trace.end_ns - trace.start_ns).sum())


def _predicted_clock(calibration: Trace) -> float:
    """The clock that a calibrated prediction runs at: that of the timed rounds, not of the recorded pass."""
    rounds = calibration.time_ns / calibration.makespan_ns if calibration.header.rounds_ns else 1.0
    return _clock(calibration) / rounds


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
