"""Stages, and tile sets: the tiles of a stage that a consumer tile names, such as `gemm1[:, y]`.

Example: `gemm1 = Stage("gemm1", Gemm(...))` is one kernel of a pipeline. `gemm1[x, y]` is one tile,
`gemm1[:, y]` a row, `gemm1[2 * x : 2 * x + 2, y]` two neighbours, `gemm1[x::12, y]` every twelfth tile
of the row from column x on.

A slice is walked in step with the consumer's own work (its K loop): of n tiles, the j-th is
needed once j/n of the consumer tile is done. A plain index is needed at the start.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

from wavesim.errors import DescriptionError
from wavesim.model.index import Index, as_index
from wavesim.model.kernel import UNKNOWN_LOOP, Grid, Kernel, MainLoop, TiledWork, Work
from wavesim.model.regions import View
from wavesim.model.reprs import repr_text
from wavesim.safe_io.bounds import real, shown

MOST_DEVICES = 16  # GPUs of one host
Box = tuple[int, int, int, int]  # x from, x to, y from, y to; half-open


@dataclass(frozen=True)
class Axis:
    """One coordinate of a tile set: from start up to, not including, stop. None means the grid's edge."""

    start: Index
    stop: Index | None
    is_slice: bool
    step: int = 1

    @classmethod
    def of(cls, key: object) -> "Axis":
        """What stands between the brackets. Raises `DescriptionError`."""
        if not isinstance(key, slice):
            return cls(as_index(key), None, is_slice=False)  # type: ignore[arg-type]  # as_index refuses the rest
        step = 1 if key.step is None else key.step
        if not isinstance(step, int) or isinstance(step, bool) or step < 1:
            raise DescriptionError(f"tile slice has the step {step}; it must be an integer of at least 1")
        start = as_index(0 if key.start is None else key.start)
        return cls(start, None if key.stop is None else as_index(key.stop), is_slice=True, step=step)

    def resolve(self, cx: int, cy: int, extent: int) -> tuple[int, int]:
        """The half-open range that consumer tile (cx, cy) reads on a grid of this extent."""
        start = self.start.evaluate(cx, cy)
        if not self.is_slice:
            return start, start + 1
        return start, extent if self.stop is None else self.stop.evaluate(cx, cy)

    def uses(self, name: str) -> bool:
        """Whether the range depends on dimension `name` of the consumer."""
        return self.start.uses(name) or (self.stop is not None and self.stop.uses(name))

    def substituted(self, values: dict[str, Index]) -> "Axis":
        """The range with other expressions in place of its dimensions."""
        stop = None if self.stop is None else self.stop.substituted(values)
        return replace(self, start=self.start.substituted(values), stop=stop)

    def __repr__(self) -> str:
        return repr_text("Axis", str(self))

    def __str__(self) -> str:
        if not self.is_slice:
            return str(self.start)
        start = "" if self.start == as_index(0) else str(self.start)
        step = "" if self.step == 1 else f":{self.step}"
        return f"{start}:{'' if self.stop is None else self.stop}{step}"


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
        return cls(stage, Axis.of(key[0]), Axis.of(key[1]))

    def box(self, cx: int, cy: int) -> Box:
        """The rectangle around the producer tiles that consumer tile (cx, cy) reads."""
        grid = self.stage.grid
        return (*self.columns.resolve(cx, cy, grid.x), *self.rows.resolve(cx, cy, grid.y))

    def uses(self, name: str) -> bool:
        """Whether the set depends on dimension `name` of the consumer."""
        return self.columns.uses(name) or self.rows.uses(name)

    @property
    def terms(self) -> int:
        """Of all its index expressions: what one evaluation costs."""
        ends = (end for axis in (self.columns, self.rows) for end in (axis.start, axis.stop))
        return sum(end.terms for end in ends if end is not None)

    def substituted(self, values: dict[str, Index]) -> "TileSet":
        """The set with other expressions in place of the consumer's dimensions."""
        columns, rows = self.columns.substituted(values), self.rows.substituted(values)
        return replace(self, columns=columns, rows=rows)

    def walk(self, box: Box) -> Iterator[tuple[int, int, tuple[int, int]]]:
        """(j, n, producer tile): the tile is needed once j/n of the consumer's work is done.

        The walk goes along x if x is a slice, else along y; the other coordinate is needed at once.
        """
        columns, rows = range(*box[:2], self.columns.step), range(*box[2:], self.rows.step)
        if self.columns.is_slice:
            for j, i in enumerate(columns):
                yield from ((j, len(columns), (i, row)) for row in rows)
        else:
            yield from ((j, len(rows), (i, row)) for j, row in enumerate(rows) for i in columns)

    def count(self, box: Box) -> int:
        """Producer tiles in a box."""
        return len(range(*box[:2], self.columns.step)) * len(range(*box[2:], self.rows.step))

    def __repr__(self) -> str:
        return repr_text("TileSet", str(self))

    def __str__(self) -> str:
        return f"{self.stage.name}[{self.columns}, {self.rows}]"


LEAST_WEIGHT, MOST_WEIGHT = 1e-6, 1e6  # of a tile's time over another's


@dataclass(frozen=True)
class Stage:
    """A kernel as a part of a pipeline. `stage[x, y]` names its tiles in dependencies.

    `backend` names the implementation that computes it on a GPU; "" leaves the choice to the runner.
    `main_loop` is what is known of a kernel that is not ours; predictions use it, and are less sure where it
    says nothing. `buffers` says where operands lie that are not the stage's alone, by operand: a buffer's
    name, or a `View` of it; of a pipeline in which nobody names any, a GEMM's A is its producer's C.
    `device` numbers the GPU that it runs on, from 0: a dependency on another's tiles crosses a link.
    `tile_weights` are tile times up to a factor where they differ, for predictions from the kernel's time:
    one per tile row, or one per block in the grid's row-major order, split after split; all above 0.
    Raises `DescriptionError` for weights of another number or below 0.
    """

    name: str
    work: Work
    backend: str = ""
    main_loop: MainLoop = UNKNOWN_LOOP
    buffers: Mapping[str, str | View] = field(default_factory=dict, compare=False)
    device: int = 0
    tile_weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.work, Work):
            raise DescriptionError(
                f"stage {self.name}: work is {shown(self.work)}; give a Kernel, a Gemm or another Work"
            )
        if type(self.device) is not int or not 0 <= self.device < MOST_DEVICES:
            raise DescriptionError(
                f"stage {self.name}: device is {shown(self.device)}; it is the number of a GPU, from 0 to "
                f"{MOST_DEVICES - 1}"
            )
        if len(self.tile_weights) not in (0, self.grid.y, self.grid.size):
            raise DescriptionError(
                f"stage {self.name}: tile_weights has {len(self.tile_weights)} numbers; give one for each of "
                f"{self.grid.y} tile rows, or of {self.grid.size} blocks"
            )
        for weight in self.tile_weights:
            real(f"stage {self.name}: tile_weights", weight, LEAST_WEIGHT, MOST_WEIGHT)

    @property
    def block_weights(self) -> tuple[float, ...]:
        """One weight per block; none where all tiles are alike."""
        if len(self.tile_weights) in (0, self.grid.size):
            return self.tile_weights
        return tuple(weight for weight in self.tile_weights for _ in range(self.grid.x)) * self.grid.z

    def view(self, operand: str) -> View:
        """Where an operand lies; one that nobody named in a buffer of its own, "stage.operand"."""
        where = self.buffers.get(operand, f"{self.name}.{operand}")
        return where if isinstance(where, View) else View(where)

    def __getitem__(self, key: tuple[object, object]) -> TileSet:
        return TileSet.of(self, key)

    def __repr__(self) -> str:
        return repr_text("Stage", f"{self.name}: grid {self.grid}, {type(self.work).__name__}")

    def __iter__(self) -> None:
        raise TypeError(f"stage {self.name} is not a sequence; list(stage.grid) gives its tiles")

    @cached_property
    def kernel(self) -> Kernel:
        """The launch: grid, block and work per block."""
        return self.work.kernel

    @property
    def grid(self) -> Grid:
        """The launch's grid."""
        return self.kernel.grid

    @property
    def tiled(self) -> TiledWork:
        """Its work, which says what it reads and writes. Raises `DescriptionError` if it does not."""
        if not self.work.is_tiled:
            raise DescriptionError(
                f"stage {self.name} is a {type(self.work).__name__}, which does not say what its tiles read "
                "and write; describe it as a Gemm, an Attention, a Norm, or an OwnKernel"
            )
        return cast("TiledWork", self.work)

    @property
    def gemm(self) -> Any:
        """The `Gemm` that it computes. Raises `DescriptionError` if it is another kernel."""
        if not self.work.is_product:
            raise DescriptionError(
                f"stage {self.name} is a {type(self.work).__name__}, not a Gemm; describe it as "
                "Stage(name, Gemm(...))"
            )
        return self.work
