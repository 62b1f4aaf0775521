"""What descriptions and predictions know of a kind of work: its table in a file, and how long its tiles take.

Example: `WorkKind(Norm, FIELDS, ("tile_m",), "[rows]")` reads `tile = [8]` and `norm = { rows = 1024,
columns = 4096 }` of a stage as a `Norm`, and writes them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

from wavesim.model.device import Device
from wavesim.model.kernel import Block, Carveout, Grid, Work
from wavesim.model.regions import MOST_INDEX
from wavesim.model.stage import Stage, TileSet
from wavesim.safe_io.bounds import whole
from wavesim.work.description.fields import read_fields
from wavesim.work.description.table import DescriptionTable, Field
from wavesim.work.law import CostLaw

ELEMENTS = ("fp16", "bf16")  # of kinds that compute with the catalogue's peak rate
# Fields of a stage that say what it computes, or how: a kind takes those that are `beside` its table.
OF_OTHERS = ("m", "n", "k", "grid", "flops", "bytes", "split_k", "activation", "carveout")
MOST_LISTED = 1024  # numbers of a list
OF_PRODUCTS = ("bias", "residual", "rope", "cache")
Needs = Callable[[Stage, Stage], TileSet]  # of a producer and a consumer


@dataclass(frozen=True)
class SaidStage:
    """What a stage's table says whatever it computes."""

    name: str
    block: Block
    carveout: Carveout
    table: DescriptionTable
    device: Device

    @property
    def _grid(self) -> list[int] | None:
        return self.table.integers("grid", 1, 3, "[columns, rows] or [columns, rows, splits]")

    @property
    def split_k(self) -> int:
        """As said by itself, or as the last number of the grid."""
        grid, split_k = self._grid, self.table.optional("split_k", int)
        if split_k is not None:
            return int(split_k)
        return grid[2] if grid is not None and len(grid) == 3 else 1

    def grid(self) -> Grid:
        """The grid that is given, with its splits of K said in either way. Raises `RecordingError`."""
        grid = self._grid
        if grid is None:
            raise self.table.missing("grid", ", or m, n, k and tile")
        if len(grid) == 3 and self.table.has("split_k") and grid[2] != self.split_k:
            raise self.table.wrong("split_k", f"grid has {grid[2]} splits; correct one, or leave split_k out")
        columns, rows = [*grid, 1][:2]
        return Grid(columns, rows, self.split_k)

    def require_grid(self, made: Grid, by: str) -> None:
        """Raises `RecordingError` where a grid is given that is not what sizes and tile make it."""
        if self.table.has("grid") and self.grid() != made:
            raise self.table.wrong("grid", f"{by} and tile make it {made}; correct one, or leave grid out")

    def inner(self, name: str, known: tuple[Field, ...]) -> DescriptionTable:
        """A table within the stage's."""
        return DescriptionTable.of(
            self.table.path, f"{self.table.where}{name}.", self.table.values[name], known
        )


@dataclass(frozen=True)
class WorkKind:
    """A kind of work, registered in `kinds`.

    - `file`: a `fields.toml` that has the fields of a table of the work's `word`, and of a stage that has it.
    - `tile`: the work's names of the numbers in a stage's `tile`, which `tile_text` explains; at least
      `least_tile` are given, by default all or none.
    - `beside`: fields of the stage that say more of it, with the words that are known, none for integers.
    - `by_device`: a field that follows from the device where it is left out (`Work.with_splits_for`).
    - `law`: how long its blocks take, by constants of a device's file; None where nobody knows.
    - `needs`: what a producer's name alone means as its first need, its second...
    """

    work: type[Work]
    file: Path
    tile: tuple[str, ...] = ()
    tile_text: str = ""
    least_tile: int = 0
    beside: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    by_device: str = ""
    needs: tuple[Needs, ...] = ()
    law: type[CostLaw] | None = None

    @property
    def word(self) -> str:
        """Its name in files."""
        return self.work.word

    @property
    def fields(self) -> tuple[Field, ...]:
        """Of its table."""
        return read_fields(self.file)[self.word]

    def is_said(self, table: DescriptionTable) -> bool:
        """Whether a stage's table is of this kind."""
        return table.has(self.word)

    def read(self, said: SaidStage) -> Work:
        """The work that a stage's table describes. Raises `RecordingError` or `DescriptionError`."""
        for other in (*OF_OTHERS, *OF_PRODUCTS):
            if other not in self.beside and said.table.has(other):
                raise said.table.wrong(other, f"{self.word} says what the kernel is; leave one of them out")
        own = said.inner(self.word, self.fields)
        values = self._tile(said) | {entry.attribute: self._value(own, entry) for entry in self.fields}
        for name, words in self.beside.items():
            if words and said.table.has(name):
                values[name] = said.table.word(name, words)
        if "split_k" in self.beside:
            values["split_k"] = said.split_k
        element = said.table.word("element", ELEMENTS) or ELEMENTS[0]
        make: Any = self.work
        work: Work = make(name=said.name, dtype=element, block=said.block, **values)
        if self.by_device and not own.has(self.by_device):
            work = work.with_splits_for(said.device)
        said.require_grid(work.kernel.grid, self.word)
        return work

    def lines(self, work: Any) -> Iterator[str]:
        """The lines that `read` reads back as this work; none where a file cannot say it."""
        said = {
            *self.tile,
            *self.beside,
            "name",
            "dtype",
            "block",
            *(entry.attribute for entry in self.fields),
        }
        if any(getattr(work, name) != usual for name, usual in self._usual.items() if name not in said):
            return
        values = {entry.name: getattr(work, entry.attribute) for entry in self.fields}
        values = {name: value for name, value in values.items() if value not in (None, ())}
        yield f"tile = [{', '.join(str(getattr(work, name)) for name in self.tile)}]"
        yield table_line(self.word, values)
        yield f'element = "{work.dtype}"'
        for name in self.beside:
            if name in self._usual and name != "carveout" and getattr(work, name) != self._usual[name]:
                yield f"{name} = {value_text(getattr(work, name))}"

    @property
    def _usual(self) -> dict[str, Any]:
        """The work's values where they are not given."""
        work: Any = self.work
        return {entry.name: entry.default for entry in fields(work)}

    def _tile(self, said: SaidStage) -> dict[str, int]:
        tile = said.table.integers("tile", self.least_tile or len(self.tile), len(self.tile), self.tile_text)
        if tile is None and any(self._usual[name] is MISSING for name in self.tile):
            raise said.table.missing("tile", f", {self.tile_text} of a block's output")
        return dict(zip(self.tile, tile or (), strict=False))

    def _value(self, own: DescriptionTable, entry: Field) -> Any:
        usual = self._usual[entry.attribute] if entry.usual is None else entry.usual
        if not own.has(entry.name):
            if usual is MISSING:
                raise own.missing(entry.name)
            return usual
        if entry.words:
            return own.word(entry.name, entry.words)
        if entry.bounds:
            return float(own.number(entry.name, entry.bounds[0], entry.bounds[1]) or 0.0)
        if isinstance(usual, tuple):
            return tuple(own.integers(entry.name, 1, MOST_LISTED, "a list of whole numbers") or ())
        if isinstance(usual, bool):
            return own.required(entry.name, bool)
        return whole(own.field(entry.name), own.required(entry.name, int), 0, MOST_INDEX)


def table_line(name: str, values: Mapping[str, object]) -> str:
    """An inline table: numbers, words, true and false."""
    return f"{name} = {{ {', '.join(f'{key} = {value_text(value)}' for key, value in values.items())} }}"


def value_text(value: object) -> str:
    """A value as TOML has it; of several, a list."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(value_text, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value).lower()
