"""Exercises of notebook 11: what the clock made of a gain, and what a difference is made of."""

from typing import Any

from wavesim.comparison import compare
from wavesim.model import device as devices
from wavesim.plan.plan import SemaphoreSync, StreamSync
from wavesim.plan.policy import RowSync
from wavesim.recordings.shipped import find_case
from wavesim.teaching.clock import gain_by_clock
from wavesim.teaching.exercises import Exercise, number, require, word
from wavesim.trace.difference import Difference, explain_difference
from wavesim.trace.trace import Trace
from wavesim.workloads.gpt3 import gpt3_mlp


def recorded(tokens: int, order: str) -> tuple[Trace, Trace]:
    """The recorded stream-sync and row-semaphore runs of the GPT-3 MLP on an H200."""
    case = find_case(gpt3_mlp(tokens), devices.default_device(), order)
    assert case is not None, "these sizes ship with wavesim"
    return case.trace("stream"), case.trace("row")


def recorded_difference() -> Difference:
    """Measured minus predicted of row semaphores at 1,536 tokens, as the comparison view draws it."""
    plans = [StreamSync(), SemaphoreSync(RowSync())]
    found = compare(gpt3_mlp(1536), plans, devices.default_device())
    (stream, measured), (_, predicted) = found.measured, found.predicted
    assert stream is not None, "this size ships with wavesim"
    assert measured is not None, "this size ships with wavesim"
    return explain_difference(predicted, measured, stream)


def grade_clock(answer: Any) -> str:
    """At 768 tokens in groups of 8 rows: the part of the row plan's gain that the clock made, in points."""
    points = number(answer, "points")
    stream, row = recorded(768, "grouped:8")
    gain = gain_by_clock(row, stream)
    require(
        abs(points - gain.time_points) > 0.2, "that is the gain in time. How much of it is left in cycles?"
    )
    require(abs(points - gain.cycle_points) > 0.2, "that is the gain in cycles; the clock made the rest.")
    require(
        abs(points - gain.clock_points) <= 0.3, "the clock's part is the gain in time less that in cycles."
    )
    return f"{gain!r}"


def grade_reason(answer: Any) -> str:
    """At 1,536 tokens, row by row: the largest reason for what prediction and measurement differ by."""
    found = recorded_difference()
    reasons = found.finest_reasons
    named = word(answer, reasons)
    largest = max(reasons, key=lambda reason: abs(reasons[reason]))
    require(
        named == largest,
        f"{named} makes {reasons[named] / 1e3:+.1f} µs; another reason is larger.",
    )
    return f"{reasons[largest] / 1e3:+.1f} µs of {found.total_ns / 1e3:+.1f} µs in all."


EXERCISES = (
    Exercise("11.1", "The largest reason for a difference", grade_reason),
    Exercise("11.2", "The clock's part of a gain, in points", grade_clock),
)
