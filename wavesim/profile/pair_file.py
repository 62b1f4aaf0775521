"""A pair of a profile as a description and as TOML, with what its author answers about it.

Example: flash_fwd_kernel, 1,280 blocks in 113.4 us, then a copy of 17,888 blocks in 28.8 us, on an h100;
tile x of the copy needs tile `x * 1280 // 17888` of the attention. The times are the profile's; which tile
needs which is an assumption until the author has looked, and the file says so. An answer replaces it: M 1024,
N 12288, K 6144 in tiles of 128 x 256 make a launch of 384 blocks 48 columns of 8 rows.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from wavesim.errors import DescriptionError
from wavesim.model import device as devices
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.device import Device
from wavesim.model.kernel import MAX_GRID_YZ
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.model.tile_set_text import parse_tile_set
from wavesim.profile.advice import Pair
from wavesim.profile.kernel_facts import PERSISTENT, KernelFacts
from wavesim.safe_io.bounds import MOST_BLOCKS
from wavesim.safe_io.documents import read_toml
from wavesim.work.description.reader import Description, stage_of, time_ns_of
from wavesim.work.description.table import DescriptionTable, Field
from wavesim.work.description.writer import description_text
from wavesim.work.kinds import stage_fields

# Fields of a kernel that a profile does not have, as a description names them.
OF_KERNELS = (
    *("grid", "m", "n", "k", "tile", "element", "split_k", "kernel_us"),
    *("pipeline_depth", "wait", "tests_each_k_block", "persistent"),
)
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
    known = tuple(field for field in stage_fields() if field.name in OF_KERNELS)
    producer, consumer = (
        DescriptionTable.of(path, f"{role}.", table.values.get(role, {}), known).values for role in ROLES
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
            "and tile of a product, or grid = [tile columns, tile rows] of any other kernel"
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
    before, after = first.grid, second.grid
    if before.y > 1 or after.y > 1:
        return _rows(first, second)
    if before.x <= after.x:
        return f"{first.name}[x * {before.x} // {after.x}, 0]"
    return f"{first.name}[(x + 1) * {before.x} // {after.x} - 1, 0]"


def _rows(first: Stage, second: Stage) -> str:
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
    is_known = first.work.is_product and second.work.is_product and first.gemm.m == second.gemm.m
    return (first.gemm.tile_m, second.gemm.tile_m) if is_known else None


def _all(first: Stage) -> str:
    return f"{first.name}[:, 0:{first.grid.y}]"


LONGEST_NAME = 160  # of a kernel, in a comment
NOTHING_SAID = PairAnswers()


def pair_toml(pair: Pair, source: str, answers: PairAnswers = NOTHING_SAID) -> str:
    """The TOML text of a pair, what was answered in it. Raises `DescriptionError` as `pair_description`."""
    description = pair_description(pair, answers)
    own, named = description.device, devices.load(_nearest_name(description.device))
    needs = ", ".join(str(need) for need in description.pipeline.dependencies[0].needs)
    assumed = (
        f"said by its author: the consumer reads {needs}."
        if answers.reads
        else f"ASSUMED: that the consumer reads the producer's output, and which tiles: {needs}."
    )
    comments = [
        f"producer: {pair.producer.shape.name[:LONGEST_NAME]}",
        f"consumer: {pair.consumer.shape.name[:LONGEST_NAME]}",
        f"{pair.count} times back to back in {source} ({own.name}).",
        "Resources are the profile's, registers as compiled; times are means of one launch, unless answered.",
        assumed,
        "A profile shows that one ran after the other, no more. Correct `needs` before you trust it.",
    ]
    return description_text(replace(description, device=named), comments)


def pair_description(pair: Pair, answers: PairAnswers = NOTHING_SAID) -> Description:
    """A pair on its own device, with the dependency that is answered, or else assumed.

    Raises `DescriptionError` for a pair whose tiles are not known, or that is too large to be simulated, and
    for answers that the launches contradict.
    """
    kernels = dict(zip(ROLES, (pair.producer, pair.consumer), strict=True))
    for role, kernel in kernels.items():
        _require_known(pair.number, kernel, answers.of(role))
    _require_few(pair)
    grids = dict(zip(ROLES, _grids(pair), strict=True))
    stages, times = {}, {}
    device = pair.producer.device
    assert device is not None
    for role, kernel in kernels.items():
        table = _table(role, kernel, grids[role], answers)
        stages[role] = stage_of(table, device)
        times[role] = time_ns_of(table) or max(1, round(kernel.mean_ns))
        _require_launch(kernel, stages[role], table)
    first, second = stages.values()
    try:
        need = parse_tile_set(needs_text(answers.reads, first, second), stages)
    except DescriptionError as error:
        raise DescriptionError(f"{answers.path}: field 'reads': {error}") from None
    pipeline = Pipeline(f"pair {pair.number}", [first, second], [Dependency(second[x, y], [need])])
    return Description(pipeline, device, times)


def _table(role: str, kernel: KernelFacts, grid: tuple[int, int], answers: PairAnswers) -> DescriptionTable:
    shape = kernel.shape
    values: dict[str, Any] = {
        "name": role,
        "threads": shape.threads,
        "registers": shape.registers,
        "shared_bytes": shape.shared_bytes or 0,
    }
    if kernel.blind == PERSISTENT:
        values["persistent"] = True
    if "tile" not in answers.of(role):
        values["grid"] = list(grid)
    return DescriptionTable(answers.path, f"{role}.", values | dict(answers.of(role)))


def _require_known(number: int, kernel: KernelFacts, answer: Mapping[str, Any]) -> None:
    """Raises `DescriptionError` unless a kernel's tiles are known: by its grid, or by its author."""
    is_described = kernel.blind == PERSISTENT and not {"tile", "grid"}.isdisjoint(answer)
    if kernel.device is None or (kernel.waves is None and not is_described):
        fix = ". Answer with m, n, k and tile, or with grid" if kernel.blind == PERSISTENT else ""
        raise DescriptionError(
            f"pair {number} cannot be predicted: {kernel.label}: "
            f"{kernel.blind or 'its device is not known'}{fix}"
        )


def _require_launch(kernel: KernelFacts, stage: Stage, table: DescriptionTable) -> None:
    launched, tiles = kernel.shape.blocks, stage.grid.size
    if kernel.blind == PERSISTENT or tiles == launched:
        return
    has_tile = "tile" in table.values
    how, fix = ("with m, n and k that is", ", or add split_k") if has_tile else ("that is", "")
    raise table.wrong(
        "tile" if has_tile else "grid",
        f"{how} {stage.grid}, {tiles:,} blocks; {launched:,} were launched. Correct one{fix}",
    )


def _nearest_name(device: Device) -> str:
    """The catalogued device of that driver's name, or the nearest: same compute capability, then SMs."""
    known = [devices.load(name) for name in devices.products()]
    alike = [other for other in known if other.compute_capability == device.compute_capability]
    if not alike:
        raise DescriptionError(f"{device.name}: no catalogued device has its compute capability")
    name = devices.catalogue_name(device.name)
    return min(alike, key=lambda other: (abs(other.sm_count - device.sm_count), other.name != name)).name


def _require_few(pair: Pair) -> None:
    blocks = sum(kernel.shape.blocks or 0 for kernel in (pair.producer, pair.consumer))
    if blocks > MOST_BLOCKS:
        raise DescriptionError(
            f"pair {pair.number} has {blocks:,} blocks in all; at most {MOST_BLOCKS:,} are simulated. Choose "
            "another pair"
        )


def _grids(pair: Pair) -> tuple[tuple[int, int], tuple[int, int]]:
    """(columns, rows) of both: as launched where both have the same rows, else in one row."""
    first, second = pair.producer.shape.grid, pair.consumer.shape.grid
    assert first is not None
    assert second is not None
    if first[2] == second[2] == 1 and first[1] == second[1] and 1 < first[1] <= MAX_GRID_YZ:
        return first[:2], second[:2]
    return (math.prod(first), 1), (math.prod(second), 1)
