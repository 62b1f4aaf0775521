"""When a consumer's tiles could have started, and when they did: what a kernel boundary holds back.

Example: on one stream the curve "inputs are in memory" climbs while the producer still runs and "has started"
stays at zero until its last tile is done; the area between the two is what the stream makes the tiles wait.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import plotly.graph_objects as go

from wavesim.errors import DescriptionError
from wavesim.model import device as devices
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import StreamSync
from wavesim.predict.defaults import default_costs
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.bounds import real
from wavesim.safe_io.escaping import Markup
from wavesim.sim.simulation import simulate
from wavesim.trace.metrics import metrics_of
from wavesim.trace.trace import IntArray, Trace
from wavesim.view.canvas import Props, axis, base_layout, heading
from wavesim.view.figure import figure_of
from wavesim.view.theme import Theme, find_theme
from wavesim.view.wording import provenance, unit_for, workload_text
from wavesim.workloads.mlps import gpt3_mlp

LEFT, RIGHT, BOTTOM, PLOT_HEIGHT = 70, 30, 104, 300
SLOTS, COLUMNS, CONSUMER_COLUMNS = 132, 24, 48  # of the exercises
FULL = 0.97


@dataclass(frozen=True, eq=False)
class Readiness:
    """Per block of a consumer stage: when its last input was in memory, and when it was issued (ns)."""

    consumer: str
    ready_ns: IntArray
    issue_ns: IntArray

    @property
    def held_back_ns(self) -> IntArray:
        """How long each block was not issued although it could have run."""
        held: IntArray = np.maximum(0, self.issue_ns - self.ready_ns)
        return held

    def ready_at(self, time_ns: int) -> int:
        """Blocks whose inputs are all in memory by then. Raises `DescriptionError`."""
        real("time_ns", time_ns)
        return int((self.ready_ns <= time_ns).sum())


@typed
def readiness_of(pipeline: Pipeline, trace: Trace, consumer: str | None = None) -> Readiness:
    """Readiness of a consumer, by default the last stage. Raises `DescriptionError` if it needs nothing."""
    names = [info.name for info in trace.header.stages]
    name = names[-1] if consumer is None else consumer
    dependency = pipeline.dependency_of(name)
    if dependency is None:
        raise DescriptionError(f"stage {name!r} of pipeline {pipeline.name} needs nothing; name a consumer")
    ends = _tile_ends(trace)
    rows = np.flatnonzero(trace.stage == names.index(name))
    ready = [
        max(ends[names.index(stage), *tile] for stage, tile in dependency.producer_tiles(int(x), int(y)))
        for x, y in zip(trace.x[rows], trace.y[rows], strict=True)
    ]
    return Readiness(name, np.array(ready, dtype=np.int64), trace.issue_ns[rows])


def _tile_ends(trace: Trace) -> dict[tuple[int, int, int], int]:
    """When each tile (stage, x, y) was complete: the end of its last split-K slice."""
    ends: dict[tuple[int, int, int], int] = {}
    for stage, x, y, end in zip(trace.stage, trace.x, trace.y, trace.end_ns, strict=True):
        key = (int(stage), int(x), int(y))
        ends[key] = max(ends.get(key, 0), int(end))
    return ends


@typed
def readiness_picture(
    pipeline: Pipeline, trace: Trace, *, theme: str | Theme = "light", width: int = 1000
) -> go.Figure:
    """Tiles of the last stage over time: with inputs in memory, and started. Raises `DescriptionError`."""
    found, palette = readiness_of(pipeline, trace), find_theme(theme)
    unit = unit_for([trace.makespan_ns], [None])
    held = unit.text(float(found.held_back_ns.mean()))
    title = f"{trace.header.plan_label}: a tile of {found.consumer} is held back {held} on average"
    head = heading(title, f"{workload_text(trace.header)}, {provenance(trace.header)}", width - LEFT - RIGHT)
    end = trace.makespan_ns
    data = [
        _curve(found.issue_ns, end, unit.ns, "has started", palette.stage_colour(1)),
        _curve(found.ready_ns, end, unit.ns, "inputs are in memory", palette.stage_colour(0)),
    ]
    data[1] |= {"fill": "tonexty", "fillcolor": palette.translucent(palette.waiting, 0.3)}
    size = (width, head.height + PLOT_HEIGHT + BOTTOM)
    layout = base_layout(palette, head, size, (LEFT, RIGHT, head.height, BOTTOM))
    layout["xaxis"] = axis(palette, unit.axis, range=[0, end / unit.ns])
    layout["yaxis"] = axis(palette, f"tiles of {found.consumer}", rangemode="tozero")
    return figure_of(data, layout)


def _curve(times: IntArray, end_ns: int, unit_ns: float, name: str, colour: str) -> Props:
    """How many of the times have passed, as steps from zero to the end."""
    moments, counts = np.unique(times, return_counts=True)
    x = np.concatenate([[0], moments, [end_ns]]) / unit_ns
    y = np.concatenate([[0], counts.cumsum(), [times.size]])
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": x.astype(np.float32),
        "y": y.astype(np.int32),
        "line": {"shape": "hv", "width": 2.5, "color": colour},
        "hovertemplate": Markup("%{{y}} tiles: {} at %{{x:,.1f}}<extra></extra>").format(name),
    }


def _ready_tiles(_: int) -> dict[str, Any]:
    """At 1,536 tokens: gemm2 tiles whose inputs are in memory when gemm1's full waves have ended."""
    rows = 1536 // 128
    waves = (rows * COLUMNS - 1) // SLOTS
    finished = waves * SLOTS // COLUMNS
    facts = {"none": 0, "ready": finished * CONSUMER_COLUMNS, "waves": waves, "finished": finished}
    return {**facts, "rows": rows, "columns": COLUMNS, "slots": SLOTS, "reads": CONSUMER_COLUMNS}


@lru_cache(maxsize=1)
def _bound() -> float:
    """The most that any plan can gain over one stream of an H200 at 1,024 tokens, in points."""
    pipeline, device = gpt3_mlp(1024), devices.default_device()
    trace = simulate(pipeline, StreamSync(), device, default_costs(pipeline, device)[0])
    return 100 * (1 - metrics_of(trace).busy_utilisation)


def _free_boundary(tokens: int) -> dict[str, Any]:
    """Tiles of both kernels, and how many of them are in the last wave."""
    facts: dict[str, Any] = {"is_multiple": tokens % 128 == 0, "slots": SLOTS}
    for name, columns in (("gemm1", COLUMNS), ("gemm2", CONSUMER_COLUMNS)):
        tiles = tokens // 128 * columns
        last = (tiles - 1) % SLOTS + 1
        facts |= {name: tiles, f"{name}_last": last, f"{name}_fills": last >= FULL * SLOTS}
    return facts


GRADERS = {"3.1": _ready_tiles, "3.2": lambda _: {"bound": _bound()}, "3.3": _free_boundary}
