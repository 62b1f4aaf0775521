"""How long a tile of fused attention takes: by the blocks of keys that it walks through, which differ.

Example: on an H200 a block of 128 queries by 128 keys of head size 128 takes about 2,850 cycles. Under the
causal mask the first tile of a sequence of 1,024 has one such block and the last has eight.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from wavesim.model.stage import Stage
from wavesim.work.attention import Attention
from wavesim.work.gemm.law import visibility_ns
from wavesim.work.law import BlockTimes, CostLaw, RunSetting, StageTimes

QUERIES, KEYS = 128, 128  # of the block that the constants are of
SMALL_HEAD = 64


@dataclass(frozen=True)
class AttentionCosts(CostLaw):
    """The constants of a device, as its data file has them.

    `block_cycles` is a block of 128 queries by 128 keys with head size 128, `small_head_cycles` with 64.
    `tile_cycles` and `small_head_tile_cycles` are what a tile takes besides: loading its queries, filling the
    pipeline, the mask of its last block, storing its output. `area_visibility_ns`: as in `GemmCosts`.
    """

    section: ClassVar[str] = "attention"
    elsewhere: ClassVar[Mapping[str, str]] = {"area_visibility_ns": "tiles.area_visibility_ns"}

    block_cycles: float
    small_head_cycles: float
    tile_cycles: float
    small_head_tile_cycles: float
    area_visibility_ns: int = 0

    def times(self, stage: Stage, setting: RunSetting) -> StageTimes:
        """Each tile has its SM to itself."""
        work: Any = stage.work
        return StageTimes([BlockTimes(cycles) for cycles in self.cycles(work)])

    def overheads(self, work: Attention, setting: RunSetting, shared: Mapping[str, int]) -> dict[str, int]:
        """A post is seen later behind a larger output."""
        area = work.tile_m * work.head_dim
        return {"post_visibility_ns": visibility_ns(shared, self.area_visibility_ns, area)}

    def cycles(self, attention: Attention) -> list[float]:
        """Of each tile in the grid's row-major order, each with its SM to itself."""
        grid = attention.grid
        by_row = [self._cycles(attention, y) for y in range(grid.y)]
        return [by_row[y] for _, y in grid]

    def _cycles(self, attention: Attention, y: int) -> float:
        is_small = attention.head_dim <= SMALL_HEAD
        each = self.small_head_cycles if is_small else self.block_cycles
        besides = self.small_head_tile_cycles if is_small else self.tile_cycles
        whole = attention.tile_m * attention.tile_n / (QUERIES * KEYS)
        return besides + attention.items(0, y, 0) * whole * each
