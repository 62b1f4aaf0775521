"""Stream-K: the last waves of a kernel cut into equal runs of K iterations, one per resident block.

Picture: 6 tiles of 32 iterations on 4 SMs. All 192 iterations are cut into 4 runs of 48: the first block
takes tile 0 and half of tile 1, the second the rest of tile 1 and tile 2, and so on. The block that starts
a tile waits for the others' partial sums and adds them up.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from wavesim.errors import DescriptionError
from wavesim.model.kernel import Gemm
from wavesim.model.order import Tile
from wavesim.model.pipeline import Stage
from wavesim.model.plan import StreamK
from wavesim.model.policy import SemaphoreTable, TileSync
from wavesim.model.semaphores import SemaphoreArray
from wavesim.model.waits import Wait
from wavesim.sim.program import Program, StageProgram

# K iterations of a tile whose kernel does not say: enough for halves and thirds of it to come out even.
USUAL_ITERATIONS = 96


@dataclass(frozen=True)
class PartialSums(TileSync):
    """A semaphore per tile, ready when all parts but the first have been stored."""

    @property
    def name(self) -> str:
        return "partial sums"


@dataclass(frozen=True)
class Part:
    """K iterations `first` up to, not including, `upto` of `of` of a tile; part `index` of its `count`."""

    tile: Tile
    first: int
    upto: int
    of: int
    index: int = 0
    count: int = 1

    @property
    def others(self) -> int:
        """Parts whose sums it adds to its own: the first part of a tile adds all others."""
        return self.count - 1 if self.index == 0 else 0

    def share_ns(self, tile_ns: int) -> int:
        """Its share of the time of a whole tile; the shares of all parts add up to it."""
        return tile_ns * self.upto // self.of - tile_ns * self.first // self.of


@dataclass
class StreamKStage(StageProgram):
    """A stage of a Stream-K kernel: an item is a part of a tile; (x, y, z) is the tile and the part's number.

    `next_of` has each item's next one in the same block, -1 after its last.
    """

    parts: tuple[Part, ...] = ()
    next_of: tuple[int, ...] = ()

    def waits(self, position: int) -> tuple[Wait, ...]:
        """At the end of its own iterations the part that starts a split tile needs the others' sums."""
        part = self.parts[position]
        if not part.others:
            return ()
        return (Wait(1, 1, self._semaphore(part), self.stage.name, part.tile),)

    def output(self, position: int) -> int:
        """Every part is an output of its own."""
        return position

    @property
    def contributors(self) -> list[int]:
        """One: the block that makes the part."""
        return [1] * len(self.parts)

    def following(self, position: int) -> int:
        """The same block's next item, -1 after its last."""
        return self.next_of[position]

    def _semaphore(self, part: Part) -> int:
        array = self.arrays[self.stage.name]
        return array.first + part.tile[1] * array.grid.x + part.tile[0]


def split_stages(program: Program, plan: StreamK, slots: list[int]) -> Program:
    """The program with every stage's tiles distributed over its slots. Raises `DescriptionError`."""
    stages: list[StageProgram] = []
    arrays: list[SemaphoreArray] = []
    for stage, count in zip(program.stages, slots, strict=True):
        first = arrays[-1].first + arrays[-1].table.count if arrays else 0
        tiles = tuple((x, y) for x, y, _ in stage.blocks)
        lists = block_lists(tiles, _iterations(stage.stage), count, plan.waves)
        array = _semaphores(stage.stage, lists, first)
        arrays += [array] if array is not None else []
        stages.append(_stage(stage, lists, array))
    return Program(tuple(stages), tuple(arrays))


def _iterations(stage: Stage) -> int:
    """K iterations of one tile."""
    if stage.grid.z > 1:
        raise DescriptionError(
            f"{stage.name} has {stage.grid.z} split-K slices; Stream-K splits K itself. Use split_k=1"
        )
    return -(-stage.work.k // stage.work.tile_k) if isinstance(stage.work, Gemm) else USUAL_ITERATIONS


def block_lists(tiles: tuple[Tile, ...], iterations: int, slots: int, waves: int) -> list[list[Part]]:
    """What each of so many resident blocks computes, in order: whole tiles, then its run of iterations."""
    left_over = len(tiles) % slots
    split = min(len(tiles), left_over + (waves - 1) * slots) if left_over else 0
    whole = len(tiles) - split
    lists = [
        [Part(tile, 0, iterations, iterations) for tile in tiles[slot:whole:slots]] for slot in range(slots)
    ]
    cuts = [split * iterations * slot // slots for slot in range(slots + 1)]
    places = sorted(set(cuts))
    found = [
        [*parts, *_run(tiles[whole:], iterations, begin, end, places)]
        for parts, (begin, end) in zip(lists, pairwise(cuts), strict=True)
    ]
    return [parts for parts in found if parts]


def _run(tiles: tuple[Tile, ...], iterations: int, begin: int, end: int, cuts: list[int]) -> Iterator[Part]:
    """The parts of tiles in iterations `begin` up to `end` of all of them, which are cut at `cuts`."""
    while begin < end:
        number, first = divmod(begin, iterations)
        upto = min(iterations, first + end - begin)
        before = bisect_right(cuts, number * iterations)
        index = bisect_right(cuts, begin) - before
        count = bisect_left(cuts, (number + 1) * iterations) - before + 1
        yield Part(tiles[number], first, upto, iterations, index, count)
        begin += upto - first


def _semaphores(stage: Stage, lists: list[list[Part]], first: int) -> SemaphoreArray | None:
    """A semaphore per tile, ready when all parts but the first have been stored; None if nothing is split."""
    grid = stage.grid
    others = [0] * grid.tiles
    for part in (part for parts in lists for part in parts):
        others[part.tile[1] * grid.x + part.tile[0]] = part.count - 1
    if not any(others):
        return None
    table = SemaphoreTable(grid.tiles, tuple(range(grid.tiles)), tuple(others))
    return SemaphoreArray(stage.name, PartialSums(), table, first, grid)


def _stage(program: StageProgram, lists: list[list[Part]], array: SemaphoreArray | None) -> StreamKStage:
    """Items in rounds: the first of every block, then every second one, and so on."""
    places = [(turn, block) for block, parts in enumerate(lists) for turn in range(len(parts))]
    number = {place: position for position, place in enumerate(sorted(places))}
    parts = tuple(lists[block][turn] for turn, block in number)
    return StreamKStage(
        program.index,
        program.stage,
        blocks=tuple((*part.tile, part.index) for part in parts),
        posts=tuple(_posts(part, array) for part in parts),
        dependency=None,
        arrays={} if array is None else {program.stage.name: array},
        parts=parts,
        next_of=tuple(number.get((turn + 1, block), -1) for turn, block in number),
    )


def _posts(part: Part, array: SemaphoreArray | None) -> tuple[int, ...]:
    if array is None or part.index == 0:
        return ()
    return (array.first + part.tile[1] * array.grid.x + part.tile[0],)
