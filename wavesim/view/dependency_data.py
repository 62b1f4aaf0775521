"""Which producer tiles and semaphores each consumer tile needs, laid out as tile grids side by side.

Example: 3 x 2 tiles of the first GEMM on the left, 3 x 2 of the second on the right; tile (1, 2) of the
second needs the two tiles of row 2, which share one semaphore.
"""

from dataclasses import dataclass

import numpy as np

from wavesim.errors import DescriptionError
from wavesim.model.dependency import Box, Dependency
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.plan import Plan
from wavesim.trace.trace import IntArray

Tile = tuple[int, int]
GAP_TILES, MIN_STEP_TILES = 1.6, 5.0


@dataclass(frozen=True)
class TileGrid:
    """One stage's tiles: position in processing order and semaphore group of each, (rows, columns).

    `group` of a producer tile is the semaphore it posts, of a consumer tile the first it awaits.
    `left` is where the grid begins, in tile widths; `needed` marks what the chosen consumer tile reads.
    """

    stage: Stage
    left: float
    order: IntArray
    group: IntArray
    needed: IntArray


@dataclass(frozen=True)
class DependencyParts:
    """The producers' grids and, last, the consumer's; the chosen tile and the boxes it reads.

    `awaited` are (policy, semaphore, value) of all semaphores that the chosen tile awaits.
    """

    grids: tuple[TileGrid, ...]
    dependency: Dependency
    tile: Tile
    boxes: tuple[tuple[int, Box], ...]
    awaited: tuple[tuple[str, int, int], ...]
    tiles: int

    @property
    def width(self) -> float:
        """Tile widths in all."""
        last = self.grids[-1]
        return last.left + last.stage.grid.x

    @property
    def height(self) -> int:
        """Tile rows of the tallest grid."""
        return max(grid.stage.grid.y for grid in self.grids)


def dependency_parts(
    pipeline: Pipeline, plan: Plan, consumer: str | None = None, tile: Tile | None = None
) -> DependencyParts:
    """The parts for one consumer stage (the first that has a dependency) and one of its tiles.

    Raises `DescriptionError` for a pipeline without dependencies, an unknown consumer and a tile
    outside its grid.
    """
    dependency = _dependency(pipeline, consumer)
    stage = dependency.consumer.stage
    chosen = tile if tile is not None else (0, stage.grid.y // 2)
    if not (0 <= chosen[0] < stage.grid.x and 0 <= chosen[1] < stage.grid.y):
        raise DescriptionError(
            f"tile is {chosen}; {stage.name} has tiles (0, 0) to {(stage.grid.x - 1, stage.grid.y - 1)}"
        )
    needs = set(dependency.producer_tiles(*chosen))
    tables = {name: _semaphores(pipeline, plan, name, stage.name) for name in dependency.producers}
    grids, left = [], 0.0
    for name in dependency.producers:
        producer = pipeline.stage(name)
        needed = np.array(
            [[(name, (x, y)) in needs for x in range(producer.grid.x)] for y in range(producer.grid.y)]
        )
        grids.append(TileGrid(producer, left, _order(plan, producer), tables[name], needed.astype(np.int64)))
        left += max(MIN_STEP_TILES, producer.grid.x + GAP_TILES * _gap(dependency))
    grids.append(_consumer_grid(dependency, plan, tables, left, chosen))
    boxes = tuple((dependency.producers.index(n.stage.name), n.box(*chosen)) for n in dependency.needs)
    awaited = {_awaited(plan, pipeline.stage(name), stage.name, need) for name, need in needs}
    return DependencyParts(tuple(grids), dependency, chosen, boxes, tuple(sorted(awaited)), len(needs))


def _awaited(plan: Plan, producer: Stage, consumer: str, tile: Tile) -> tuple[str, int, int]:
    policy = plan.policy_of(producer.name, consumer)
    return policy.name, policy.semaphore(*tile, producer.grid), policy.value(*tile, producer.grid)


def _gap(dependency: Dependency) -> float:
    """Wider gaps between wider grids, so that arrows stay readable."""
    widest = max(need.stage.grid.x for need in dependency.needs)
    return max(1.0, widest / 6)


def _dependency(pipeline: Pipeline, consumer: str | None) -> Dependency:
    if not pipeline.dependencies:
        raise DescriptionError(f"pipeline {pipeline.name} has no dependencies to draw")
    if consumer is None:
        return pipeline.dependencies[0]
    found = pipeline.dependency_of(consumer)
    if found is None:
        names = [dependency.consumer.stage.name for dependency in pipeline.dependencies]
        raise DescriptionError(f"stage {consumer!r} depends on nothing; these do: {names}")
    return found


def _order(plan: Plan, stage: Stage) -> IntArray:
    places = np.zeros((stage.grid.y, stage.grid.x), dtype=np.int64)
    for place, (x, y) in enumerate(plan.order_of(stage.name).sequence(stage.grid)):
        places[y, x] = place
    return places


def _semaphores(pipeline: Pipeline, plan: Plan, producer: str, consumer: str) -> IntArray:
    grid = pipeline.stage(producer).grid
    table = plan.policy_of(producer, consumer).table(grid)
    return np.array(table.semaphore_of_tile, dtype=np.int64).reshape(grid.y, grid.x)


def _consumer_grid(
    dependency: Dependency, plan: Plan, tables: dict[str, IntArray], left: float, tile: Tile
) -> TileGrid:
    stage = dependency.consumer.stage
    group = np.zeros((stage.grid.y, stage.grid.x), dtype=np.int64)
    for x, y in stage.grid:
        name, (px, py) = _first_need(dependency, x, y)
        group[y, x] = tables[name][py, px]
    needed = np.zeros_like(group)
    needed[tile[1], tile[0]] = 1
    return TileGrid(stage, left, _order(plan, stage), group, needed)


def _first_need(dependency: Dependency, x: int, y: int) -> tuple[str, Tile]:
    first = dependency.needs[0]
    x0, _, y0, _ = first.box(x, y)
    return first.stage.name, (x0, y0)
