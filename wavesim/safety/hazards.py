"""Hazards: tiles that use the same elements of a buffer with nothing to order them, and one of them writes.

Example: layer 2's QKV product overwrites row 0 of a buffer in which layer 1's last attention tiles still read
K and V. Semaphores order a read after the write that it waits for, never a write after the reads before it.
A plan is free of hazards if of any two tiles that meet in a buffer, and of which one writes, the one of the
stage listed first is done before the other gets there: by kernel boundaries, or by semaphores, also those
that the tiles waited for had waited for themselves.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from wavesim.model.accesses import Accesses, Regions, known_accesses, meets
from wavesim.model.pipeline import Pipeline
from wavesim.model.regions import Region
from wavesim.model.stage import Stage
from wavesim.plan.order import Tile
from wavesim.plan.plan import Plan
from wavesim.safety.tile_order import Bits, TileOrder, TileSets

Kind = Literal[
    "read before written",
    "overwritten before read",
    "written twice",
    "used within a stage",
    "loaded before written",
]
TEXTS: Mapping[Kind, str] = {
    "read before written": "{second} may read before {first} has written it",
    "overwritten before read": "{second} may overwrite what {first} still reads",
    "written twice": "{second} may write before {first} has, which then goes last",
    "loaded before written": "{second} loads ahead of its wait what {first} writes",
    "used within a stage": "{second} writes what {first} uses, and tiles of one stage have no order",
}


@dataclass(frozen=True)
class Hazard:
    """Two tiles that nothing orders, and what they share: `second` must not come before `first`."""

    kind: Kind
    buffer: str
    region: Region
    first: tuple[str, Tile]
    second: tuple[str, Tile]

    @property
    def text(self) -> str:
        """Buffer, rows and columns, both tiles, and how to mend it."""
        first, second = (f"tile {tile} of {stage}" for stage, tile in (self.first, self.second))
        top, bottom, left, right = self.region
        place = f"buffer {self.buffer!r}, rows {top} to {bottom - 1}, columns {left} to {right - 1}"
        return f"{place}: {TEXTS[self.kind].format(first=first, second=second)}; {self._fix}"

    @property
    def _fix(self) -> str:
        need = f"add a need on the tiles of {self.first[0]} to {self.second[0]}"
        if self.kind == "used within a stage":
            return "give what is written a buffer of its own"
        if self.kind == "loaded before written":
            return "let the stage that waits store it (appends), or read another buffer"
        if self.kind == "read before written":
            return need
        return f"{need} (with_anti_dependencies), or use a second buffer (double_buffered)"


def hazards_of(pipeline: Pipeline, plan: Plan) -> Iterator[Hazard]:
    """At most one per later tile and access, stage after stage; `next(..., None)` is the first.

    There are none known of a pipeline with a stage that does not say what it reads and writes, and of plain
    chains of GEMMs, whose dependencies are their own business. Raises `DescriptionError` for buffers that
    cannot be (`buffers_of`) and a plan that does not fit.
    """
    accesses = known_accesses(pipeline)
    if accesses is not None:
        yield from _Search(accesses, plan).found()


class RegionIndex:
    """Which tiles use a region of a buffer, of the uses added so far."""

    def __init__(self, tiles: int) -> None:
        self._tiles = tiles
        self._uses: dict[str, list[tuple[int, Regions]]] = {}
        self._arrays: dict[str, tuple[Regions, Regions]] = {}
        self._answers: dict[tuple[str, Region], Bits] = {}

    def add(self, tile: int, uses: Mapping[str, Regions]) -> None:
        """What a tile uses, by buffer."""
        for buffer, regions in uses.items():
            self._uses.setdefault(buffer, []).append((tile, regions))
            self._arrays.pop(buffer, None)
        self._answers = {}

    def meeting(self, buffer: str, region: Region) -> Bits:
        """The tiles that use an element of the region."""
        if buffer not in self._uses:
            return 0
        if (buffer, region) not in self._answers:
            tiles, regions = self._of(buffer)
            flags = np.zeros(self._tiles, dtype=bool)
            flags[tiles[meets(regions, region)]] = True
            packed = np.packbits(flags, bitorder="little").tobytes()
            self._answers[buffer, region] = int.from_bytes(packed, "little")
        return self._answers[buffer, region]

    def shared(self, tile: int, buffer: str, region: Region) -> Region:
        """What a tile of the answer has in common with the region, of one of its uses."""
        tiles, regions = self._of(buffer)
        other = Region(*map(int, regions[(tiles == tile) & meets(regions, region)][0]))
        top, left = max(other.top, region.top), max(other.left, region.left)
        return Region(top, min(other.bottom, region.bottom), left, min(other.right, region.right))

    def _of(self, buffer: str) -> tuple[Regions, Regions]:
        if buffer not in self._arrays:
            uses = self._uses[buffer]
            tiles = np.repeat([tile for tile, _ in uses], [len(regions) for _, regions in uses])
            self._arrays[buffer] = tiles, np.concatenate([regions for _, regions in uses])
        return self._arrays[buffer]


class _Search:
    """Each tile is held against all of the stages before its own, and against its own stage's."""

    def __init__(self, accesses: Accesses, plan: Plan) -> None:
        self._accesses, self._stages = accesses, accesses.pipeline.stages
        self._has_semaphores, self._loads_ahead = plan.sync.has_semaphores, plan.schedule.has_work_lists
        self._sets = TileSets(accesses.pipeline)
        self._order = TileOrder(plan, accesses, self._sets)
        self._readers, self._writers = (RegionIndex(self._sets.count) for _ in range(2))

    def found(self) -> Iterator[Hazard]:
        for stage in self._stages:
            if self._is_apart(stage):
                continue
            if self._loads_ahead:
                yield from self._of_loads(stage)
            own = RegionIndex(self._sets.count)
            for tile in stage.grid:
                own.add(self._sets.number(stage, tile), self._accesses.writes(stage.name, tile))
            checked = set[tuple[object, ...]]()
            for tile in stage.grid:
                yield from self._of_reads(stage, tile, own, checked)
                yield from self._of_writes(stage, tile, own)
            for tile in stage.grid:
                number = self._sets.number(stage, tile)
                self._readers.add(number, self._accesses.all_reads(stage.name, tile))
                self._writers.add(number, self._accesses.writes(stage.name, tile))

    def _is_apart(self, stage: Stage) -> bool:
        """Whether boundaries order all stages, and this one reads nothing that it writes."""
        reads, writes = (f(stage.name, (0, 0)) for f in (self._accesses.all_reads, self._accesses.writes))
        return not self._has_semaphores and not set(reads) & set(writes)

    def _of_reads(
        self, stage: Stage, tile: Tile, own: RegionIndex, checked: set[tuple[object, ...]]
    ) -> Iterator[Hazard]:
        """Reads of what is not there yet. Tiles of a row that read and waited alike are looked at once."""
        number = self._sets.number(stage, tile)
        alone = ~(1 << number)
        for z in range(stage.grid.z):
            before = self._order.before(number, z)
            for buffer, reads in self._accesses.reads(stage.name, tile, z).items():
                key = (buffer, before, reads.regions.tobytes(), reads.at.tobytes())
                if key in checked:
                    continue
                is_own = False
                for row, at in zip(reads.regions.tolist(), reads.at.tolist(), strict=True):
                    region = Region(*row)
                    uses = own.meeting(buffer, region)
                    is_own |= bool(uses)
                    missing = self._writers.meeting(buffer, region) & ~before.upto(at)
                    if missing:
                        yield self._hazard(
                            "read before written", missing, tile, stage, buffer, region, self._writers
                        )
                        break
                    if others := uses & alone:
                        yield self._hazard("used within a stage", others, tile, stage, buffer, region, own)
                        break
                if not is_own:
                    checked.add(key)

    def _of_loads(self, stage: Stage) -> Iterator[Hazard]:
        """What a loader brings before any wait, and an earlier stage of the run writes."""
        work = stage.tiled
        for x, y, z in ((x, y, z) for x, y in stage.grid for z in range(stage.grid.z)):
            for read in work.reads(x, y, z):
                view = stage.view(read.operand)
                region = read.region.moved(view.row, view.column)
                is_ahead = read.operand in work.ahead_operands
                if is_ahead and (tiles := self._writers.meeting(view.buffer, region)):
                    yield self._hazard(
                        "loaded before written", tiles, (x, y), stage, view.buffer, region, self._writers
                    )
                    break

    def _of_writes(self, stage: Stage, tile: Tile, own: RegionIndex) -> Iterator[Hazard]:
        """Writes over what is still read, or written by a tile that may come later."""
        number = self._sets.number(stage, tile)
        before = self._order.before_end(number)
        for buffer, regions in self._accesses.writes(stage.name, tile).items():
            for row in regions.tolist():
                region = Region(*row)
                if missing := self._readers.meeting(buffer, region) & ~before:
                    yield self._hazard(
                        "overwritten before read", missing, tile, stage, buffer, region, self._readers
                    )
                elif missing := self._writers.meeting(buffer, region) & ~before:
                    yield self._hazard("written twice", missing, tile, stage, buffer, region, self._writers)
                elif others := own.meeting(buffer, region) & ~(1 << number):
                    yield self._hazard("used within a stage", others, tile, stage, buffer, region, own)
                else:
                    continue
                return

    def _hazard(
        self,
        kind: Kind,
        tiles: Bits,
        tile: Tile,
        stage: Stage,
        buffer: str,
        region: Region,
        uses: RegionIndex,
    ) -> Hazard:
        first = (tiles & -tiles).bit_length() - 1
        shared = uses.shared(first, buffer, region)
        return Hazard(kind, buffer, shared, self._sets.name(first), (stage.name, tile))
