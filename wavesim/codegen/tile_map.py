"""Tile maps: a semaphore number as a closed formula of a tile's column and row.

Example: on a grid of 24 columns, `TileMap(Blocks(24), Blocks(1), 0, 1)` is RowSync, semaphore = y;
`TileMap(Cycle(12), Blocks(1), 1, 12)` is the attention layer's StridedSync, semaphore = x % 12 + 12 * y.
Where a policy has such a formula the generated CUDA computes it; any other becomes a table.
"""

from dataclasses import dataclass
from functools import cached_property

from wavesim.model.kernel import Grid, require_positive
from wavesim.plan.policy import SemaphoreTable


@dataclass(frozen=True)
class Blocks:
    """Neighbours along an axis share: index i // size. Size 1 keeps all apart, the extent joins all."""

    size: int

    def __post_init__(self) -> None:
        require_positive("Blocks", size=self.size)

    def index(self, i: int) -> int:
        """The number of the group that coordinate i belongs to."""
        return i // self.size

    def count(self, extent: int) -> int:
        """How many groups an axis of this extent has."""
        return -(-extent // self.size)

    def share(self, i: int, extent: int) -> int:
        """How many coordinates are in the group of i; fewer in a last, partly filled group."""
        return min(self.size, extent - i // self.size * self.size)


@dataclass(frozen=True)
class Cycle:
    """Coordinates a period apart share: index i % period."""

    period: int

    def __post_init__(self) -> None:
        require_positive("Cycle", period=self.period)

    def index(self, i: int) -> int:
        """The number of the group that coordinate i belongs to."""
        return i % self.period

    def count(self, extent: int) -> int:
        """How many groups an axis of this extent has."""
        return min(self.period, extent)

    def share(self, i: int, extent: int) -> int:
        """How many coordinates are in the group of i."""
        return (extent - i % self.period + self.period - 1) // self.period


@dataclass(frozen=True)
class Whole:
    """All coordinates of an axis share, however many there are."""

    def index(self, i: int) -> int:  # as the others
        """The number of the group that coordinate i belongs to."""
        return 0

    def count(self, extent: int) -> int:  # as the others
        """How many groups an axis of this extent has."""
        return 1

    def share(self, i: int, extent: int) -> int:  # as the others
        """How many coordinates are in the group of i."""
        return extent


AxisMap = Blocks | Cycle | Whole


@dataclass(frozen=True)
class TileMap:
    """Semaphore = base + column group * column_stride + row group * row_stride."""

    columns: AxisMap
    rows: AxisMap
    column_stride: int
    row_stride: int
    base: int = 0

    def semaphore(self, x: int, y: int) -> int:
        """The semaphore of tile (x, y)."""
        return self.base + self.columns.index(x) * self.column_stride + self.rows.index(y) * self.row_stride

    def value(self, x: int, y: int, grid: Grid) -> int:
        """How many tiles are in both groups of tile (x, y)."""
        return self.columns.share(x, grid.x) * self.rows.share(y, grid.y)


@dataclass(frozen=True)
class _Line:
    """One axis of a table: its semaphores along row 0 or column 0, less the first of them."""

    steps: tuple[int, ...]

    @cached_property
    def fitted(self) -> tuple[AxisMap, int] | None:
        """The axis map and stride that give these numbers, or None."""
        extent = len(self.steps)
        change = next((i for i in range(extent) if self.steps[i] != 0), None)
        if change is None:
            return Blocks(extent), 0
        stride = self.steps[change]
        again = next((i for i in range(change, extent) if self.steps[i] == 0), None)
        candidates: list[AxisMap] = [Blocks(change)]
        if again is not None and change == 1:
            candidates = [Cycle(again)]
        for candidate in candidates:
            if all(candidate.index(i) * stride == step for i, step in enumerate(self.steps)):
                return candidate, stride
        return None


def fit_map(table: SemaphoreTable, grid: Grid) -> TileMap | None:
    """The formula that gives a whole policy table, semaphores and values, or None if there is none."""
    numbers = table.semaphore_of_tile
    base = numbers[0]
    columns = _Line(tuple(number - base for number in numbers[: grid.x])).fitted
    rows = _Line(tuple(number - base for number in numbers[:: grid.x])).fitted
    if columns is None or rows is None:
        return None
    fitted = TileMap(columns[0], rows[0], columns[1], rows[1], base)
    tiles = zip(grid, numbers, table.value_of_tile, strict=True)
    is_same = all(fitted.semaphore(x, y) == n and fitted.value(x, y, grid) == v for (x, y), n, v in tiles)
    return fitted if is_same else None
