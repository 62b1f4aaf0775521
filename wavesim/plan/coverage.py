"""Whether a stage's waits cover what its tiles read: every tile that writes it is named, or done before one.

Example: the second norm of a layer reads the first one's sum as its residual. It names only the output
product's tiles; these need attention's, and these the first norm's, so that the sum is there when the
product's tile is.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from wavesim.errors import DescriptionError
from wavesim.model.accesses import Accesses, Regions, Tile, joined_regions, meets
from wavesim.model.dependency import Dependency


@dataclass(frozen=True)
class Needed:
    """A producer's tile that a block needs before work item `at`."""

    producer: str
    tile: Tile
    at: int


class Precedence:
    """Which tiles of earlier stages are done when a tile is posted: those it waits for, and theirs in turn.

    Sets of tiles are integers, a bit per tile of the pipeline.
    """

    def __init__(self, accesses: Accesses) -> None:
        self.accesses = accesses
        self._before: dict[tuple[str, Tile], int] = {}
        self._needed: dict[tuple[str, Tile, int], list[Needed]] = {}
        self._covered: set[str] = set()
        self._written: dict[str, tuple[Regions, list[tuple[str, Tile]]]] = {}
        self._first: dict[str, int] = {}
        first = 0
        for stage in accesses.pipeline.stages:
            self._first[stage.name] = first
            first += stage.grid.tiles

    @cached_property
    def _columns(self) -> dict[str, int]:
        return {stage.name: stage.grid.x for stage in self.accesses.pipeline.stages}

    def number(self, stage: str, tile: Tile) -> int:
        """The bit of a tile."""
        return self._first[stage] + tile[1] * self._columns[stage] + tile[0]

    def upto(self, stage: str, tile: Tile) -> int:
        """The tile and all that is done when it is."""
        return self.before(stage, tile) | 1 << self.number(stage, tile)

    def before(self, stage: str, tile: Tile) -> int:
        """All that is done when the tile is, without itself."""
        own = self._first_alike(stage, tile)
        key = stage, own
        if key not in self._before:
            done = 0
            for z in range(self.accesses.pipeline.stage(stage).grid.z):
                for needed in self.needed(stage, own, z):
                    done |= self.upto(needed.producer, needed.tile)
            self._before[key] = done
        return self._before[key]

    def _first_alike(self, stage: str, tile: Tile) -> Tile:
        """The first tile of the row if it needs and reads the same as this one, else this one."""
        first = 0, tile[1]
        is_alike = not self._depends_on_column[stage] and self.accesses.read_alike(stage, first, tile)
        return first if is_alike else tile

    @cached_property
    def _depends_on_column(self) -> dict[str, bool]:
        """Whether what a stage's tiles need differs within a row: by name, or by what they overwrite."""
        depends = {}
        for stage in self.accesses.pipeline.stages:
            dependency = self.accesses.pipeline.dependency_of(stage.name)
            depends[stage.name] = dependency is not None and (
                any(need.uses("x") for need in dependency.needs)
                or any(self.accesses.may_overwrite(stage.name, name) for name in dependency.producers)
            )
        return depends

    def needed(self, stage: str, tile: Tile, z: int) -> list[Needed]:
        """What the block of a tile and split needs, of the tiles that its dependency names, and when.

        Named tiles with which it shares nothing are left out.
        """
        key = stage, tile, z
        if key not in self._needed:
            dependency = self.accesses.pipeline.dependency_of(stage)
            named = dependency.producer_tiles(*tile) if dependency is not None else []
            reads = (
                (name, made, self.accesses.first_item(stage, tile, z, name, made)) for name, made in named
            )
            self._needed[key] = [Needed(name, made, at) for name, made, at in reads if at is not None]
        return self._needed[key]

    def require_covered(self, stage: str) -> None:
        """Raises `DescriptionError` unless all that a stage's tiles read is done before they do.

        The error names the tile, what it reads, whose tile writes that, and the fix.
        """
        if stage in self._covered:
            return
        grid = self.accesses.pipeline.stage(stage).grid
        for tile in grid:
            if self._first_alike(stage, tile) == tile:
                for z in range(grid.z):
                    _require_block(self, stage, tile, z)
        self._covered.add(stage)

    def writers(self, stage: str, buffer: str, region: Regions) -> list[tuple[str, Tile]]:
        """The tiles of stages before `stage` that write any of a rectangle of a buffer."""
        regions, owners = self._written_in(buffer)
        writing = (owners[i] for i in np.flatnonzero(meets(regions, region)))
        return [owner for owner in writing if self._first[owner[0]] < self._first[stage]]

    def _written_in(self, buffer: str) -> tuple[Regions, list[tuple[str, Tile]]]:
        if buffer not in self._written:
            rows = [
                (region, (name, tile))
                for name in self.accesses.writers_of(buffer)
                for tile in self.accesses.pipeline.stage(name).grid
                for region in self.accesses.writes(name, tile).get(buffer, ())
            ]
            regions = np.asarray([region for region, _ in rows], np.int64).reshape(-1, 4)
            self._written[buffer] = regions, [owner for _, owner in rows]
        return self._written[buffer]


def _require_block(order: Precedence, stage: str, tile: Tile, z: int) -> None:
    accesses = order.accesses
    needed = order.needed(stage, tile, z)
    direct = {(need.producer, need.tile) for need in needed}
    for buffer, read in accesses.reads(stage, tile, z).items():
        whole = joined_regions(read.regions)
        if all(writer in direct for region in whole for writer in order.writers(stage, buffer, region)):
            continue  # what is named is needed at its first read
        for region, at in zip(read.regions, read.at, strict=True):
            for writer in order.writers(stage, buffer, region):
                bit = 1 << order.number(*writer)
                is_done = writer in direct or any(
                    need.at <= at and order.before(need.producer, need.tile) & bit for need in needed
                )
                if not is_done:
                    _refuse(accesses.pipeline.dependency_of(stage), stage, tile, buffer, region, writer)


def _refuse(
    dependency: Dependency | None,
    stage: str,
    tile: Tile,
    buffer: str,
    region: Regions,
    writer: tuple[str, Tile],
) -> None:
    top, bottom, left, right = map(int, region)
    name, made = writer
    raise DescriptionError(
        f"{dependency or stage}: tile {tile} of {stage} reads rows {top} to {bottom - 1}, columns {left} to "
        f"{right - 1} of {buffer!r}, which tile {made} of {name} writes; it is not among its needs and not "
        "done "
        f"before them. Add {name}[{made[0]}, {made[1]}], as a function of x and y, to its needs"
    )
