"""Exercises of notebook 11: what the clock made of a gain, and what a difference is made of."""

from typing import Any

from wavesim.analysis.difference import Difference, explain_difference
from wavesim.analysis.prediction import predict_from_stream
from wavesim.io.recordings import find_case
from wavesim.model import device as devices
from wavesim.model.order import parse_order
from wavesim.model.plan import SemaphoreSync
from wavesim.model.policy import RowSync
from wavesim.teaching.clock import gain_by_clock
from wavesim.teaching.exercises import Exercise, require
from wavesim.trace import Trace
from wavesim.workloads.gpt3 import gpt3_mlp


def recorded(tokens: int, order: str) -> tuple[Trace, Trace]:
    """The recorded stream-sync and row-semaphore runs of the GPT-3 MLP on an H200."""
    case = find_case(gpt3_mlp(tokens), devices.load("h200"), order)
    assert case is not None, "these sizes ship with wavesim"
    return case.trace("stream"), case.trace("row")


def difference_at(tokens: int, order: str) -> Difference:
    """Measured minus predicted of row semaphores, predicted from the stream-sync run."""
    stream, row = recorded(tokens, order)
    plan = SemaphoreSync(RowSync(), order=parse_order(order))
    predicted, _ = predict_from_stream(gpt3_mlp(tokens), plan, devices.load("h200"), stream)
    return explain_difference(predicted, row)


def grade_clock(answer: Any) -> str:
    """At 768 tokens in groups of 8 rows: the part of the row plan's gain that the clock made, in points."""
    require(isinstance(answer, int | float), f"{answer!r} is not a number of points.")
    stream, row = recorded(768, "grouped:8")
    gain = gain_by_clock(row, stream)
    require(
        abs(answer - gain.time_points) > 0.2, "that is the gain in time. How much of it is left in cycles?"
    )
    require(abs(answer - gain.cycle_points) > 0.2, "that is the gain in cycles; the clock made the rest.")
    require(
        abs(answer - gain.clock_points) <= 0.3, "the clock's part is the gain in time less that in cycles."
    )
    return f"{gain!r}"


def grade_reason(answer: Any) -> str:
    """At 1,536 tokens, row by row: the largest reason for what prediction and measurement differ by."""
    found = difference_at(1536, "row")
    require(answer in found.reasons, f"{answer!r} is none of {list(found.reasons)}.")
    largest = max(found.reasons, key=lambda reason: abs(found.reasons[reason]))
    require(
        answer == largest,
        f"{answer} makes {found.reasons[answer] / 1e3:+.1f} µs; another reason is larger.",
    )
    return f"{found.reasons[largest] / 1e3:+.1f} µs of {found.total_ns / 1e3:+.1f} µs in all."


EXERCISES = (
    Exercise("11.1", "The clock's part of a gain, in points", grade_clock),
    Exercise("11.2", "The largest reason for a difference", grade_reason),
)
