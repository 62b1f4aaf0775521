"""Tile orders from dependencies: producers of one consumer tile consecutive, consumers as they become ready.

Example: an attention score (x, y) reads tiles x, x + 12 and x + 24 of the projection; the derived order
makes those three one after another, then the three of the next score. A chain is worked backwards: the
last consumer's order gives its producer's, which gives the one before.

Source: paper, IV-A. The code printed there (`linear / N + y`, tests such as `tile.y % a0 <= b0`) is wrong: it
gives N neighbouring tiles of a group the same number and so is no permutation, and the test does not find
which of the N a tile is (with a0 = 1 every tile passes it). What it means to do is done here by listing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wavesim.codegen.reads import reads_in_order
from wavesim.errors import DescriptionError
from wavesim.model.kernel import Grid
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.order import ColumnMajor, Grouped, Order, Reversed, RowMajor, Tile

UNEQUAL_ORDERS = (Reversed(RowMajor()), ColumnMajor(), Reversed(ColumnMajor()))
L2_ROWS = (2, 4, 8, 16)  # groups of rows that keep A and B panels in the L2; 4 and 8 were best on an H200


@dataclass(frozen=True)
class DerivedOrder(Order):
    """An order worked out for one grid, tile by tile."""

    label: str
    grid: Grid
    tiles: tuple[Tile, ...]

    @property
    def name(self) -> str:
        return self.label

    def _tiles(self, grid: Grid) -> Sequence[Tile]:
        if (grid.x, grid.y) != (self.grid.x, self.grid.y):
            raise DescriptionError(
                f"order {self.label} was derived for the grid {self.grid}, not {grid}; derive it again"
            )
        return self.tiles


def orders_backward(pipeline: Pipeline, last: Order | None = None) -> dict[str, Order]:
    """An order per stage such that a consumer's tiles become ready in the order it takes them.

    A producer's tiles follow in the order in which its consumers, first launched first, read them; tiles
    that nobody reads come at the end. Stages that nobody reads take `last`; without it they are row-major,
    and tiles that become ready earlier than those before them come earlier.
    """
    orders: dict[str, Order] = {}
    for stage in reversed(pipeline.stages):
        wanted: dict[Tile, None] = {}
        for consumer in pipeline.consumers_of(stage.name):
            sequence = orders[consumer].sequence(pipeline.stage(consumer).grid)
            wanted |= dict.fromkeys(reads_in_order(pipeline, consumer, sequence)[stage.name])
        if wanted:
            tiles = tuple(wanted | dict.fromkeys(stage.grid))
            orders[stage.name] = recognised("derived", stage.grid, tiles)
        else:
            orders[stage.name] = RowMajor() if last is None else last
    if last is None:
        for stage in pipeline.stages:
            if pipeline.dependency_of(stage.name) and not pipeline.consumers_of(stage.name):
                orders[stage.name] = _by_readiness(pipeline, stage, orders)
    return {stage.name: orders[stage.name] for stage in pipeline.stages}


def orders_forward(pipeline: Pipeline, first: Order) -> dict[str, Order]:
    """First stages take `first`; every consumer's tiles follow in the order in which they become ready."""
    orders: dict[str, Order] = {}
    for stage in pipeline.stages:
        if pipeline.dependency_of(stage.name) is None:
            orders[stage.name] = first
        else:
            orders[stage.name] = _by_readiness(pipeline, stage, orders)
    return orders


def _by_readiness(pipeline: Pipeline, stage: Stage, orders: Mapping[str, Order]) -> Order:
    ready = ready_positions(pipeline, stage.name, orders)
    return recognised("ready", stage.grid, tuple(sorted(stage.grid, key=ready.__getitem__)))


def ready_positions(pipeline: Pipeline, consumer: str, orders: Mapping[str, Order]) -> dict[Tile, float]:
    """When each consumer tile can be done: the largest share of any producer that must be, 0 to 1."""
    dependency = pipeline.dependency_of(consumer)
    assert dependency is not None, "callers ask for consumers only"
    place: dict[tuple[str, Tile], float] = {}
    for name in dependency.producers:
        tiles = orders[name].sequence(pipeline.stage(name).grid)
        place |= {(name, tile): (i + 1) / len(tiles) for i, tile in enumerate(tiles)}
    uses_x = any(need.uses("x") for need in dependency.needs)
    uses_y = any(need.uses("y") for need in dependency.needs)
    known: dict[Tile, float] = {}
    ready = {}
    for x, y in pipeline.stage(consumer).grid:
        key = (x if uses_x else 0, y if uses_y else 0)
        if key not in known:
            known[key] = max(place[entry] for entry in dependency.producer_tiles(x, y))
        ready[x, y] = known[key]
    return ready


def order_sets(pipeline: Pipeline) -> dict[str, dict[str, Order]]:
    """Named choices of an order for every stage, no two alike on this pipeline's grids.

    "row" and "column"; "derived", worked back from a row-major last stage; "grouped:N", which serve the
    L2; "derived grouped:N", worked back from a grouped last stage; "ready grouped:N", worked forward. Of
    causal attention "row" takes short rows of keys first, "row attention=reversed:row" the longest, and
    "row attention=column" one head after the other.
    """
    names = [stage.name for stage in pipeline.stages]
    sets: dict[str, dict[str, Order]] = {"row": dict.fromkeys(names, RowMajor())}
    sets["derived"] = orders_backward(pipeline)
    for rows in L2_ROWS:
        sets[f"grouped:{rows}"] = dict.fromkeys(names, Grouped(rows))
    sets["column"] = dict.fromkeys(names, ColumnMajor())
    for rows in L2_ROWS[1:3]:
        sets[f"derived grouped:{rows}"] = orders_backward(pipeline, Grouped(rows))
        sets[f"ready grouped:{rows}"] = orders_forward(pipeline, Grouped(rows))
    for stage in pipeline.stages:
        if has_unequal_rows(stage):
            for order in UNEQUAL_ORDERS:
                sets[f"row {stage.name}={order.name}"] = {**sets["row"], stage.name: order}
    kept: dict[tuple[tuple[Tile, ...], ...], str] = {}
    for name, orders in sets.items():
        kept.setdefault(sequences(pipeline, orders), name)
    return {name: sets[name] for name in kept.values()}


def has_unequal_rows(stage: Stage) -> bool:
    """Whether tiles of some rows have more to do than those of others: causal attention."""
    return bool(stage.work.row_weights)


def sequences(pipeline: Pipeline, orders: Mapping[str, Order]) -> tuple[tuple[Tile, ...], ...]:
    """Every stage's tiles in processing order. Raises `DescriptionError` for an order that is none."""
    return tuple(orders[stage.name].sequence(stage.grid) for stage in pipeline.stages)


def recognised(label: str, grid: Grid, tiles: tuple[Tile, ...]) -> Order:
    """A known order if the tiles are in it, so that code and names stay simple; else the list itself."""
    known: list[Order] = [RowMajor(), ColumnMajor(), *(Grouped(rows) for rows in range(2, min(grid.y, 65)))]
    for order in known:
        if order.sequence(grid) == tiles:
            return order
    return DerivedOrder(label, grid, tiles)
