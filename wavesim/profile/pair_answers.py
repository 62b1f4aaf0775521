"""What an author says of a pair that a profile shows: products, tiles, times, and which tiles are read.

Example: a profile has a launch of 384 blocks in one dimension. Its author says M 1024, N 12288, K 6144 in
tiles of 128 x 256: that is 48 columns of 8 rows, and each of them reads a row of the producer's tiles.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wavesim.errors import DescriptionError
from wavesim.model.described_field import Field
from wavesim.model.description_fields import STAGES
from wavesim.model.description_table import DescriptionTable
from wavesim.model.kernel import Gemm
from wavesim.model.stage import Stage
from wavesim.safe_io.documents import read_toml

# Fields of a kernel that a profile does not have, as a description names them.
OF_KERNELS = (
    *("m", "n", "k", "tile", "element", "split_k", "kernel_us"),
    *("pipeline_depth", "wait", "tests_each_k_block", "persistent"),
)
KERNEL_FIELDS = tuple(field for field in STAGES if field.name in OF_KERNELS)
ROLES = ("producer", "consumer")
ROWS, SAME, SHARE = "row", "tile", "share"
READS = {
    ROWS: "the producer's tiles of the rows that a tile of the consumer has",
    SAME: "the one tile at the same place, as elementwise kernels do",
    SHARE: "the tile that is the same share of the way through the producer's grid",
}
FIELDS = (
    Field("pair", "number", "which of the profile's pairs", "1", "-", "pair = 1"),
    Field(
        "reads", "word", f"{', '.join(READS)}, or tile sets such as producer[:, y // 2]", "assumed", "-", ""
    ),
    *(Field(role, "table", f"what is known of the {role}", "nothing", "-", f"[{role}]") for role in ROLES),
)


@dataclass(frozen=True)
class PairAnswers:
    """Answers about one pair: fields of both kernels as a description has them, and what is read.

    `reads` is a word of `READS`, or tile sets as text; "" leaves it to what grids suggest. `path` is the file
    that says it, for an error's line.
    """

    pair: int = 1
    producer: Mapping[str, Any] = field(default_factory=dict)
    consumer: Mapping[str, Any] = field(default_factory=dict)
    reads: str = ""
    path: Path = Path("answers")

    def of(self, role: str) -> Mapping[str, Any]:
        """The fields of the producer or the consumer."""
        return self.producer if role == ROLES[0] else self.consumer


def load_answers(path: str | Path) -> PairAnswers:
    """Answers from a TOML file. Raises `RecordingError` naming file and field."""
    path = Path(path)
    table = DescriptionTable.of(path, "", read_toml(path), FIELDS)
    pair = table.optional("pair", int)
    producer, consumer = (
        DescriptionTable.of(path, f"{role}.", table.values.get(role, {}), KERNEL_FIELDS).values
        for role in ROLES
    )
    return PairAnswers(
        1 if pair is None else pair, producer, consumer, table.optional("reads", str) or "", path
    )


def needs_text(reads: str, first: Stage, second: Stage) -> str:
    """The tile set that `reads` means for these two grids. Raises `DescriptionError` where it means none."""
    if reads and reads not in READS:
        return reads
    is_flat = first.grid.y == 1
    if reads == SAME:
        return _same_tile(first, second)
    if reads == ROWS and is_flat and second.grid.y == 1:
        raise DescriptionError(
            f"reads is {ROWS!r}, and both grids are flat: {first.grid} and {second.grid} tiles. Say m, n, k "
            "and tile of a product, whose rows are then known"
        )
    if reads == SHARE or (is_flat and second.grid.y == 1):
        return _same_share(first, second)
    return _rows(first, second)


def _same_tile(first: Stage, second: Stage) -> str:
    before, after = first.grid, second.grid
    if (before.x, before.y) == (after.x, after.y):
        return f"{first.name}[x, y]"
    if after.y == 1 and after.x == before.tiles:
        return f"{first.name}[x - x // {before.x} * {before.x}, x // {before.x}]"
    raise DescriptionError(
        f"reads is {SAME!r}, and the grids differ: {before} and {after} tiles. Use {ROWS} or {SHARE}, or say "
        "which tiles, such as producer[x // 2, y]"
    )


def _same_share(first: Stage, second: Stage) -> str:
    """The tile at the same share of a flat grid; of a grid with rows the row there."""
    before, after = first.grid, second.grid
    if before.y > 1 or after.y > 1:
        return _rows(first, second)
    if before.x <= after.x:
        return f"{first.name}[x * {before.x} // {after.x}, 0]"
    return f"{first.name}[(x + 1) * {before.x} // {after.x} - 1, 0]"


def _rows(first: Stage, second: Stage) -> str:
    """All tiles of the producer's rows that a consumer's tile lies in."""
    rows, others = first.grid.y, second.grid.y
    if others == 1:  # a flat consumer walks the rows from the first to the last
        return f"{first.name}[:, x * {rows} // {second.grid.x}]" if rows <= second.grid.x else _all(first)
    if rows == 1:  # a flat producer has written its share of blocks
        count = first.grid.x
        if count < others:
            return f"{first.name}[y * {count} // {others}, 0]"
        return f"{first.name}[y * {count} // {others} : (y + 1) * {count} // {others}, 0]"
    heights = _heights(first, second)
    if heights is not None and heights[0] != heights[1]:
        height, other = heights
        end = f"min(((y + 1) * {other} + {height - 1}) // {height}, {rows})"
        return f"{first.name}[:, y * {other} // {height} : {end}]"
    if rows == others:
        return f"{first.name}[:, y]"
    return f"{first.name}[:, y * {rows} // {others} : ((y + 1) * {rows} + {others - 1}) // {others}]"


def _heights(first: Stage, second: Stage) -> tuple[int, int] | None:
    """Both tile heights where both are products of as many rows."""
    producer, consumer = first.work, second.work
    is_known = isinstance(producer, Gemm) and isinstance(consumer, Gemm) and producer.m == consumer.m
    return (producer.tile_m, consumer.tile_m) if is_known else None  # type: ignore[union-attr]  # as `is_known` says


def _all(first: Stage) -> str:
    return f"{first.name}[:, 0:{first.grid.y}]"
