"""Policies from a dependency: every way of sharing semaphores that may pay, from one per tile to one for all.

Example: the second GEMM of an MLP reads whole tile rows, so "tiles that are needed together" are the rows
and RowSync falls out; an attention score reads tiles x, x + 12 and x + 24, so tiles twelve columns apart
are needed together, and that is StridedSync. Coarser and finer groupings of each axis come with them.
Source: paper, IV-A and IV-B; its generator stops at one semaphore per tile and one per group of N.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from wavesim.codegen.reads import producer_tiles_by_consumer
from wavesim.codegen.tile_map import AxisMap, Blocks, Cycle, TileMap, fit_map
from wavesim.errors import DescriptionError
from wavesim.model.kernel import Grid
from wavesim.model.pipeline import Pipeline
from wavesim.plan.policy import Policy, RowSync, SemaphoreTable, TileSync, kept_table
from wavesim.plan.semaphores import Edge, edges_of
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.bounds import bounded_text

FEW_DIVISORS = 4


@dataclass(frozen=True)
class GroupedSync(Policy):
    """Tiles whose column groups and row groups are equal share a semaphore: a closed formula."""

    columns: AxisMap
    rows: AxisMap

    @property
    def name(self) -> str:
        match self.columns, self.rows:
            case Blocks(1), Blocks(1):
                return "tile"
            case Cycle(period), Blocks(1):
                return f"strided:{period}"
            case Cycle(period), Blocks(rows):
                return f"strided:{period}x{rows}"
            case Blocks(columns), Blocks(rows):
                return f"block:{columns}x{rows}"
            case Blocks(columns), Cycle(period):
                return f"rows-strided:{columns}x{period}"
        return f"strided:{self.columns}x{self.rows}"

    def semaphore(self, x: int, y: int, grid: Grid) -> int:
        return self.columns.index(x) + self.rows.index(y) * self.columns.count(grid.x)

    def value(self, x: int, y: int, grid: Grid) -> int:
        return self.columns.share(x, grid.x) * self.rows.share(y, grid.y)

    def table(self, grid: Grid) -> SemaphoreTable:
        return kept_table(self, grid)


@dataclass(frozen=True)
class ListedSync(Policy):
    """Tiles with equal numbers share a semaphore: for groupings that no formula gives."""

    label: str
    grid: Grid
    semaphores: tuple[int, ...]

    @property
    def name(self) -> str:
        return self.label

    def semaphore(self, x: int, y: int, grid: Grid) -> int:
        self._require(grid)
        return self.semaphores[y * grid.x + x]

    def value(self, x: int, y: int, grid: Grid) -> int:
        self._require(grid)
        return self.semaphores.count(self.semaphore(x, y, grid))

    def table(self, grid: Grid) -> SemaphoreTable:
        self._require(grid)
        posts = [0] * (max(self.semaphores) + 1)
        for semaphore in self.semaphores:
            posts[semaphore] += 1
        return SemaphoreTable(len(posts), self.semaphores, tuple(posts[s] for s in self.semaphores))

    def _require(self, grid: Grid) -> None:
        if (grid.x, grid.y) != (self.grid.x, self.grid.y):
            raise DescriptionError(
                f"policy {self.label} was derived for the grid {self.grid}, not {grid}; derive it again"
            )


@dataclass(frozen=True)
class DerivedPolicy:
    """One policy of one dependency, worked out; `formula` is None where only a table gives it.

    `paper_name` is what the paper calls it, "" if it has no name there.
    """

    edge: Edge
    policy: Policy
    table: SemaphoreTable
    formula: TileMap | None
    paper_name: str

    @property
    def name(self) -> str:
        """Short word for tables and file names."""
        return self.policy.name

    @property
    def values(self) -> tuple[int, ...]:
        """The value of each semaphore at which its tiles are ready."""
        return values_of(self.table)


def values_of(table: SemaphoreTable) -> tuple[int, ...]:
    """The value of each semaphore at which its tiles are ready."""
    values = [0] * table.count
    for semaphore, value in zip(table.semaphore_of_tile, table.value_of_tile, strict=True):
        values[semaphore] = value
    return tuple(values)


@typed
def derive_policies(pipeline: Pipeline, edge: Edge) -> tuple[DerivedPolicy, ...]:
    """All policies for one edge, finest first, no two of which group the tiles alike.

    Raises `DescriptionError` for an edge that the pipeline lacks.
    """
    if edge not in edges_of(pipeline):
        raise DescriptionError(
            f"pipeline {pipeline.name} has no dependency {edge}; it has {edges_of(pipeline)}"
        )
    grid = pipeline.stage(edge[0]).grid
    together = needed_together(pipeline, edge)
    periods = column_periods(pipeline, edge[0])
    policies: dict[tuple[int, ...], DerivedPolicy] = {}
    for policy in _candidates(grid, together, periods):
        table = policy.table(grid)
        key = renumbered(table.semaphore_of_tile)
        if key not in policies:
            name = _paper_name(policy, periods, pipeline, edge)
            policies[key] = DerivedPolicy(edge, policy, table, fit_map(table, grid), name)
    return tuple(sorted(policies.values(), key=lambda derived: -derived.table.count))


def policy_named(pipeline: Pipeline, edge: Edge, name: str) -> Policy:
    """The derived policy of that name. Raises `DescriptionError` that lists the names."""
    bounded_text("policy", name)
    derived = derive_policies(pipeline, edge)
    for entry in derived:
        if name and name in (entry.name, entry.paper_name):
            return entry.policy
    raise DescriptionError(
        f"policy is {name!r}; {edge[0]} to {edge[1]} has {', '.join(entry.name for entry in derived)}"
    )


def needed_together(pipeline: Pipeline, edge: Edge) -> tuple[int, ...]:
    """Per producer tile, row-major, the number of its group: those that the same consumer tiles read."""
    grid = pipeline.stage(edge[0]).grid
    readers: list[list[int]] = [[] for _ in range(grid.tiles)]
    for consumer, tiles in enumerate(producer_tiles_by_consumer(pipeline, edge)):
        for x, y in dict.fromkeys(tiles):
            readers[y * grid.x + x].append(consumer)
    return renumbered(tuple(tuple(entry) for entry in readers))


def column_periods(pipeline: Pipeline, producer: str) -> tuple[int, ...]:
    """Distances of columns that a consumer reads together and not their neighbours: strided dependencies."""
    periods = set()
    for consumer in pipeline.consumers_of(producer):
        dependency = pipeline.dependency_of(consumer)
        assert dependency is not None, "a consumer has a dependency"
        tiles = dependency.producer_tiles(0, 0)
        columns = sorted({tile[0] for name, tile in tiles if name == producer})
        steps = {right - left for left, right in pairwise(columns)}
        if len(steps) == 1:
            periods |= steps - {1}
    return tuple(sorted(periods))


def renumbered(groups: tuple[object, ...]) -> tuple[int, ...]:
    """The same grouping with groups numbered in order of first appearance."""
    numbers: dict[object, int] = {}
    return tuple(numbers.setdefault(group, len(numbers)) for group in groups)


def _candidates(grid: Grid, together: tuple[int, ...], periods: tuple[int, ...]) -> Iterator[Policy]:
    """Named ones first: where two group alike, the first gives the name."""
    yield TileSync()
    yield RowSync()
    table = ListedSync("together", grid, together).table(grid)
    formula = fit_map(table, grid)
    columns: list[AxisMap] = [Blocks(size) for size in group_sizes(grid.x)]
    columns += [Cycle(period) for period in periods]
    rows: list[AxisMap] = [Blocks(size) for size in group_sizes(grid.y)]
    if formula is None:
        yield ListedSync("together", grid, together)
    else:
        columns += [formula.columns] * (formula.columns not in columns)
        rows += [formula.rows] * (formula.rows not in rows)
    for column in columns:
        for row in rows:
            yield GroupedSync(column, row)


def group_sizes(extent: int) -> tuple[int, ...]:
    """Group sizes worth trying on an axis: its divisors, or powers of two where it has few."""
    divisors = {size for size in range(1, extent + 1) if extent % size == 0}
    if len(divisors) < FEW_DIVISORS:
        divisors |= {1 << bit for bit in range(extent.bit_length()) if 1 << bit < extent}
    return tuple(sorted(divisors))


def _paper_name(policy: Policy, periods: tuple[int, ...], pipeline: Pipeline, edge: Edge) -> str:
    if policy == TileSync():
        return "Conv2DTileSync" if pipeline.stage(edge[1]).work.is_shifted else "TileSync"
    if policy == RowSync():
        return "RowSync"
    return "StridedSync" if policy in [GroupedSync(Cycle(n), Blocks(1)) for n in periods] else ""
