"""Exercises of notebook 6: when a row is whole under an order, and an order that serves both masters."""

from functools import lru_cache
from typing import Any

from wavesim.model import device as devices
from wavesim.plan.order import Grouped, Order, RowMajor
from wavesim.plan.plan import SemaphoreSync, StreamSync
from wavesim.plan.policy import RowSync
from wavesim.predict.defaults import default_costs
from wavesim.predict.prediction import improvement_points
from wavesim.safe_io.annotated import typed
from wavesim.sim.simulation import simulate
from wavesim.teaching.exercises import Exercise, pair, require
from wavesim.tuning.tuning_costs import bytes_per_wave
from wavesim.workloads.gpt3 import gpt3_mlp

TOKENS = 1024
LEAST_POINTS, MOST_MEGABYTES = 10.0, 120.0


def position_of_first_row(order: Order) -> int:
    """How many tiles of gemm1 (24 columns, 8 rows) are computed when its first row is whole."""
    tiles = order.sequence(gpt3_mlp(TOKENS).stages[0].grid)
    return 1 + max(i for i, (_, row) in enumerate(tiles) if row == 0)


@lru_cache(maxsize=1)
def _stream_ns() -> int:
    pipeline, device = gpt3_mlp(TOKENS), devices.default_device()
    return simulate(pipeline, StreamSync(), device, default_costs(pipeline, device)[0]).time_ns


@typed
def gain_of(order: Order) -> float:
    """Points that row semaphores gain over the row-major stream in an order, simulated at 1,024 tokens."""
    pipeline, device = gpt3_mlp(TOKENS), devices.default_device()
    costs, _ = default_costs(pipeline, device)
    trace = simulate(pipeline, SemaphoreSync(RowSync(), order=order), device, costs)
    return improvement_points(trace.time_ns, _stream_ns())


@typed
def consumer_megabytes(order: Order) -> float:
    """Operand megabytes that one wave of gemm2 touches in an order at 1,024 tokens."""
    return bytes_per_wave(gpt3_mlp(TOKENS).stages[1], order, devices.default_device()) / 1e6


def grade_first_row(answer: Any) -> str:
    """Tiles until gemm1's first row is whole: row by row, and in one group of 8 rows."""
    for given, order in zip(
        pair(answer, "row by row, groups of 8 rows"), (RowMajor(), Grouped(8)), strict=True
    ):
        require(
            given == position_of_first_row(order),
            f"{given} under {order.name}? gemm1 has 24 columns and 8 rows; write down its first tiles.",
        )
    return "All of the first 132-tile wave is over before the group's first row is whole: waiting for all."


def grade_two_masters(answer: Any) -> str:
    """An order with a predicted gain of 10 points and at most 120 MB per wave of gemm2."""
    require(isinstance(answer, Order), f"{answer!r} is no order: RowMajor(), Grouped(4), CustomOrder(...).")
    megabytes, points = consumer_megabytes(answer), gain_of(answer)
    require(
        points >= LEAST_POINTS,
        f"{points:+.1f} points predicted, {LEAST_POINTS:g} are asked for: rows get ready too late.",
    )
    require(
        megabytes <= MOST_MEGABYTES,
        f"{points:+.1f} points, but a wave of gemm2 reads {megabytes:.0f} MB, over {MOST_MEGABYTES:g}: touch "
        "more rows and fewer columns per wave.",
    )
    return f"{points:+.1f} points predicted with {megabytes:.0f} MB per wave of gemm2."


EXERCISES = (
    Exercise("6.1", "Tiles until the first row is whole: (row by row, groups of 8)", grade_first_row),
    Exercise("6.2", "An order that serves the dependency and the L2", grade_two_masters),
)
