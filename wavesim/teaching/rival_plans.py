"""Six ways to lose less at a kernel boundary, on one workload: what each is predicted to gain.

Example: GPT-3's MLP at 1,024 tokens: dependent launch gains 0.2 points, Stream-K 14, row semaphores 12, and
an H200 measured 12. All predictions use the same tile times; only the semaphores have been measured there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from wavesim.model import device as devices
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import Plan, StreamSync
from wavesim.predict.defaults import default_costs
from wavesim.predict.prediction import improvement_points, measured_improvement
from wavesim.recordings.shipped import find_case
from wavesim.safe_io.annotated import typed
from wavesim.sim.simulation import simulate
from wavesim.teaching.shown import Shown
from wavesim.trace.trace import Trace
from wavesim.workloads.gpt3 import gpt3_mlp

PLANS = ("stream", "pdl:0.05", "stream-k", "persistent-stream", "row", "tile", "persistent")
SPLIT_K = 2


@dataclass(frozen=True, eq=False)
class Rival:
    """One plan's simulated trace, its gain over stream sync in points, and the recorded one, if any."""

    label: str
    trace: Trace
    predicted_points: float
    measured_points: float | None = None


@typed
def rivals(tokens: int, words: Sequence[str] = PLANS) -> list[Rival]:
    """The plans that the words name, and stream sync with both GEMMs in two split-K slices, on an H200."""
    pipeline, device = gpt3_mlp(tokens), devices.default_device()
    costs, _ = default_costs(pipeline, device)
    stream = simulate(pipeline, StreamSync(), device, costs)
    found = []
    for plan in map(parse_plan, words):
        trace = simulate(pipeline, plan, device, costs)
        points = improvement_points(trace.time_ns, stream.time_ns)
        found.append(Rival(plan.label, trace, points, _recorded_points(pipeline, plan)))
    slices = split_in_k(pipeline, SPLIT_K)
    halves = {stage.name: _split_times(costs.tile_times(stage)) for stage in pipeline.stages}
    trace = simulate(slices, StreamSync(), device, costs.with_tile_ns(**halves))
    points = improvement_points(trace.time_ns, stream.time_ns)
    found.insert(1, Rival(f"Stream sync, split-K {SPLIT_K}", trace, points))
    return found


def _split_times(times: int | list[int]) -> int | list[int]:
    """Tile times of all splits, one split after the other, from those of whole tiles."""
    return times // SPLIT_K if isinstance(times, int) else [time // SPLIT_K for time in times] * SPLIT_K


@typed
def split_in_k(pipeline: Pipeline, slices: int) -> Pipeline:
    """The same GEMMs with K split so many ways, each split a block of its own."""
    stages = [Stage(stage.name, replace(stage.gemm, split_k=slices)) for stage in pipeline.stages]
    by_name = {stage.name: stage for stage in stages}
    dependencies = [
        replace(
            dependency,
            consumer=replace(dependency.consumer, stage=by_name[dependency.consumer.stage.name]),
            needs=[replace(need, stage=by_name[need.stage.name]) for need in dependency.needs],
        )
        for dependency in pipeline.dependencies
    ]
    return Pipeline(f"{pipeline.name} split-K {slices}", stages, dependencies, pipeline.parameters)


def _recorded_points(pipeline: Pipeline, plan: Plan) -> float | None:
    case = find_case(pipeline, devices.default_device(), plan.order.name)
    if case is None or plan.name not in case.paths or plan.name == "stream":
        return None
    return measured_improvement(case.trace(plan.name), case.trace("stream")).median


@typed
def rivals_table(sizes: Sequence[int]) -> Shown:
    """Predicted gains in points by size; in brackets what was measured, where it was."""
    columns = [rivals(size) for size in sizes]
    titles = ("points over stream sync", *(f"{size:,} tokens" for size in sizes))
    cells = tuple((row[0].label, *(_cell(rival) for rival in row)) for row in zip(*columns, strict=True))
    return Shown(titles, cells[1:])


def _cell(rival: Rival) -> str:
    measured = "" if rival.measured_points is None else f" ({rival.measured_points:+.1f})"
    return f"{rival.predicted_points:+.1f}{measured}"
