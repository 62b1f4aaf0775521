"""Every tile of a pipeline with what it reads, who reads it, its semaphore and its place in the order.

Example: point at tile (1, 2) of the second GEMM: row 2 of the first lights up, and so does the one
semaphore that all its tiles post. As plain values for a browser that answers pointing by itself.
"""

import numpy as np

from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.order import Order
from wavesim.plan.plan import Plan
from wavesim.safe_io.annotated import require_types
from wavesim.view.canvas import Props
from wavesim.view.tile_series import stage_letters
from wavesim.view.timeline_scene import packed

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
