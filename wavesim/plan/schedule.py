"""Schedules: who computes a tile. A thread block per tile, persistent blocks, or parts of tiles.

Example: 384 tiles on 132 SMs are 384 blocks with a tile each, or 132 persistent blocks that fetch tile after
tile. A schedule answers for the simulator, the runner and the views how many blocks a launch has and what a
block does after an item of work; whoever needs to know asks it and not its class.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from wavesim.plan.order import Tile
from wavesim.plan.parts import PlanPart, require_flag


@dataclass(frozen=True)
class TilePart:
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


class Schedule(PlanPart, ABC):
    """Who computes a tile.

    After an item of its work a block ends, or fetches the next tile from a counter (`fetches_tiles`), or goes
    on in a list of its own, of parts of tiles (`is_split_persistent`, `block_lists`), or of items of all
    stages whose loads run ahead of the waits (`has_work_lists`, `wavesim.plan.work_lists`).
    """

    fetches_tiles: ClassVar[bool] = False
    is_split_persistent: ClassVar[bool] = False
    has_work_lists: ClassVar[bool] = False

    @property
    def is_persistent(self) -> bool:
        """Whether a block computes more than one item of work."""
        return self.fetches_tiles or self.is_split_persistent or self.has_work_lists

    @property
    def is_fused(self) -> bool:
        """Whether one kernel computes all stages."""
        return False

    @abstractmethod
    def block_count(self, items: int, slots: int) -> int:
        """Thread blocks of a launch with so many items of work, where `slots` blocks can be resident."""

    def block_lists(self, tiles: tuple[Tile, ...], iterations: int, slots: int) -> Sequence[list[TilePart]]:
        """What each resident block computes, in order, where a block has a list of its own; else nothing.

        A tile is `iterations` steps of K.
        """
        return ()


@dataclass(frozen=True)
class TilePerBlock(Schedule):
    """A thread block per tile (and split-K slice), as a plain kernel has it."""

    @property
    def word(self) -> str:
        return "tile"

    @property
    def text(self) -> str:
        return ""

    def block_count(self, items: int, slots: int) -> int:
        return items


@dataclass(frozen=True, repr=False)
class Persistent(Schedule):
    """One block per slot, which fetches tile after tile from a counter.

    `fused`: one launch computes all stages, whose blocks fetch the tiles of one stage after those of another.
    Assumed: a block's start is paid once per slot, each tile costs `CostModel`'s tile fetch; a fused kernel
    needs the most threads, registers and shared memory that any stage does.
    """

    fused: bool = False

    fetches_tiles: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_flag("Persistent", fused=self.fused)

    @property
    def is_fused(self) -> bool:
        return self.fused

    @property
    def word(self) -> str:
        return "fused" if self.fused else "persistent"

    @property
    def text(self) -> str:
        return "one persistent kernel" if self.fused else "persistent kernels"

    @property
    def caveat(self) -> str:
        return "costs are those of blocks that fetch one tile each; not scored"

    @property
    def why_safe(self) -> str:
        return "a block waits only for tiles that resident blocks fetched before it did" if self.fused else ""

    def block_count(self, items: int, slots: int) -> int:
        return min(items, slots)
