"""Notebook 11: what the clock made of a gain, what a difference is made of, and how far off predictions were.

Example: row semaphores at 768 tokens in groups of 8 rows lose 2.3 points of makespan and 4.6 of cycles: the
clock ran 2 % faster than under stream sync and hid half of the loss.
"""

from dataclasses import dataclass
from typing import Any

from wavesim.comparison import compare
from wavesim.errors import RecordingError
from wavesim.model import device as devices
from wavesim.plan.plan import SemaphoreSync, StreamSync
from wavesim.plan.policy import RowSync
from wavesim.predict.prediction import improvement_points
from wavesim.predict.score_history import committed_scores
from wavesim.recordings.shipped import find_case
from wavesim.safe_io.annotated import typed
from wavesim.teaching.exercises import require, word
from wavesim.teaching.shown import Shown
from wavesim.trace.difference import Difference, explain_difference
from wavesim.trace.trace import Trace
from wavesim.workloads.mlps import gpt3_mlp

# The sets that differ in what a reader can name, of some forty that `wavesim validate` prints.
SETS = {
    "own-1-block": "portable GEMM, one block per SM",
    "own-2-blocks": "portable GEMM, two blocks per SM",
    "own-kernel-times": "portable GEMM, from two kernel times alone",
    "judged-all": "blind run: both GEMMs, all plans with semaphores",
    "hopper-1-block": "of the same run: Hopper GEMM, one block per SM",
    "portable-4-blocks": "of the same run: portable GEMM, four blocks per SM",
    "portable-split-k": "of the same run: portable GEMM, K split",
    "blind-h200-all": "second blind run: chains and model shapes too",
    "foreign-sketch": "throw-away kernels, from two kernel times",
    "published-mlp": "MLPs that cuSync's authors measured",
    "published-resnet": "ResNet's convolutions that they measured",
}
TITLES = (
    "kernels (on an H200; cuSync's on V100 and A100)",
    "cases",
    "median error (points)",
    "90 % within (points)",
    'median of "no gain" (points)',
    "median of ceil(waves) (points)",
    "noise (points)",
    "called",
)


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


def scores_in_words() -> Shown:
    """The chosen sets, held-out cases only; all figures but the cases are points."""
    found = committed_scores()
    return Shown(
        TITLES,
        tuple(
            (
                words,
                str(found[name].cases),
                _text(found[name].median_abs_error_points),
                _text(found[name].p90_abs_error_points),
                _text(found[name].no_gain_median_points),
                _text(found[name].ceil_formula_median_points),
                _text(found[name].noise_points),
                name,
            )
            for name, words in SETS.items()
        ),
    )


def _text(points: float | None) -> str:
    return "" if points is None else f"{points:.1f}"


def _recorded(tokens: int, order: str) -> tuple[Trace, Trace]:
    """The recorded stream-sync and row-semaphore runs of the GPT-3 MLP on an H200."""
    case = find_case(gpt3_mlp(tokens), devices.default_device(), order)
    assert case is not None, "these sizes ship with wavesim"
    return case.trace("stream"), case.trace("row")


def _recorded_difference() -> Difference:
    """Measured minus predicted of row semaphores at 1,536 tokens, as the comparison view draws it."""
    plans = [StreamSync(), SemaphoreSync(RowSync())]
    found = compare(gpt3_mlp(1536), plans, devices.default_device())
    (stream, measured), (_, predicted) = found.measured, found.predicted
    assert stream is not None, "this size ships with wavesim"
    assert measured is not None, "this size ships with wavesim"
    return explain_difference(predicted, measured, stream)


def _clock(_: float) -> dict[str, Any]:
    """At 768 tokens in groups of 8 rows: the part of the row plan's gain that the clock made, in points."""
    stream, row = _recorded(768, "grouped:8")
    gain = gain_by_clock(row, stream)
    points = {"time": gain.time_points, "cycles": gain.cycle_points, "clock": gain.clock_points}
    return {**points, "gain": gain}


def _grade_reason(answer: Any) -> str:
    """At 1,536 tokens, row by row: the largest reason for what prediction and measurement differ by."""
    found = _recorded_difference()
    reasons = found.finest_reasons
    named = word(answer, reasons)
    largest = max(reasons, key=lambda reason: abs(reasons[reason]))
    require(
        named == largest,
        f"{named} makes {reasons[named] / 1e3:+.1f} µs; another reason is larger.",
    )
    return f"{reasons[largest] / 1e3:+.1f} µs of {found.total_ns / 1e3:+.1f} µs in all."


GRADERS = {"11.1": _grade_reason, "11.2": _clock}
