"""Traces that look measured, for tests of what reads recordings: simulated with known costs."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from wavesim.costs.cost_model import CostModel
from wavesim.costs.device_costs import costs_of
from wavesim.model.device import load
from wavesim.plan.parsing import parse_plan
from wavesim.recordings.shipped import file_name
from wavesim.sim.simulation import simulate
from wavesim.trace.trace import Trace
from wavesim.workloads.mlps import gpt3_mlp

KNOWN = costs_of("h200")
TRUE_COSTS = CostModel({"gemm1": 151_000, "gemm2": 80_500}, **{**KNOWN.overheads, "boundary_ns": 1_600})


def pretended(tokens: int, plan: str, order: str = "row", costs: CostModel = TRUE_COSTS) -> Trace:
    """One plan as if measured: the rounds scatter by 1 % around the makespan, equally in every plan."""
    trace = simulate(gpt3_mlp(tokens), parse_plan(plan, order), load("h200"), costs)
    scatter = 1.0 + 0.01 * np.sin(np.arange(20))
    rounds = tuple(int(trace.time_ns * factor) for factor in scatter)
    header = replace(
        trace.header,
        source="measured",
        rounds_ns=rounds,
        date="2026-01-01T00:00:00",
        commit="abcdef0",
        costs={},
        setup_ns=0,
    )
    return replace(trace, header=header, waits=None)


def write_case(folder: Path, tokens: int, order: str = "row") -> None:
    """The stream, row and tile traces of one case, as they ship."""
    (folder / "h200").mkdir(parents=True, exist_ok=True)
    for plan in ("stream", "row", "tile"):
        name = file_name("gpt3-mlp", "128x256", tokens, order, plan)
        pretended(tokens, plan, order).save(folder / "h200" / name)
