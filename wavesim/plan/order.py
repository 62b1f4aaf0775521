"""Tile orders: which tile the i-th issued block computes.

Example: blocks draw numbers from a counter as they start; the order says which tile number 17
means. Row-major finishes tile rows one after another, which is what row semaphores want.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from wavesim.errors import DescriptionError
from wavesim.model.kernel import Grid, require_positive
from wavesim.safe_io.bounds import bounded_text, is_plain, plain_int, shown

Tile = tuple[int, int]
KNOWN_ORDERS = "row, column, grouped:ROWS, interleaved:ROWS, reversed:ORDER and slices-last:ORDER"


class Order(ABC):
    """A permutation of a grid's tiles; split-K slices of a tile follow each other (but `SlicesLast`)."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The word that `parse_order` reads back (not for functions of the user's)."""

    @abstractmethod
    def _tiles(self, grid: Grid) -> Sequence[Tile]:
        """All tiles (x, y) in processing order."""

    def sequence(self, grid: Grid) -> tuple[Tile, ...]:
        """All tiles (x, y) in processing order. Raises `DescriptionError` if that is no permutation."""
        tiles = tuple(self._tiles(grid))
        _check_permutation(self.name, tiles, grid)
        return tiles

    def blocks(self, grid: Grid) -> tuple[tuple[int, int, int], ...]:
        """All blocks (x, y, z) in processing order. Raises `DescriptionError` as `sequence` does."""
        return tuple((x, y, z) for x, y in self.sequence(grid) for z in range(grid.z))


def _is_permutation(tiles: tuple[Tile, ...], grid: Grid) -> bool:
    """Whether it plainly is one: pairs of integers, as many as there are tiles, and all of them."""
    return (
        len(tiles) == grid.tiles
        and set(map(type, tiles)) == {tuple}
        and set(map(type, chain.from_iterable(tiles))) == {int}
        and set(tiles) == set(grid)
    )


def _check_permutation(name: str, tiles: tuple[Tile, ...], grid: Grid) -> None:
    if _is_permutation(tiles, grid):
        return
    seen: set[Tile] = set()
    for position, tile in enumerate(tiles):
        is_pair = isinstance(tile, tuple) and len(tile) == 2
        is_pair = is_pair and isinstance(tile[0], int) and isinstance(tile[1], int)
        if not is_pair or not (0 <= tile[0] < grid.x and 0 <= tile[1] < grid.y):
            raise DescriptionError(f"order {name}: position {position} is {tile!r}, outside the grid {grid}")
        if tile in seen:
            raise DescriptionError(f"order {name}: tile {tile} comes twice, again at position {position}")
        seen.add(tile)
    if len(tiles) != grid.tiles:
        missing = next(tile for tile in grid if tile not in seen)
        raise DescriptionError(
            f"order {name}: {len(tiles)} tiles for a grid of {grid.tiles}; {missing} is missing. List "
            "every tile once"
        )


@dataclass(frozen=True)
class RowMajor(Order):
    """Row after row, columns from left to right."""

    @property
    def name(self) -> str:
        return "row"

    def _tiles(self, grid: Grid) -> Sequence[Tile]:
        return tuple(grid)


@dataclass(frozen=True)
class ColumnMajor(Order):
    """Column after column, rows from top to bottom."""

    @property
    def name(self) -> str:
        return "column"

    def _tiles(self, grid: Grid) -> Sequence[Tile]:
        return tuple((x, y) for x in range(grid.x) for y in range(grid.y))


@dataclass(frozen=True)
class Grouped(Order):
    """Groups of `rows` tile rows, column by column inside a group: keeps A and B panels in the L2."""

    rows: int = 8

    def __post_init__(self) -> None:
        require_positive("Grouped", rows=self.rows)

    @property
    def name(self) -> str:
        return f"grouped:{self.rows}"

    def _tiles(self, grid: Grid) -> Sequence[Tile]:
        return tuple(
            (x, y)
            for top in range(0, grid.y, self.rows)
            for x in range(grid.x)
            for y in range(top, min(top + self.rows, grid.y))
        )


@dataclass(frozen=True)
class Interleaved(Order):
    """Tile rows 0, `rows`, 2 * `rows`, ..., then 1, `rows` + 1, ...: the first of every `rows` rows first.

    Example: causal attention to four sequences of 8 row blocks each: `Interleaved(8)` begins with the first
    block of all sequences, which read the fewest keys; reversed, the tiles with the most work come first.
    """

    rows: int

    def __post_init__(self) -> None:
        require_positive("Interleaved", rows=self.rows)

    @property
    def name(self) -> str:
        return f"interleaved:{self.rows}"

    def _tiles(self, grid: Grid) -> Sequence[Tile]:
        return tuple(
            (x, y)
            for first in range(min(self.rows, grid.y))
            for y in range(first, grid.y, self.rows)
            for x in range(grid.x)
        )


@dataclass(frozen=True)
class Reversed(Order):
    """Another order, last tile first."""

    order: Order = RowMajor()

    @property
    def name(self) -> str:
        return f"reversed:{self.order.name}"

    def _tiles(self, grid: Grid) -> Sequence[Tile]:
        return self.order.sequence(grid)[::-1]


@dataclass(frozen=True)
class SlicesLast(Order):
    """Another order, walked once per split-K slice: how hardware issues a grid, with z slowest."""

    order: Order = RowMajor()

    @property
    def name(self) -> str:
        return f"slices-last:{self.order.name}"

    def _tiles(self, grid: Grid) -> Sequence[Tile]:
        return self.order.sequence(grid)

    def blocks(self, grid: Grid) -> tuple[tuple[int, int, int], ...]:
        return tuple((x, y, z) for z in range(grid.z) for x, y in self.sequence(grid))


@dataclass(frozen=True)
class CustomOrder(Order):
    """A user's own function from a grid to its tiles (x, y) in processing order."""

    label: str
    tiles: Callable[[Grid], Sequence[Tile]]

    @property
    def name(self) -> str:
        return self.label

    def _tiles(self, grid: Grid) -> Sequence[Tile]:
        try:
            return tuple(self.tiles(grid))
        except Exception as error:
            raise DescriptionError(f"order {self.label} failed on the grid {grid}: {error!r}") from error


def parse_order(text: str) -> Order:
    """The order that a word names: "row", "column", "grouped:8", "reversed:row", "slices-last:row"."""
    bounded_text("order", text, example=KNOWN_ORDERS)
    head, colon, rest = text.partition(":")
    if colon and not rest:
        raise DescriptionError(f"order is {shown(text)}; known are {KNOWN_ORDERS}")
    if head == "row" and not rest:
        return RowMajor()
    if head == "column" and not rest:
        return ColumnMajor()
    if head == "grouped" and (not rest or is_plain(rest)):
        return Grouped(plain_int(rest)) if rest else Grouped()
    if head == "interleaved" and is_plain(rest):
        return Interleaved(plain_int(rest))
    if head == "reversed":
        return Reversed(parse_order(rest) if rest else RowMajor())
    if head == "slices-last":
        return SlicesLast(parse_order(rest) if rest else RowMajor())
    raise DescriptionError(f"order is {shown(text)}; known are {KNOWN_ORDERS}")
