"""What each tile of a pipeline reads and writes of its buffers, and when in its work.

Example: block (h, i) of attention reads key block j of "qkv" before its work item j. The tile of the QKV
product that writes there is needed before item j, and before no earlier one.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wavesim.model.buffers import names_buffers, uses_of
from wavesim.model.kernel import TiledWork
from wavesim.model.pipeline import Pipeline
from wavesim.model.regions import Region, View

Tile = tuple[int, int]
Regions = NDArray[np.int64]  # (n, 4): top, bottom, left, right in a buffer


@dataclass(frozen=True, eq=False)
class TimedRegions:
    """Rectangles (n, 4) of one buffer, and the work item before which each is read (n)."""

    regions: Regions
    at: NDArray[np.int64]

    def __eq__(self, other: object) -> bool:
        """The same rectangles at the same items."""
        is_same = isinstance(other, TimedRegions) and np.array_equal(self.regions, other.regions)
        return is_same and isinstance(other, TimedRegions) and np.array_equal(self.at, other.at)

    __hash__ = None  # type: ignore[assignment]  # compared, never kept in sets


class Accesses:
    """What the tiles of a pipeline do to its buffers; answers are kept.

    Raises `DescriptionError` for stages that do not say what they read and write, and as `buffers_of` does.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self._views: dict[tuple[str, str], View] = {}
        self._touched: dict[str, set[str]] = {}
        self._written: dict[str, set[str]] = {}
        for use in uses_of(pipeline):
            self._views[use.stage, use.operand] = use.view
            self._touched.setdefault(use.stage, set()).add(use.view.buffer)
            written = self._written.setdefault(use.stage, set())
            if use.matrix.is_written:
                written.add(use.view.buffer)
        self._reads: dict[tuple[str, Tile, int], Mapping[str, TimedRegions]] = {}
        self._all_reads: dict[tuple[str, Tile], Mapping[str, Regions]] = {}
        self._writes: dict[tuple[str, Tile], Mapping[str, Regions]] = {}
        self._first_reads: dict[tuple[str, Tile, int, str, Tile], int | None] = {}

    @cached_property
    def _works(self) -> dict[str, TiledWork]:
        return {stage.name: stage.tiled for stage in self.pipeline.stages}

    @cached_property
    def _splits(self) -> dict[str, int]:
        return {stage.name: stage.grid.z for stage in self.pipeline.stages}

    def reads(self, stage: str, tile: Tile, z: int) -> Mapping[str, TimedRegions]:
        """What the block of a tile and split reads, by buffer."""
        x, y = self._reader(stage, tile)
        key = stage, (x, y), z
        if key not in self._reads:
            found: dict[str, list[tuple[int, ...]]] = {}
            for read in self._works[stage].reads(x, y, z):
                view = self._views[stage, read.operand]
                moved = read.region.moved(view.row, view.column)
                found.setdefault(view.buffer, []).append((*moved, read.at))
            self._reads[key] = {
                name: TimedRegions(rows[:, :4], rows[:, 4])
                for name, rows in ((name, np.asarray(rows, np.int64)) for name, rows in found.items())
            }
        return self._reads[key]

    @cached_property
    def _read_by_row(self) -> frozenset[str]:
        """Products whose tiles of a row read the same of what others write, thousands of regions: looked at
        once.
        """
        works = {stage.name: stage.work for stage in self.pipeline.stages}
        return frozenset(name for name, work in works.items() if work.is_read_by_rows)

    def read_alike(self, stage: str, tile: Tile, other: Tile) -> bool:
        """Whether two tiles read the same."""
        if tile == other or (stage in self._read_by_row and tile[1] == other[1]):
            return True
        splits = range(self._splits[stage])
        return all(self.reads(stage, tile, z) == self.reads(stage, other, z) for z in splits)

    def all_reads(self, stage: str, tile: Tile) -> Mapping[str, Regions]:
        """What a tile reads in all its splits, by buffer."""
        key = stage, self._reader(stage, tile)
        if key not in self._all_reads:
            found: dict[str, list[Regions]] = {}
            for z in range(self._splits[stage]):
                for name, read in self.reads(stage, tile, z).items():
                    found.setdefault(name, []).append(read.regions)
            self._all_reads[key] = {
                name: joined_regions(np.concatenate(parts)) for name, parts in found.items()
            }
        return self._all_reads[key]

    def writes(self, stage: str, tile: Tile) -> Mapping[str, Regions]:
        """What is written by the time that a tile is posted, by buffer."""
        key = stage, tile
        if key not in self._writes:
            found: dict[str, list[Region]] = {}
            for write in self._works[stage].writes(*tile):
                view = self._views[stage, write.operand]
                found.setdefault(view.buffer, []).append(write.region.moved(view.row, view.column))
            self._writes[key] = {name: np.asarray(rows, np.int64) for name, rows in found.items()}
        return self._writes[key]

    def view(self, stage: str, operand: str) -> View:
        """Where an operand lies."""
        return self._views[stage, operand]

    def items(self, stage: str, tile: Tile, z: int) -> range:
        """The work items of a block, as reads count them: of a later split of a GEMM not from 0 on."""
        end = self._works[stage].items(*tile, z)
        reads = self.reads(stage, tile, z).values()
        return range(min((int(read.at.min()) for read in reads), default=0), end)

    def last_item(self, stage: str, tile: Tile, z: int) -> int:
        """The work item before which all must be done that the tile's stores could hurt."""
        return self._works[stage].items(*tile, z) - 1

    def first_item(self, consumer: str, tile: Tile, z: int, producer: str, made: Tile) -> int | None:
        """The first work item of the block (tile, z) before which a producer's tile must be done.

        That is where it first reads what that tile writes. Where it writes what that tile reads or writes
        too, the last, which comes before its stores. None where they share nothing.
        """
        found = self._first_read(consumer, tile, z, producer, made)
        if found is not None:
            return found
        return self.last_item(consumer, tile, z) if self.overwrites(consumer, tile, producer, made) else None

    def _first_read(self, consumer: str, tile: Tile, z: int, producer: str, made: Tile) -> int | None:
        key = consumer, self._reader(consumer, tile), z, producer, made
        if key not in self._first_reads:
            found = [
                int(read.at[is_met].min())
                for name, read in self.reads(consumer, tile, z).items()
                for region in self.writes(producer, made).get(name, ())
                if (is_met := meets(read.regions, region)).any()
            ]
            self._first_reads[key] = min(found, default=None)
        return self._first_reads[key]

    def _reader(self, stage: str, tile: Tile) -> Tile:
        """The first tile that reads what this one does, where that is known without looking."""
        return (0, tile[1]) if stage in self._read_by_row else tile

    def may_overwrite(self, consumer: str, producer: str) -> bool:
        """Whether a stage writes a buffer that an earlier one reads or writes."""
        return bool(self._written[consumer] & self._touched[producer])

    @property
    def are_linked(self) -> bool:
        """Whether each stage uses a buffer that each stage it needs writes; else needs alone say it."""
        return all(
            self._touched[dependency.consumer.stage.name] & self._written[producer]
            for dependency in self.pipeline.dependencies
            for producer in dependency.producers
        )

    def writers_of(self, buffer: str) -> list[str]:
        """The stages that write a buffer, in their order."""
        return [name for name, written in self._written.items() if buffer in written]

    def overwrites(self, consumer: str, tile: Tile, producer: str, made: Tile) -> bool:
        """Whether a tile writes what an earlier stage's tile reads or writes."""
        if not self.may_overwrite(consumer, producer):
            return False
        before = (self.all_reads(producer, made), self.writes(producer, made))
        return any(
            meets(regions, region).any()
            for name, mine in self.writes(consumer, tile).items()
            for theirs in before
            if (regions := theirs.get(name)) is not None
            for region in mine
        )


def known_accesses(pipeline: Pipeline) -> Accesses | None:
    """What tiles read and write, where it is more than GEMMs that read each other's C in step.

    None where some stage does not say, or where nobody says in which buffers operands lie and a dependency
    is between stages that share none. Kept, as every plan of a pipeline asks.
    """
    # Pipelines are equal whatever buffers their operands lie in.
    return _known(pipeline, tuple(tuple(stage.buffers.items()) for stage in pipeline.stages))


@lru_cache(maxsize=4)
def _known(pipeline: Pipeline, _buffers: Hashable) -> Accesses | None:
    works = [stage.work for stage in pipeline.stages]
    is_told = all(work.is_tiled for work in works)
    is_more = names_buffers(pipeline) or not all(work.reads_in_step for work in works)
    if not (is_told and is_more):
        return None
    accesses = Accesses(pipeline)
    return accesses if names_buffers(pipeline) or accesses.are_linked else None


def meets(regions: Regions, other: Any) -> NDArray[np.bool_]:
    """Which rectangles (n, 4) share an element with another."""
    top, bottom, left, right = other
    columns = regions.T
    rows_meet = (columns[0] < bottom) & (top < columns[1])
    return np.asarray(rows_meet & (columns[2] < right) & (left < columns[3]), np.bool_)


def joined_regions(regions: Regions) -> Regions:
    """The same elements in fewer rectangles: neighbours of the same columns, or of the same rows, in one."""
    return np.asarray(list(joined(Region(*map(int, row)) for row in regions)), np.int64)


def joined(regions: Iterable[Region]) -> list[Region]:
    """Rectangles with those joined that follow each other downwards or to the right."""
    found: list[Region] = []
    for one in sorted(set(regions), key=lambda region: (region.left, region.right, region.top)):
        last = found[-1] if found else None
        if last is not None and last[2:] == one[2:] and one.top <= last.bottom:
            found[-1] = last._replace(bottom=max(last.bottom, one.bottom))
        else:
            found.append(one)
    wide: list[Region] = []
    for one in sorted(found, key=lambda region: (region.top, region.bottom, region.left)):
        last = wide[-1] if wide else None
        if last is not None and last[:2] == one[:2] and one.left <= last.right:
            wide[-1] = last._replace(right=max(last.right, one.right))
        else:
            wide.append(one)
    return wide
