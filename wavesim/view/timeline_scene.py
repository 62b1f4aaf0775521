"""A timeline, or a pipeline's dependencies, as plain values for a browser that draws them itself.

Example: two plans of 500 tiles each are 40 KB; a slider moves, the arrays are sent, and a canvas shows
them 20 ms later. The same values, base64 inside a page, draw it where there is no kernel.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.order import Order
from wavesim.plan.plan import Plan
from wavesim.safe_io.annotated import require_types
from wavesim.trace.metrics import metrics_of
from wavesim.trace.trace import PART_COLUMNS, Trace
from wavesim.view.canvas import Props
from wavesim.view.tile_series import stage_letters
from wavesim.view.timeline_data import PanelParts, TimelineParts
from wavesim.view.wording import LITTLE, finding, provenance, signed_percent, workload_text

KINDS = (np.uint8, np.int16, np.int32)


def scene_of_timeline(parts: TimelineParts, title: str | None = None) -> Props:
    """All that is drawn of a timeline: `panels` one per trace; times in ns from each first issue.

    Arrays are {"type", "data"}, little-endian bytes of the smallest integer type that holds them.
    """
    first = parts.panels[0].trace
    traces = [panel.trace for panel in parts.panels]
    widest = max((trace.header.stages for trace in traces), key=len)
    letters = stage_letters(len(widest))
    return {
        "title": title or finding(traces, [metrics_of(trace) for trace in traces], parts.unit),
        "subtitle": workload_text(first.header),
        "unit": {"ns": parts.unit.ns, "symbol": parts.unit.symbol, "axis": parts.unit.axis},
        "stages": [
            {"name": info.name, "letter": letter, "grid": list(info.grid)}
            for info, letter in zip(widest, letters, strict=True)
        ],
        "panels": [_panel(panel) for panel in parts.panels],
        "curves": list(parts.curves),
    }


def packed(values: NDArray[Any]) -> Props:
    """An array as bytes and the name of their type."""
    if np.issubdtype(values.dtype, np.floating):
        return {"type": "float32", "data": values.astype("<f4").tobytes()}
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    for kind in KINDS:
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return {
                "type": np.dtype(kind).name,
                "data": values.astype(np.dtype(kind).newbyteorder("<")).tobytes(),
            }
    return {"type": "float64", "data": values.astype("<f8").tobytes()}


def _panel(panel: PanelParts) -> Props:
    trace, rows = panel.trace, panel.rows
    return {
        "label": panel.label,
        "facts": [fact for fact in panel.facts if fact.strip()],
        "source": provenance(trace.header),
        "done": list(panel.done),
        "gain": None if panel.gain is None else _gain(panel.gain),
        "boundaries": [
            {"ns": ns, "words": f"kernel boundary: {stage} waits"} for ns, stage in panel.boundaries_ns
        ],
        "smCount": rows.sm_count,
        "slots": rows.slots,
        "rows": rows.count,
        "makespan": rows.makespan_ns,
        "blocks": _blocks(panel),
        "waits": _waits(panel),
        "idle": {
            "row": packed(rows.idle.row),
            "start": packed(rows.idle.start_ns),
            "end": packed(rows.idle.end_ns),
        },
        "dependencies": [
            {
                "producer": info.producer,
                "consumer": info.consumer,
                "policy": info.policy,
                "semaphores": list(info.semaphore_of_tile),
                "values": list(info.value_of_semaphore),
            }
            for info in trace.header.dependencies
        ],
        "busy": {"time": packed(panel.busy[0]), "share": packed(panel.busy[1])},
    }


def _gain(gain: float) -> Props:
    kind = "muted" if abs(gain) < LITTLE else "good" if gain > 0 else "bad"
    return {"words": signed_percent(-gain), "kind": kind}


def _blocks(panel: PanelParts) -> Props:
    """Columns of the trace; `work` is when a block begins to compute, after its first wait."""
    trace = panel.trace
    origin = trace.issue_ns.min()
    names = ("stage", "x", "y", "z", "sm", "slot", *(PART_COLUMNS if trace.k_first is not None else ()))
    columns = {name: getattr(trace, name) for name in names}
    columns |= {
        "row": panel.rows.work.row,
        "span": panel.rows.span,
        "issue": trace.issue_ns - origin,
        "start": trace.start_ns - origin,
        "work": panel.rows.work.start_ns,
        "end": trace.end_ns - origin,
        "wait": trace.wait_ns,
    }
    return {name: packed(column) for name, column in columns.items()}


def _waits(panel: PanelParts) -> Props:
    """Each wait drawn, and where it was recorded, for which semaphore; -1 where that is unknown."""
    waiting = panel.rows.waiting
    dependency, semaphore = _awaited(panel.trace, len(waiting))
    return {
        "block": packed(waiting.block),
        "start": packed(waiting.start_ns),
        "end": packed(waiting.end_ns),
        "dependency": packed(dependency),
        "semaphore": packed(semaphore),
    }


def _awaited(trace: Trace, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The semaphores of the drawn waits, which are the recorded ones of a nanosecond or more."""
    unknown = np.full(count, -1, dtype=np.int64)
    waits = trace.waits
    if waits is None or not waits.block.size:
        return unknown, unknown
    shown = waits.end_ns - waits.start_ns >= 1
    return waits.dependency[shown], waits.semaphore[shown]


LONGEST_NEEDS = 100  # letters of a dependency that are read rather than skipped
MOST_NEEDS = 3  # dependencies of a pipeline that its subtitle lists


def scene_of_dependencies(pipeline: Pipeline, plan: Plan) -> Props:
    """Stages with their order, needs as boxes per consumer tile, semaphores per dependency.

    Raises `DescriptionError` for a pipeline without dependencies, and what policies and orders raise.
    """
    require_types("pipeline with dependencies", pipeline=(pipeline, Pipeline), plan=(plan, Plan))
    if not pipeline.dependencies:
        raise DescriptionError(f"pipeline {pipeline.name} has no dependencies to explore")
    letters = stage_letters(len(pipeline.stages))
    orders = {stage.name: plan.order_of(stage.name) for stage in pipeline.stages}
    return {
        "subtitle": _subtitle(pipeline, plan, orders),
        "stages": [
            _stage(stage, letter, orders[stage.name])
            for stage, letter in zip(pipeline.stages, letters, strict=True)
        ],
        "needs": [
            _need(pipeline, dependency, number)
            for dependency in pipeline.dependencies
            for number in range(len(dependency.needs))
        ],
        "dependencies": [
            _semaphores(plan, pipeline.stage(producer), dependency.consumer.stage.name)
            for dependency in pipeline.dependencies
            for producer in dependency.producers
        ],
    }


def _subtitle(pipeline: Pipeline, plan: Plan, orders: dict[str, Order]) -> str:
    first, rest = pipeline.dependencies[:MOST_NEEDS], len(pipeline.dependencies) - MOST_NEEDS
    words = "; ".join(map(_needs_text, first)) + (f"; and {rest} more" if rest > 0 else "")
    names = ", ".join(dict.fromkeys(order.name for order in orders.values()))
    return (
        f"{pipeline.name}, {plan.label.lower()}, {names} order. {words}. "
        "A description: nothing simulated or measured."
    )


def _needs_text(dependency: Dependency) -> str:
    """The dependency as it is written, or its stages alone where its indices are a page of arithmetic."""
    written = str(dependency)
    if len(written) <= LONGEST_NEEDS:
        return written
    return f"{dependency.consumer.stage.name} needs tiles of {', '.join(dependency.producers)}"


def _stage(stage: Stage, letter: str, order: Order) -> Props:
    """`places` (tiles,), row-major: each tile's position in processing order."""
    grid = stage.grid
    places = np.zeros(grid.y * grid.x, dtype=np.int64)
    for place, (x, y) in enumerate(order.sequence(grid)):
        places[y * grid.x + x] = place
    return {
        "name": stage.name,
        "letter": letter,
        "grid": [grid.x, grid.y, grid.z],
        "order": order.name,
        "places": packed(places),
    }


def _need(pipeline: Pipeline, dependency: Dependency, number: int) -> Props:
    """`boxes` (consumer tiles, 4), row-major: columns from, up to, rows from, up to; with their steps."""
    need, consumer = dependency.needs[number], dependency.consumer.stage
    names = [stage.name for stage in pipeline.stages]
    boxes = np.array([need.box(x, y) for y in range(consumer.grid.y) for x in range(consumer.grid.x)])
    return {
        "producer": names.index(need.stage.name),
        "consumer": names.index(consumer.name),
        "boxes": packed(boxes.astype(np.int64).ravel()),
        "steps": [need.columns.step, need.rows.step],
    }


def _semaphores(plan: Plan, producer: Stage, consumer: str) -> Props:
    policy = plan.policy_of(producer.name, consumer)
    table = policy.table(producer.grid)
    values = dict(zip(table.semaphore_of_tile, table.value_of_tile, strict=True))
    return {
        "producer": producer.name,
        "consumer": consumer,
        "policy": policy.name,
        "semaphores": list(table.semaphore_of_tile),
        "values": [values.get(index, 0) for index in range(table.count)],
    }
