"""Which tiles are done before a tile gets to a work item, under a plan: a set of tiles for each.

Example: under row semaphores a tile of the third stage waits for a row of the second, whose tiles waited for
rows of the first; all of these are done when its wait is over. On one stream all stages before its own are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from wavesim.model.accesses import Accesses
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.order import Tile
from wavesim.plan.plan import Plan
from wavesim.plan.resolved import resolve

Bits = int  # a set of tiles: bit n is tile number n
Waits = tuple[tuple[int, int], ...]  # (work item, semaphore), items ascending


class TileSets:
    """The tiles of a pipeline, numbered through its stages, row-major."""

    def __init__(self, pipeline: Pipeline) -> None:
        firsts = list(accumulate((stage.grid.tiles for stage in pipeline.stages), initial=0))
        self._stages, self.count = pipeline.stages, firsts[-1]
        self._firsts = {stage.name: first for stage, first in zip(pipeline.stages, firsts, strict=False)}

    def number(self, stage: Stage, tile: Tile) -> int:
        """Of a stage's tile."""
        return self._firsts[stage.name] + tile[1] * stage.grid.x + tile[0]

    def name(self, number: int) -> tuple[str, Tile]:
        """Stage and tile of a number."""
        stage = [stage for stage in self._stages if self._firsts[stage.name] <= number][-1]
        y, x = divmod(number - self._firsts[stage.name], stage.grid.x)
        return stage.name, (x, y)

    def tiles(self, bits: Bits) -> Iterator[tuple[str, Tile]]:
        """Stage and tile of all in a set."""
        while bits:
            lowest = bits & -bits
            yield self.name(lowest.bit_length() - 1)
            bits ^= lowest

    def before_stage(self, stage: Stage) -> Bits:
        """All tiles of the stages listed before."""
        return (1 << self._firsts[stage.name]) - 1


@dataclass(frozen=True)
class CompletedTiles:
    """What is done before a tile's work items: (item, tiles done before it), each set with those before."""

    steps: tuple[tuple[int, Bits], ...]

    def upto(self, at: int) -> Bits:
        """Done before work item `at`."""
        return max((done for item, done in self.steps if item <= at), default=0)

    @property
    def all(self) -> Bits:
        """Done before the tile's first store."""
        return self.steps[-1][1]


class TileOrder:
    """What kernel boundaries and semaphores of a plan order."""

    def __init__(self, plan: Plan, accesses: Accesses, sets: TileSets) -> None:
        self._pipeline, self._plan, self._accesses, self._sets = accesses.pipeline, plan, accesses, sets
        self._resolved = resolve(accesses.pipeline, plan)
        self._posted: dict[int, Bits] = {}  # all that is done once a semaphore has its value
        self._before: list[tuple[CompletedTiles, ...]] = []  # of each tile, its splits
        for index, stage in enumerate(self._pipeline.stages):
            self._add(index, stage)

    def before(self, number: int, z: int) -> CompletedTiles:
        """Of a split of a tile, by the tile's number."""
        return self._before[number][z]

    def before_end(self, number: int) -> Bits:
        """Of a tile: the last of its splits to finish stores it, when all have waited."""
        done = 0
        for split in self._before[number]:
            done |= split.all
        return done

    def _add(self, index: int, stage: Stage) -> None:
        boundary = self._sets.before_stage(stage) if self._has_boundary(index) else 0
        known: dict[Waits, CompletedTiles] = {}
        for tile in stage.grid:
            splits = [self._waits(stage, tile, z) for z in range(stage.grid.z)]
            for waits in splits:
                if waits not in known:
                    known[waits] = CompletedTiles(tuple(self._accumulated(boundary, waits)))
            self._before.append(tuple(known[waits] for waits in splits))
        self._post(stage)

    def _has_boundary(self, index: int) -> bool:
        """Whether all kernels before have ended when this one begins to compute.

        By dependent launch without semaphores a block waits for the grid before it, whose blocks have waited
        for the one before theirs. With semaphores a kernel that starts early has no such wait. One that does
        not has them all behind it: kernels wait for the grid before them ahead of their own end.
        """
        plan = self._plan
        if not plan.sync.has_semaphores:
            return True
        return not plan.schedule.is_fused and self._resolved.turns[index].is_after_end

    def _waits(self, stage: Stage, tile: Tile, z: int) -> Waits:
        dependency = self._pipeline.dependency_of(stage.name)
        if dependency is None or not self._plan.sync.has_semaphores:
            return ()
        if self._plan.schedule.has_work_lists:  # an item waits before it computes anything
            arrays = (self._resolved.array_of[producer, stage.name] for producer in dependency.producers)
            return tuple((0, array.semaphore((0, 0))) for array in arrays)
        first_items: dict[int, int] = {}
        for producer, made in dependency.producer_tiles(*tile):
            semaphore = self._resolved.array_of[producer, stage.name].semaphore(made)
            item = self._accesses.first_item(stage.name, tile, z, producer, made)
            if item is not None:
                first_items[semaphore] = min(item, first_items.get(semaphore, item))
        return tuple(sorted((item, semaphore) for semaphore, item in first_items.items()))

    def _accumulated(self, boundary: Bits, waits: Waits) -> Sequence[tuple[int, Bits]]:
        steps, done = [(0, boundary)], boundary
        for item, semaphore in waits:
            done |= self._posted[semaphore]
            steps.append((item, done))
        return steps

    def _post(self, stage: Stage) -> None:
        """A semaphore that has its value stands for its tiles, and all that was done before them."""
        first = self._sets.number(stage, (0, 0))
        for array in self._resolved.outputs(stage.name):
            for tile, semaphore in enumerate(array.table.semaphore_of_tile):
                done = self.before_end(first + tile) | 1 << (first + tile)
                key = array.first + semaphore
                self._posted[key] = self._posted.get(key, 0) | done
