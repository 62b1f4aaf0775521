"""Stream-K: the last tiles of a kernel cut into equal runs of K iterations, one per resident block.

Example: 6 tiles of 32 iterations on 4 SMs. The last two are 64 iterations, 16 for each block: the first two
blocks start with half of tile 4 each, the others with half of tile 5; then every block has a whole tile. Of
the two halves of a tile the one that comes last adds the sums of both.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from wavesim.errors import DescriptionError
from wavesim.model.kernel import Gemm
from wavesim.model.pipeline import Stage
from wavesim.plan.order import Tile
from wavesim.plan.plan import StreamK
from wavesim.sim.program import Program, StageProgram

# K iterations of a tile whose kernel does not say: enough for halves and thirds of it to come out even.
USUAL_ITERATIONS = 96


@dataclass(frozen=True)
class Part:
    """K iterations `first` up to, not including, `upto` of `of` of a tile; part `index` of its `count`."""

    tile: Tile
    first: int
    upto: int
    of: int
    index: int = 0
    count: int = 1

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

    @property
    def contributors(self) -> list[int]:
        """How many blocks make each tile: one per part of it."""
        grid = self.stage.grid
        counts = [1] * grid.tiles
        for part in self.parts:
            counts[part.tile[1] * grid.x + part.tile[0]] = part.count
        return counts

    @property
    def is_first(self) -> list[bool]:
        """Whether an item is the first of its block."""
        later = set(self.next_of)
        return [position not in later for position in range(len(self.parts))]

    def following(self, position: int) -> int:
        """The same block's next item, -1 after its last."""
        return self.next_of[position]


def split_stages(program: Program, plan: StreamK, slots: list[int]) -> Program:
    """The program with every stage's tiles distributed over its slots. Raises `DescriptionError`."""
    stages = []
    for stage, count in zip(program.stages, slots, strict=True):
        tiles = tuple((x, y) for x, y, _ in stage.blocks)
        cut = plan.cut_tiles(len(tiles), count)
        lists = block_lists(tiles, _iterations(stage.stage), count, cut, in_order=plan.in_order)
        stages.append(_stage(stage, lists))
    return Program(tuple(stages), ())


def _iterations(stage: Stage) -> int:
    """K iterations of one tile."""
    if stage.grid.z > 1:
        raise DescriptionError(
            f"{stage.name} has {stage.grid.z} split-K slices; Stream-K splits K itself. Use split_k=1"
        )
    return -(-stage.work.k // stage.work.tile_k) if isinstance(stage.work, Gemm) else USUAL_ITERATIONS


def block_lists(
    tiles: tuple[Tile, ...], iterations: int, slots: int, cut: int, *, in_order: bool = False
) -> list[list[Part]]:
    """What each of so many resident blocks computes: its run of the last `cut` tiles, then whole tiles.

    Of its run the tile that it starts comes before what it ends, so that all blocks are at about the same
    place in K; or all `in_order`.
    """
    whole = len(tiles) - cut
    bounds = [cut * iterations * slot // slots for slot in range(slots + 1)]
    places = sorted(set(bounds))
    found = []
    for slot, (begin, end) in enumerate(pairwise(bounds)):
        turn = begin if in_order else max(begin, end // iterations * iterations)
        parts = [*_run(tiles[whole:], iterations, turn, end, places)]
        parts += _run(tiles[whole:], iterations, begin, turn, places)
        parts += [Part(tile, 0, iterations, iterations) for tile in tiles[slot:whole:slots]]
        found.append(parts)
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


def _stage(program: StageProgram, lists: list[list[Part]]) -> StreamKStage:
    """Items in rounds: the first of every block, then every second one, and so on."""
    places = [(turn, block) for block, parts in enumerate(lists) for turn in range(len(parts))]
    number = {place: position for position, place in enumerate(sorted(places))}
    parts = tuple(lists[block][turn] for turn, block in number)
    return StreamKStage(
        program.index,
        program.stage,
        blocks=tuple((*part.tile, part.index) for part in parts),
        posts=program.posts,
        dependency=None,
        arrays={},
        parts=parts,
        next_of=tuple(number.get((turn + 1, block), -1) for turn, block in number),
    )
