"""Predictions on a device that nobody characterised, from stream-sync traces of another one.

Example: at 3,333 tokens in row-major order row semaphores lost 24.5 points on an H100, 0.2 on an H200. Tile
times are the H200's; L2, DRAM and clock are the H200's in proportion to the data sheets. Nothing is chosen by
these cases.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from wavesim.bench.blind_sizes import SEMAPHORES, BlindSize
from wavesim.bench.jobs import Job
from wavesim.bench.scored_case import LEFT_OUT, ScoredPrediction, ceil_formula, time_error_percent
from wavesim.costs.device_costs import costs_of
from wavesim.model import device as devices
from wavesim.plan.parsing import parse_plan
from wavesim.predict.intervals import spread_points
from wavesim.predict.kinds import STREAM_TRACE, known_text, trace_kind
from wavesim.predict.prediction import Measured, calibrate_for, predict_pair
from wavesim.recordings.shipped import FOLDER
from wavesim.trace.trace import Trace

LEFT_OUT_FOLDER = FOLDER / "left_out"  # a folder for each device: what was measured there, others' traces


@dataclass(frozen=True)
class LeftOutCase:
    """One plan of one size: `points` gained on `device`; the trace is of stream sync on `traces_of`."""

    device: str
    traces_of: str
    size: BlindSize
    order: str
    plan: str
    points: float

    @property
    def stream(self) -> Trace:
        """Stream sync of the same size in the same order, on the other device."""
        order = self.order.replace(":", "")
        return Trace.load(LEFT_OUT_FOLDER / self.device / f"{self.size.stem}_{order}_stream.npz")


def left_out_jobs() -> list[Job]:
    """One job for each case."""
    return [partial(predictions_of_left_out, case) for case in find_left_out()]


def find_left_out(folder: Path = LEFT_OUT_FOLDER) -> list[LeftOutCase]:
    """Every measured plan of every left-out device."""
    paths = sorted(folder.glob("*/measured.toml"))
    return [case for path in paths for case in _cases(tomllib.loads(path.read_text()))]


def _cases(data: Mapping[str, Any]) -> Iterator[LeftOutCase]:
    for row in data["rows"]:
        tile = tuple(row["tile"])
        size = BlindSize(data["kernels"], row["workload"], row["tokens"], (tile, tile))
        yield LeftOutCase(data["device"], data["traces"], size, row["order"], row["plan"], row["points"])


def predictions_of_left_out(case: LeftOutCase) -> list[ScoredPrediction]:
    """The gain on the left-out device with the other one's tile times, and its own memory and clock."""
    pipeline, stream = case.size.pipeline(), case.stream
    device, known = devices.load(case.device), costs_of(case.device)
    tiles = calibrate_for(pipeline, devices.load(case.traces_of), stream)
    costs = replace(tiles, memory=known.memory, clock_gain=known.gain(case.size.blocks_per_sm))
    _, trace, predicted = predict_pair(pipeline, parse_plan(case.plan, case.order), device, costs)
    return [
        ScoredPrediction(
            case=f"{case.size.name} {case.order}",
            plan=case.plan,
            group=case.size.name,
            device=case.device,
            source=f"{LEFT_OUT}-{case.device}",
            family=case.size.family if case.plan in SEMAPHORES else case.plan,
            kind=trace_kind(known_text(STREAM_TRACE, pipeline), stream.header.stages, case.plan),
            predicted=predicted,
            measured=Measured(case.points, case.points, case.points),
            ceil_formula=ceil_formula(stream),
            time_error_percent=time_error_percent(predicted, case.points),
            spread=spread_points(trace, predicted),
        )
    ]
