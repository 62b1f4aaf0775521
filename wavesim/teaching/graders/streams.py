"""Exercises of notebook 3: what a stream holds back, what that can be worth, and when it costs nothing."""

from functools import lru_cache
from typing import Any

from wavesim.model import device as devices
from wavesim.plan.plan import StreamSync
from wavesim.predict.defaults import default_costs
from wavesim.sim.simulation import simulate
from wavesim.teaching.exercises import Exercise, number, require, whole
from wavesim.trace.metrics import metrics_of
from wavesim.trace.trace import Trace
from wavesim.workloads.gpt3 import gpt3_mlp

SLOTS, COLUMNS, CONSUMER_COLUMNS = 132, 24, 48
FULL = 0.97


@lru_cache(maxsize=8)
def on_stream(tokens: int) -> Trace:
    """The GPT-3 MLP on one stream of an H200, simulated with the best known costs."""
    pipeline, device = gpt3_mlp(tokens), devices.default_device()
    return simulate(pipeline, StreamSync(), device, default_costs(pipeline, device)[0])


def grade_ready_tiles(answer: Any) -> str:
    """At 1,536 tokens: gemm2 tiles whose inputs are in memory when gemm1's full waves have ended."""
    count, rows = whole(answer, 0, 576), 1536 // 128
    waves_before = (rows * COLUMNS - 1) // SLOTS
    finished = waves_before * SLOTS // COLUMNS
    require(count != 0, "none has started, but what each reads, one tile row of gemm1, may be there.")
    require(
        count == finished * CONSUMER_COLUMNS,
        f"gemm1 has {rows} rows of {COLUMNS} tiles, {SLOTS} at a time. How many whole rows are done when its "
        "full waves have ended, and how many gemm2 tiles read each?",
    )
    return f"{waves_before} waves make {finished} of {rows} rows; {CONSUMER_COLUMNS} tiles read each of them."


def grade_bound(answer: Any) -> str:
    """At 1,024 tokens: the most that any plan can gain over one stream, in points."""
    points = number(answer, "points")
    bound = 100 * (1 - metrics_of(on_stream(1024)).busy_utilisation)
    require(
        abs(points - bound) <= 1,
        "the work itself stays: only the share of SM time that is not busy can go. `metrics_of` knows it.",
    )
    return f"{bound:.1f} % of the SMs' time is not busy; a plan that loses nothing would take that much less."


def grade_free_boundary(answer: Any) -> str:
    """A number of tokens, a multiple of 128 up to 4,096, whose two last waves are nearly full."""
    tokens = whole(answer, 128, 4096)
    require(tokens % 128 == 0, f"{tokens} is no multiple of 128.")
    for name, columns in (("gemm1", COLUMNS), ("gemm2", CONSUMER_COLUMNS)):
        tiles = tokens // 128 * columns
        last = (tiles - 1) % SLOTS + 1
        require(
            last >= FULL * SLOTS, f"{name} has {tiles} tiles there: {last} of {SLOTS} slots in its last wave."
        )
    return "Both last waves are full; what is left of the boundary is about a microsecond of launch gap."


EXERCISES = (
    Exercise("3.1", "gemm2 tiles with all inputs after gemm1's full waves, M = 1536", grade_ready_tiles),
    Exercise("3.2", "The most that any plan can gain at M = 1024, in points", grade_bound),
    Exercise("3.3", "Tokens at which the stream costs next to nothing", grade_free_boundary),
)
