"""Six ways to lose less at a kernel boundary, on one workload: what each is predicted to gain.

Example: GPT-3's MLP at 1,024 tokens: dependent launch gains 0.2 points, Stream-K 14, row semaphores 12, and
an H200 measured 12. All predictions use the same tile times; only the semaphores have been measured there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

from wavesim.model import device as devices
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import Plan, StreamSync
from wavesim.predict.defaults import default_costs
from wavesim.predict.prediction import improvement_points, measured_improvement
from wavesim.recordings.measured_pairs import FILE, measured_pairs_from
from wavesim.recordings.shipped import find_case
from wavesim.safe_io.annotated import typed
from wavesim.sim.simulation import simulate
from wavesim.teaching.shown import Shown
from wavesim.trace.trace import Trace
from wavesim.workloads.mlps import gpt3_mlp

PLANS = ("stream", "pdl:0.05", "stream-k", "persistent-stream", "row", "tile", "persistent")
SPLIT_K = 2
WORKLOAD, BASELINE = "gpt3-mlp", "stream"
# The benchmark's names in words; every candidate runs in the tiles and order that were fastest for it.
CANDIDATES = {
    "stream": "Persistent kernels, stream sync",
    "stream per tile": "A block per tile, stream sync",
    "pdl": "Persistent kernels, dependent launch",
    "stream-k": "Stream-K, stream sync",
    "row": "Row semaphores",
    "tile": "Tile semaphores",
    "persistent": "One persistent kernel, its best semaphores",
    "cublaslt": "cuBLASLt",
}
SHOWN = (128, 256, 768, 1024, 1280, 1792, 2560, 3328, 4096)  # tokens, of the twenty in a full benchmark
SMS, TILES, CHUNKS = 132, 96, 192  # of the exercises


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


@typed
def measured_pairs(path: Path = FILE) -> Shown:
    """The summary's GPT-3 pairs as a table. Raises `RecordingError` for a file that is no summary."""
    found = measured_pairs_from(path)
    sizes = found.median_ns.get(WORKLOAD, {})
    times = {tokens: sizes[tokens] for tokens in SHOWN if BASELINE in sizes.get(tokens, {})}
    titles = (
        f"{found.device}, {found.date[:10]}, measured: µs (points over stream sync)",
        *(f"{tokens:,} tokens" for tokens in times),
    )
    cells = tuple(
        (words, *(_time_text(of_size, name) for of_size in times.values()))
        for name, words in CANDIDATES.items()
    )
    return Shown(titles, cells)


def _time_text(of_size: Mapping[str, int], name: str) -> str:
    if name not in of_size:
        return "-"
    points = 100 * (1 - of_size[name] / of_size[BASELINE])
    return f"{of_size[name] / 1e3:.0f}" + ("" if name == BASELINE else f" ({points:+.1f})")


def _slot_efficiency(slices: int) -> float:
    """The part of the slots that 96 tiles in so many slices use, all slices alike."""
    blocks = TILES * slices
    return blocks / (SMS * ceil(blocks / SMS))


def _split_k(slices: int) -> dict[str, Any]:
    """The fewest split-K slices, 1 to 6, with which 96 tiles use 95 % of the slots of 132 SMs."""
    blocks, used = TILES * slices, _slot_efficiency(slices)
    are_fewest = slices == 1 or _slot_efficiency(slices - 1) < 0.95
    facts = {"blocks": blocks, "waves": blocks / SMS, "used": 100 * used}
    return {**facts, "fill": used >= 0.95, "are_fewest": are_fewest}


def _stream_k(_: int) -> dict[str, Any]:
    """192 tiles of 192 chunks of K on 132 SMs: the most chunks that one SM computes under Stream-K."""
    even = ceil(192 * CHUNKS / SMS)
    return {"two_tiles": 2 * CHUNKS, "even": even, "tiles": even / CHUNKS, "sms": SMS}


GRADERS = {"9.1": _split_k, "9.2": _stream_k}
