"""Orders and policies as C++ formulas of `columns` and `rows`, the grid's extents.

Example: `Grouped(8)` becomes three lines of arithmetic, `TileSync` the formula `x + y * columns`. With
the extents known formulas come out simpler, `x % 12 + y * 12` and not `x % 12 + y * smaller(12, columns)`;
with extents that are known only at run time the same function serves every grid.
"""

from dataclasses import dataclass

from wavesim.codegen.policies import GroupedSync
from wavesim.codegen.tile_map import AxisMap, Blocks, TileMap, Whole
from wavesim.model.kernel import Grid
from wavesim.plan.order import ColumnMajor, Grouped, Interleaved, Order, Reversed, RowMajor, SlicesLast
from wavesim.plan.policy import GridSync, Policy, RowSync, TileSync
from wavesim.safe_io.escaping import literal


@dataclass(frozen=True)
class PolicyFormula:
    """C++ for the semaphore and the value of tile (x, y), and for the number of semaphores."""

    semaphore: str
    value: str
    count: str


def order_formula(order: Order) -> list[str] | None:
    """Lines that set x and y of tile number `place`, or None where only a table can say it."""
    match order.order if isinstance(order, SlicesLast) else order:
        case RowMajor():
            return ["const int x = place % columns, y = place / columns;"]
        case ColumnMajor():
            return ["const int x = place / rows, y = place % rows;"]
        case Grouped(height):
            return [
                f"const int tall = smaller({literal(height)}, rows);",
                "const int group = place / (tall * columns), within = place % (tall * columns);",
                "const int height = smaller(tall, rows - group * tall);",
                "const int x = within / height, y = group * tall + within % height;",
            ]
        case Interleaved(height):
            return _interleaved(height)
        case Reversed(inner):
            formula = order_formula(inner)
            return None if formula is None else ["place = columns * rows - 1 - place;", *formula]
    return None


def _interleaved(height: int) -> list[str]:
    """The first rows % height runs of rows are one longer than the others."""
    return [
        f"const int tall = smaller({literal(height)}, rows), line = place / columns;",
        "const int each = rows / tall, longer = rows % tall * (each + 1);",
        "const int first = line < longer ? line / (each + 1) : rows % tall + (line - longer) / each;",
        "const int nth = line < longer ? line % (each + 1) : (line - longer) % each;",
        "const int x = place % columns, y = first + nth * tall;",
    ]


def policy_formula(policy: Policy, grid: Grid | None) -> PolicyFormula | None:
    """The formula of a policy whose groups are known on every grid, or None. `grid` None: any grid."""
    axes = _axes_of(policy)
    if axes is None:
        return None
    columns = _Axis(axes[0], "x", "columns", grid.x if grid else None)
    rows = _Axis(axes[1], "y", "rows", grid.y if grid else None)
    row_index = _product(rows.index, columns.count) if rows.index else ""
    return PolicyFormula(
        semaphore=" + ".join(part for part in (columns.index, row_index) if part) or "0",
        value=_product(columns.share, rows.share),
        count=_product(columns.count, rows.count),
    )


def _axes_of(policy: Policy) -> tuple[AxisMap, AxisMap] | None:
    match policy:
        case TileSync():
            return Blocks(1), Blocks(1)
        case RowSync():
            return Whole(), Blocks(1)
        case GridSync():
            return Whole(), Whole()
        case GroupedSync(columns, rows):
            return columns, rows
    return None


def fitted_formula(fitted: TileMap, grid: Grid) -> PolicyFormula:
    """The formula that a table on one grid turned out to have."""
    columns = _Axis(fitted.columns, "x", "columns", grid.x)
    rows = _Axis(fitted.rows, "y", "rows", grid.y)
    terms = [
        _product(axis.index, literal(stride))
        for axis, stride in ((columns, fitted.column_stride), (rows, fitted.row_stride))
        if stride and axis.index
    ]
    terms += [literal(fitted.base)] if fitted.base or not terms else []
    return PolicyFormula(" + ".join(terms), _product(columns.share, rows.share), "")


def _product(left: str, right: str) -> str:
    return " * ".join([factor for factor in (left, right) if factor != "1"] or ["1"])


@dataclass(frozen=True)
class _Axis:
    """One axis of a grouping in C++: coordinate `name`, and `word` for its extent, None if not known."""

    groups: AxisMap
    name: str
    word: str
    extent: int | None

    @property
    def index(self) -> str:
        """The number of the group, "" where all coordinates share one."""
        if self.extent is not None and self.groups.count(self.extent) == 1:
            return ""
        match self.groups:
            case Whole():
                return ""
            case Blocks(size):
                return self.name if size == 1 else f"{self.name} / {literal(size)}"
        is_apart = self.extent is not None and self.groups.period >= self.extent
        return self.name if is_apart else f"{self.name} % {literal(self.groups.period)}"

    @property
    def count(self) -> str:
        """How many groups there are."""
        match self.groups:
            case Whole():
                return "1"
            case Blocks(1):
                return self.word
        if self.extent is not None:
            return str(self.groups.count(self.extent))
        if isinstance(self.groups, Blocks):
            return f"(({self.word} - 1) / {literal(self.groups.size)} + 1)"
        return f"smaller({literal(self.groups.period)}, {self.word})"

    @property
    def share(self) -> str:
        """How many coordinates are in the group; a constant where all groups are equally large."""
        match self.groups:
            case Whole():
                return self.word
            case Blocks(1):
                return "1"
        if self.extent is not None:
            shares = {self.groups.share(i, self.extent) for i in range(self.extent)}
            if len(shares) == 1:
                return self.word if shares == {self.extent} and self.extent > 1 else str(min(shares))
        if isinstance(self.groups, Blocks):
            size = literal(self.groups.size)
            return f"smaller({size}, {self.word} - {self.name} / {size} * {size})"
        period = literal(self.groups.period)
        return f"(({self.word} - 1 - {self.name} % {period}) / {period} + 1)"
