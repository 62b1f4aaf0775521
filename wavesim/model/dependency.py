"""Dependencies: which producer tiles a consumer tile reads, written like the maths.

Example: in an MLP, tile (x, y) of the second GEMM reads the whole tile row y of the first:
`Dependency(consumer=gemm2[x, y], needs=[gemm1[:, y]])`. In attention it reads two single tiles:
`needs=[gemm1[x, y], gemm1[x + 12, y]]`; after a SwiGLU whose gate and value two GEMMs compute, one row of
each: `needs=[gate[:, y], up[:, y]]`.

The consumer may be named in other ways where that reads better: `scores[y, x]` is transposed,
`gemm2[x, 3 - y]` counts from the bottom, `gemm2[2 * x : 2 * x + 2, y]` describes two columns at
once, `gemm2[:, y]` a whole row. What is stored is always in terms of the consumer's [x, y].
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from wavesim.errors import DescriptionError
from wavesim.model.index import Index, as_index, x, y
from wavesim.model.kernel import Grid
from wavesim.model.reprs import repr_text
from wavesim.model.stage import Axis, Box, TileSet
from wavesim.safe_io.annotated import tuple_of
from wavesim.safe_io.bounds import MOST_BLOCKS, MOST_READS, MOST_TERMS, whole

DIMENSIONS = {"x": x, "y": y}
PROBES = ((0, 0), (1, 0), (0, 1), (7, 11), (16, 5))  # where an affine expression is compared with its formula


def consumer_coordinates(consumer: TileSet, needs: Sequence[TileSet]) -> dict[str, Index]:
    """What x and y of a dependency are, as expressions of the consumer tile's own coordinates.

    Raises `DescriptionError` if the consumer's indices do not name each of its tiles exactly once.
    """
    found: dict[str, Index] = {}
    for axis, own, extent in (
        (consumer.columns, x, consumer.stage.grid.x),
        (consumer.rows, y, consumer.stage.grid.y),
    ):
        meaning = _meaning(axis, own, extent, consumer)
        for name, value in meaning.items():
            if name in found:
                raise DescriptionError(f"consumer is {consumer}; {name} stands for its column and its row")
            found[name] = value
    for need in needs:
        for name in DIMENSIONS:
            if need.uses(name) and name not in found:
                raise DescriptionError(f"{need}: {name} is not an index of the consumer {consumer}")
    return found


def _meaning(axis: Axis, own: Index, extent: int, consumer: TileSet) -> dict[str, Index]:
    """Which dimension an index of the consumer names, and what that dimension then is."""
    if axis.is_slice and axis.stop is None and str(axis) == ":":
        return {}
    name, scale, offset = _linear(axis.start, consumer)
    if not axis.is_slice and scale == 1:
        return {name: own - offset if offset else own}
    if not axis.is_slice and scale == -1:
        return {name: offset - own}
    is_run = axis.is_slice and axis.stop is not None and axis.step == 1 and offset == 0 and scale > 0
    if is_run and axis.stop is not None and _linear(axis.stop, consumer) == (name, scale, scale):
        if extent % scale:
            raise DescriptionError(
                f"consumer is {consumer}: runs of {scale} tiles do not fill its grid {consumer.stage.grid}"
            )
        return {name: own // scale}
    fix = f"[{scale} * {name} : {scale} * {name} + {scale}]" if scale > 1 else "[x, y]"
    raise DescriptionError(
        f"consumer is {consumer}; it must name each of its tiles once. Write x or y, n - x, a run such as "
        f"{fix}, or :, and put other scales on the needs"
    )


def _linear(index: Index, consumer: TileSet) -> tuple[str, int, int]:
    """(dimension, scale, offset) of `scale * dimension + offset`. Raises `DescriptionError`."""
    offset = index.evaluate(0, 0)
    scales = {"x": index.evaluate(1, 0) - offset, "y": index.evaluate(0, 1) - offset}
    is_linear = all(
        index.evaluate(px, py) == scales["x"] * px + scales["y"] * py + offset for px, py in PROBES
    )
    used = [name for name, scale in scales.items() if scale]
    if not is_linear or len(used) != 1:
        raise DescriptionError(
            f"consumer is {consumer}; each index must be one of x and y with a scale and an offset, such as "
            f"{consumer.stage.name}[x, y]"
        )
    return used[0], scales[used[0]], offset


__all__ = [
    "Axis",
    "Box",
    "Dependency",
    "Index",
    "TileSet",
    "as_index",
    "check_bounds",
    "require_few_reads",
    "x",
    "y",
]


@dataclass(frozen=True)
class Dependency:
    """What every tile of `consumer` reads; bounds are checked for every tile when it is built.

    `needs` are tile sets of one or more producer stages. Raises `DescriptionError` for an empty
    need, a tile outside a grid (with the first consumer tile that reads it), a stage that needs its
    own tiles, and grids or reads too many to enumerate (`MOST_BLOCKS`, `MOST_READS`). `reads` counts the
    pairs of a consumer tile and a producer tile that it reads.
    """

    consumer: TileSet
    needs: Sequence[TileSet]
    reads: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.needs, TileSet):
            raise DescriptionError(f"needs is {self.needs}; it is a list: needs=[{self.needs}]")
        object.__setattr__(self, "needs", tuple_of("Dependency", "needs", self.needs))
        for tiles in (self.consumer, *self.needs):
            if not isinstance(tiles, TileSet):
                raise DescriptionError(f"a dependency has {tiles!r}; name tiles as stage[x, y]")
        if not self.needs:
            raise DescriptionError(
                f"{self.consumer.stage.name}: needs is empty; name the producer tiles it reads"
            )
        coordinates = consumer_coordinates(self.consumer, self.needs)
        stage = self.consumer.stage
        object.__setattr__(self, "consumer", stage[x, y])
        object.__setattr__(self, "needs", tuple(need.substituted(coordinates) for need in self.needs))
        terms = sum(need.terms for need in self.needs)
        if terms > MOST_TERMS:
            raise DescriptionError(
                f"{stage.name}: its {len(self.needs):,} needs have {terms:,} terms in all; at most "
                f"{MOST_TERMS} are evaluated per tile. Write shorter ones"
            )
        reads = 0
        for need in self.needs:
            if need.stage.name == stage.name:
                raise DescriptionError(f"{need}: stage {stage.name} cannot need its own tiles")
            reads += check_bounds(need, stage.grid)
            require_few_reads(need, reads)
        object.__setattr__(self, "reads", reads)

    @property
    def producers(self) -> tuple[str, ...]:
        """Names of the stages it reads, each once."""
        return tuple(dict.fromkeys(need.stage.name for need in self.needs))

    def producer_tiles(self, cx: int, cy: int) -> list[tuple[str, tuple[int, int]]]:
        """(producer stage, its tile) of all that consumer tile (cx, cy) reads, in the order it reads them.

        Raises `DescriptionError` for a tile that the consumer's grid lacks.
        """
        grid = self.consumer.stage.grid
        cx, cy = whole("cx of a consumer tile", cx, 0, grid.x - 1), whole("cy", cy, 0, grid.y - 1)
        found = [
            (j / n, need.stage.name, tile)
            for need in self.needs
            for j, n, tile in need.walk(need.box(cx, cy))
        ]
        return [(stage, tile) for _, stage, tile in sorted(found, key=lambda entry: entry[0])]

    def __repr__(self) -> str:
        return repr_text("Dependency", str(self))

    def __str__(self) -> str:
        return f"{self.consumer} needs {', '.join(str(need) for need in self.needs)}"


def check_bounds(need: TileSet, consumer_grid: Grid) -> int:
    """How many reads a need is. Raises `DescriptionError` with the first consumer tile that reads outside
    the producer's grid, and for too many reads.
    """
    _check_size(need, consumer_grid)
    grid = need.stage.grid
    columns = consumer_grid.x if need.uses("x") else 1
    rows = consumer_grid.y if need.uses("y") else 1
    reads, alike = 0, consumer_grid.tiles // (columns * rows)
    for cy in range(rows):
        for cx in range(columns):
            box = need.box(cx, cy)
            _check_box(need, (cx, cy), box, grid)
            reads += alike * need.count(box)
            require_few_reads(need, reads)
    return reads


def require_few_reads(owner: object, reads: int) -> None:
    """Raises `DescriptionError` for more reads than are enumerated."""
    if reads > MOST_READS:
        raise DescriptionError(
            f"{owner}: {reads:,} reads of producer tiles or more; at most {MOST_READS:,} are enumerated. "
            "Use larger tiles"
        )


def _check_size(need: TileSet, consumer_grid: Grid) -> None:
    for owner, grid in ((need.stage.name, need.stage.grid), ("its consumer", consumer_grid)):
        if grid.size > MOST_BLOCKS:
            raise DescriptionError(
                f"{need}: the grid {grid} of {owner} has {grid.size:,} blocks; a dependency enumerates at "
                f"most {MOST_BLOCKS:,}. Use larger tiles"
            )


def _check_box(need: TileSet, tile: tuple[int, int], box: Box, grid: Grid) -> None:
    for word, start, stop, bound in (("column", *box[:2], grid.x), ("row", *box[2:], grid.y)):
        if start < 0 or stop > bound or start >= stop:
            raise DescriptionError(
                f"{need} for consumer tile {tile} reads {_span_text(word, start, stop)}; {word}s of the "
                f"producer's grid {grid} are 0 to {bound - 1}. Correct the index or the grids"
            )


def _span_text(word: str, start: int, stop: int) -> str:
    """Columns or rows from `start` up to `stop`, as text."""
    if stop <= start:
        return f"no {word} (from {start} up to {stop})"
    return f"{word} {start}" if stop == start + 1 else f"{word}s {start} to {stop - 1}"
