"""Dependencies: which producer tiles a consumer tile reads, written like the maths.

Picture: in an MLP, tile (x, y) of the second GEMM reads the whole tile row y of the first:
`Dependency(consumer=gemm2[x, y], needs=[gemm1[:, y]])`. In attention it reads two single tiles:
`needs=[gemm1[x, y], gemm1[x + 12, y]]`.

A slice is walked in step with the consumer's own work (its K loop): of n tiles, the j-th is
needed once j/n of the consumer tile is done. A plain index is needed at the start.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Union

from wavesim.errors import DescriptionError
from wavesim.model.kernel import Grid

if TYPE_CHECKING:
    from wavesim.model.pipeline import Stage


@dataclass(frozen=True)
class Index:
    """An expression over the consumer's x and y: sums, products with and floor division by integers."""

    operator: str
    operands: tuple[Union["Index", int, str], ...]

    def __add__(self, other: Union["Index", int]) -> "Index":
        return Index("+", (self, as_index(other)))

    def __radd__(self, other: int) -> "Index":
        return as_index(other) + self

    def __sub__(self, other: Union["Index", int]) -> "Index":
        return self + as_index(other) * -1

    def __mul__(self, factor: int) -> "Index":
        if not isinstance(factor, int):
            raise DescriptionError(f"({self}) * ({factor}) is not affine; multiply by an integer")
        return Index("*", (self, factor))

    __rmul__ = __mul__

    def __floordiv__(self, divisor: int) -> "Index":
        if not isinstance(divisor, int) or divisor < 1:
            raise DescriptionError(f"({self}) // ({divisor}): the divisor must be an integer of at least 1")
        return Index("//", (self, divisor))

    def at_most(self, bound: int) -> "Index":
        """The expression, cut off at a bound: for edge tiles."""
        return Index("min", (self, bound))

    def evaluate(self, x: int, y: int) -> int:
        """The value for one consumer tile."""
        values = [part.evaluate(x, y) if isinstance(part, Index) else part for part in self.operands]
        match self.operator, values:
            case "dim", [name]:
                return x if name == "x" else y
            case "const", [int(value)]:
                return value
            case "+", [int(left), int(right)]:
                return left + right
            case "*", [int(left), int(right)]:
                return left * right
            case "//", [int(left), int(right)]:
                return left // right
            case "min", [int(left), int(right)]:
                return min(left, right)
        raise DescriptionError(f"index expression {self.operator}{self.operands} is not understood")

    def uses(self, name: str) -> bool:
        """Whether the value depends on dimension `name`."""
        return any(part.uses(name) if isinstance(part, Index) else part == name for part in self.operands)

    def __str__(self) -> str:
        if self.operator in ("dim", "const"):
            return str(self.operands[0])
        if self.operator == "min":
            return f"min({self.operands[0]}, {self.operands[1]})"
        return f"({self.operands[0]} {self.operator} {self.operands[1]})"


def as_index(value: Index | int) -> Index:
    """An integer or expression as an expression."""
    if isinstance(value, Index):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Index("const", (value,))
    raise DescriptionError(f"tile index is {value!r}; use x, y, integers, or slices of them")


x = Index("dim", ("x",))
y = Index("dim", ("y",))


@dataclass(frozen=True)
class Axis:
    """One coordinate of a tile set: from start up to, not including, stop. None means the grid's edge."""

    start: Index
    stop: Index | None
    is_slice: bool

    def resolve(self, cx: int, cy: int, extent: int) -> tuple[int, int]:
        """The half-open range that consumer tile (cx, cy) reads on a grid of this extent."""
        start = self.start.evaluate(cx, cy)
        if not self.is_slice:
            return start, start + 1
        return start, extent if self.stop is None else self.stop.evaluate(cx, cy)

    def uses(self, name: str) -> bool:
        """Whether the range depends on dimension `name` of the consumer."""
        return self.start.uses(name) or (self.stop is not None and self.stop.uses(name))

    def __str__(self) -> str:
        if not self.is_slice:
            return str(self.start)
        is_from_zero = self.start == as_index(0)
        return f"{'' if is_from_zero else self.start}:{'' if self.stop is None else self.stop}"


def _axis(key: object) -> Axis:
    if isinstance(key, slice):
        if key.step is not None:
            raise DescriptionError(f"tile slice {key} has a step; write several needs instead")
        start = as_index(0 if key.start is None else key.start)
        return Axis(start, None if key.stop is None else as_index(key.stop), is_slice=True)
    return Axis(as_index(key), None, is_slice=False)  # type: ignore[arg-type]  # as_index refuses the rest


Box = tuple[int, int, int, int]  # x from, x to, y from, y to; half-open


@dataclass(frozen=True)
class TileSet:
    """Tiles of one stage as a function of the consumer's x and y; made by `stage[..., ...]`."""

    stage: "Stage"
    columns: Axis
    rows: Axis

    @classmethod
    def of(cls, stage: "Stage", key: tuple[object, object]) -> "TileSet":
        """What `stage[key]` means. Raises `DescriptionError` unless there are two indices."""
        if not isinstance(key, tuple) or len(key) != 2:
            raise DescriptionError(f"{stage.name}[{key}]: a tile has two indices, [x, y]")
        return cls(stage, _axis(key[0]), _axis(key[1]))

    def box(self, cx: int, cy: int) -> Box:
        """The rectangle of producer tiles that consumer tile (cx, cy) reads."""
        grid = self.stage.grid
        return (*self.columns.resolve(cx, cy, grid.x), *self.rows.resolve(cx, cy, grid.y))

    def uses(self, name: str) -> bool:
        """Whether the set depends on dimension `name` of the consumer."""
        return self.columns.uses(name) or self.rows.uses(name)

    def walk(self, box: Box) -> Iterator[tuple[int, int, tuple[int, int]]]:
        """(j, n, producer tile): the tile is needed once j/n of the consumer's work is done.

        The walk goes along x if x is a slice, else along y; the other coordinate is needed at once.
        """
        x0, x1, y0, y1 = box
        if self.columns.is_slice:
            for i in range(x0, x1):
                yield from ((i - x0, x1 - x0, (i, j)) for j in range(y0, y1))
        else:
            yield from ((j - y0, y1 - y0, (i, j)) for j in range(y0, y1) for i in range(x0, x1))

    def __str__(self) -> str:
        return f"{self.stage.name}[{self.columns}, {self.rows}]"


@dataclass(frozen=True)
class Dependency:
    """What every tile of `consumer` reads; bounds are checked for every tile when it is built.

    `consumer` is `stage[x, y]`; `needs` are tile sets of one or more producer stages.
    """

    consumer: TileSet
    needs: Sequence[TileSet]

    def __post_init__(self) -> None:
        object.__setattr__(self, "needs", tuple(self.needs))
        if str(self.consumer.columns) != "x" or str(self.consumer.rows) != "y":
            raise DescriptionError(
                f"consumer is {self.consumer}; write it as {self.consumer.stage.name}[x, y]"
            )
        if not self.needs:
            raise DescriptionError(
                f"{self.consumer.stage.name}: needs is empty; name the producer tiles it reads"
            )
        for need in self.needs:
            if need.stage.name == self.consumer.stage.name:
                raise DescriptionError(f"{need}: stage {need.stage.name} cannot need its own tiles")
            check_bounds(need, self.consumer.stage.grid)

    @property
    def producers(self) -> tuple[str, ...]:
        """Names of the stages it reads, each once."""
        return tuple(dict.fromkeys(need.stage.name for need in self.needs))

    def producer_tiles(self, cx: int, cy: int) -> list[tuple[str, tuple[int, int]]]:
        """(producer stage, its tile) of all that consumer tile (cx, cy) reads, in the order it reads them."""
        found = [
            (j / n, need.stage.name, tile)
            for need in self.needs
            for j, n, tile in need.walk(need.box(cx, cy))
        ]
        return [(stage, tile) for _, stage, tile in sorted(found, key=lambda entry: entry[0])]

    def __str__(self) -> str:
        return f"{self.consumer} needs {', '.join(str(need) for need in self.needs)}"


def check_bounds(need: TileSet, consumer_grid: Grid) -> None:
    """Raises `DescriptionError` with the first consumer tile that reads outside the producer's grid."""
    grid = need.stage.grid
    for cy in range(consumer_grid.y if need.uses("y") else 1):
        for cx in range(consumer_grid.x if need.uses("x") else 1):
            x0, x1, y0, y1 = need.box(cx, cy)
            for axis, start, stop, bound in (("x", x0, x1, grid.x), ("y", y0, y1, grid.y)):
                if start < 0 or stop > bound or start >= stop:
                    raise DescriptionError(
                        f"{need} for consumer tile {(cx, cy)}: {axis} from {start} up to {stop}, outside "
                        f"0 to {bound} of the producer's grid {grid}. Correct the index or the grids"
                    )


def gemm_rows(producer: "Stage", consumer: "Stage") -> Dependency:
    """The dependency of a GEMM on the GEMM that makes its A operand: all tile columns of the rows it reads.

    Tile heights may differ; the rows are then those that overlap. Raises `DescriptionError`
    unless the consumer's k is the producer's n and both have the same m.
    """
    first, second = producer.gemm, consumer.gemm
    if first.n != second.k or first.m != second.m:
        raise DescriptionError(
            f"{consumer.name} reads A ({second.m}, {second.k}) but {producer.name} makes ({first.m}, "
            f"{first.n}); "
            "they must be equal"
        )
    if first.tile_m == second.tile_m:
        return Dependency(consumer[x, y], [producer[:, y]])
    top = (y * second.tile_m) // first.tile_m
    end = (y * second.tile_m + (second.tile_m + first.tile_m - 1)) // first.tile_m
    return Dependency(consumer[x, y], [producer[:, top : end.at_most(producer.grid.y)]])
