"""How long a tile of fused attention takes: by the blocks of keys that it walks through, which differ.

Example: on an H200 a block of 128 queries by 128 keys of head size 128 takes about 2,850 cycles. Under the
causal mask the first tile of a sequence of 1,024 has one such block and the last has eight.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

from wavesim.costs.constants import UNITS
from wavesim.costs.device_costs import default_device, own_file
from wavesim.work.attention import Attention

SECTION = "attention"
QUERIES, KEYS = 128, 128  # of the block that the constants are of
SMALL_HEAD = 64


@dataclass(frozen=True)
class AttentionCosts:
    """The constants of a device, as its data file has them.

    `block_cycles` is a block of 128 queries by 128 keys with head size 128, `small_head_cycles` with 64.
    `tile_cycles` and `small_head_tile_cycles` are what a tile takes besides: loading its queries, filling the
    pipeline, the mask of its last block, storing its output.
    """

    block_cycles: float
    small_head_cycles: float
    tile_cycles: float
    small_head_tile_cycles: float

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


@cache
def attention_costs_of(device_name: str) -> AttentionCosts | None:
    """Those of a device; None where no attention was timed on it: nothing stands in for them."""
    constants = own_file(device_name).constants
    values: dict[str, Any] = {
        key: constants[f"{SECTION}.{key}"].value for key in UNITS[SECTION] if f"{SECTION}.{key}" in constants
    }
    return AttentionCosts(**values) if values else None


def tile_weights_of(attention: Attention) -> list[float]:
    """Tile times up to a factor, in the grid's row-major order: for a kernel of which one time is known.

    In proportion to those of the default device, as no other's kernels were timed tile by tile.
    """
    costs = attention_costs_of(default_device())
    assert costs is not None, "the default device's file has all constants"
    return costs.cycles(attention)
