"""Tiles cut into parts: what each resident block computes where a schedule gives it a list of its own.

Example: under Stream-K 6 tiles of 32 iterations on 4 SMs become 8 parts of tiles and 4 whole ones, in rounds:
the first of every block, then every second one, and so on.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from wavesim.costs.wait_costs import iterations_of
from wavesim.errors import DescriptionError
from wavesim.plan.resolved import ResolvedPlan, ResolvedStage
from wavesim.plan.schedule import TilePart


@dataclass
class SplitStage(ResolvedStage):
    """A stage whose tiles are split: an item is a part of a tile; (x, y, z) is tile and number of the part.

    `next_of` has each item's next one in the same block, -1 after its last.
    """

    parts: tuple[TilePart, ...] = ()
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


def split_stages(whole: Sequence[ResolvedStage], resolved: ResolvedPlan) -> Sequence[ResolvedStage]:
    """The stages with their tiles distributed over their slots, where the schedule says how.

    Raises `DescriptionError`.
    """
    schedule = resolved.plan.schedule
    if not schedule.is_split_persistent:
        return whole
    stages = []
    for stage in whole:
        count = resolved.slots(stage.stage.name)
        tiles = tuple((x, y) for x, y, z in stage.blocks if not z)
        lists = schedule.block_lists(tiles, iterations_of(stage.stage), count)
        if stage.stage.grid.z > 1:
            raise DescriptionError(
                f"{stage.stage.name} has {stage.stage.grid.z} split-K slices; {schedule.text} splits K "
                "itself. Use split_k=1"
            )
        stages.append(_split(stage, lists))
    return stages


def _split(program: ResolvedStage, lists: Sequence[list[TilePart]]) -> SplitStage:
    """Items in rounds: the first of every block, then every second one, and so on."""
    places = [(turn, block) for block, parts in enumerate(lists) for turn in range(len(parts))]
    number = {place: position for position, place in enumerate(sorted(places))}
    parts = tuple(lists[block][turn] for turn, block in number)
    return SplitStage(
        program.index,
        program.stage,
        blocks=tuple((*part.tile, part.index) for part in parts),
        posts=program.posts,
        dependency=None,
        arrays=program.arrays,
        loop=program.loop,
        grid_waits=program.grid_waits,
        parts=parts,
        next_of=tuple(number.get((turn + 1, block), -1) for turn, block in number),
    )
