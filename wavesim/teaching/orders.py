"""Notebook 6: when a row is whole under an order, and an order that serves both masters."""

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
from wavesim.tuning.tuning_costs import bytes_per_wave
from wavesim.workloads.mlps import gpt3_mlp

TOKENS = 1024
LEAST_POINTS, MOST_MEGABYTES = 10.0, 120.0


def _position_of_first_row(order: Order) -> int:
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


def _first_row() -> dict[str, Any]:
    return {"row": _position_of_first_row(RowMajor()), "grouped": _position_of_first_row(Grouped(8))}


def _two_masters(answer: Any) -> dict[str, Any]:
    """An order with a predicted gain of 10 points and at most 120 MB per wave of gemm2."""
    if not isinstance(answer, Order):
        return {"is_order": False}
    points, megabytes = gain_of(answer), consumer_megabytes(answer)
    facts = {"is_order": True, "least": LEAST_POINTS, "most": MOST_MEGABYTES}
    facts |= {"gains": points >= LEAST_POINTS, "fits": megabytes <= MOST_MEGABYTES}
    return {**facts, "points": points, "megabytes": megabytes}


GRADERS = {"6.1": _first_row, "6.2": _two_masters}
