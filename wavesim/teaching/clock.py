"""Was your gain a clock? The same gain in time and in SM cycles, from recordings that hold both.

Example: row semaphores at 768 tokens in groups of 8 rows lose 2.3 points of makespan and 4.6 of cycles: the
clock ran 2 % faster than under stream sync and hid half of the loss.
"""

from dataclasses import dataclass

from wavesim.errors import RecordingError
from wavesim.predict.prediction import improvement_points
from wavesim.safe_io.annotated import typed
from wavesim.trace.trace import Trace


@dataclass(frozen=True)
class GainByClock:
    """A measured gain in points: of the recorded run's makespan, of its SM cycles; and both SM clocks."""

    time_points: float
    cycle_points: float
    stream_ghz: float
    plan_ghz: float

    @property
    def clock_points(self) -> float:
        """The part of the gain that comes from the clock: positive where the plan's run had a higher
        clock.
        """
        return self.time_points - self.cycle_points

    def __repr__(self) -> str:
        return (
            f"{self.time_points:+.1f} points of makespan = {self.cycle_points:+.1f} of cycles and "
            f"{self.clock_points:+.1f} of clock "
            f"({self.stream_ghz:.3f} GHz under stream sync, {self.plan_ghz:.3f} here)"
        )


@typed
def mean_ghz(trace: Trace) -> float:
    """SM cycles over nanoseconds of all blocks. Raises `RecordingError` without cycles."""
    if trace.cycles is None:
        raise RecordingError(f"{trace!r} holds no cycles; only measured traces do")
    return float(trace.cycles.sum() / (trace.end_ns - trace.start_ns).sum())


@typed
def gain_by_clock(trace: Trace, stream: Trace) -> GainByClock:
    """The recorded runs' gain over stream sync, makespan and cycles. Raises `RecordingError` without cycles.

    A run's cycles are its makespan times the mean clock of its blocks.
    """
    ours, theirs = mean_ghz(trace), mean_ghz(stream)
    return GainByClock(
        time_points=improvement_points(trace.makespan_ns, stream.makespan_ns),
        cycle_points=improvement_points(trace.makespan_ns * ours, stream.makespan_ns * theirs),
        stream_ghz=theirs,
        plan_ghz=ours,
    )
