"""How long a tile of a convolution takes: its k-blocks as a product's, or their loads, or memory.

Example: a 128x64 tile multiplies a k-block of 64 channels in 256 cycles and loads 24 KB for it, 96 bytes a
cycle, where an SM of an H200 gets 64: the loads take 384. A 256x64 tile needs 80 a cycle, a 128x128 tile 64.

Tiles take the constants of products on the same kernels, whose loads of A are other pixels and no other
number of bytes. What a convolution has of its own was fitted to single convolutions and pairs (`conv_bench`).
"""

from dataclasses import dataclass
from functools import cache
from math import ceil
from typing import Any

from wavesim.costs.constants import UNITS
from wavesim.costs.device_costs import own_file
from wavesim.costs.product_costs import ELEMENT_BYTES, SPLIT_AREA, ProductCosts, bent, product_costs_of
from wavesim.costs.tile_costs import WIDE_AREA, TileCosts, tile_costs_of
from wavesim.model.convolution import Conv2D

SECTION = "convolutions"
NARROW_ROWS, NARROW_COLUMNS, WIDE_COLUMNS = 128, 64, 256
CONTROL_BYTES, EPILOGUE_BUFFER_BYTES = 1024, 2 * 64 * 128  # of a block, and of each of its MMA warpgroups


@dataclass(frozen=True)
class OwnCosts:
    """What convolutions have of their own, as a device's data file has it.

    Under dependent launch a block that no semaphore holds back loads its filters for the whole pipeline
    before its first pixels: `slot_ns` a slot. One that waits on semaphores first reads which: `poll_ns`; then
    each k-block takes `k_block_wait_ns` longer, in tiles of 256 rows or columns `wide_k_block_wait_ns`.
    `dependent_ns`, `post_ns` and `reset_ns`: as in `CostModel`. `memset_ns`: between two runs in one graph,
    to reset what splits count with; `rearm_ns`: the same for semaphores, by the last block of a run.
    `partial_ns`: storing a split's sums, whatever their size; `fixup_ns`: adding those of a tile of 128x256,
    others by their area.
    `narrow_cycles`: what a tile of 128x64 takes besides, others of 64 columns by their rows. With fewer
    channels than a k-block has, TMA takes `short_cycles` and `short_pixel_cycles` a pixel.
    """

    slot_ns: int
    poll_ns: int
    post_ns: int
    reset_ns: int
    memset_ns: int
    rearm_ns: int
    k_block_wait_ns: int
    wide_k_block_wait_ns: int
    dependent_ns: int
    partial_ns: int
    fixup_ns: int
    narrow_cycles: float
    short_cycles: float
    short_pixel_cycles: float


@dataclass(frozen=True)
class ConvolutionCosts:
    """The constants of a device's products, of their tiles and timed alone, and those of convolutions."""

    tiles: TileCosts
    products: ProductCosts
    own: OwnCosts

    def k_blocks(self, conv: Conv2D) -> int:
        """Of the longest split."""
        return ceil(conv.k_block_count / conv.split_k)

    def tensor_cycles(self, conv: Conv2D) -> float:
        """In which the tensor cores work on a block; zeros behind the last channel are multiplied too."""
        adds = conv.tile_m * conv.tile_n * conv.tile_k / self.tiles.multiply_adds_per_cycle
        return self.k_blocks(conv) * adds

    def bytes_per_cycle(self, conv: Conv2D) -> float:
        """That the loads of a k-block would need for the tensor cores never to wait."""
        return self._loaded(conv) * self.k_blocks(conv) / self.tensor_cycles(conv)

    def cycles(self, conv: Conv2D) -> float:
        """Of a block that has its SM to itself, all it reads in the L2."""
        tensor = self.tensor_cycles(conv) * self.tiles.k_block_ratio
        loads = self.k_blocks(conv) * self.load_cycles(conv)
        area = conv.tile_m * conv.tile_n / WIDE_AREA
        narrow = self.own.narrow_cycles * conv.tile_m / NARROW_ROWS if conv.tile_n <= NARROW_COLUMNS else 0.0
        return bent(tensor, loads) + self.tiles.tile_cycles + self.tiles.area_cycles * area + narrow

    def load_cycles(self, conv: Conv2D) -> float:
        """Of a k-block: by its bytes, or by its pixels where each has few channels."""
        loads = self._loaded(conv) / self.products.l2_bytes_per_cycle
        if conv.channels >= conv.tile_k:
            return loads
        return max(loads, self.own.short_cycles + conv.tile_m * self.own.short_pixel_cycles)

    def memory_ns(self, conv: Conv2D, sm_count: int, *, is_in_l2: bool) -> float:
        """Of a block beside as many as are resident, where all that they read and write comes from DRAM."""
        if is_in_l2:
            return 0.0
        resident = min(conv.grid.size, sm_count)
        return conv.kernel.bytes_per_block * resident / self.tiles.memory_bytes_per_s * 1e9

    def overheads(self, conv: Conv2D) -> dict[str, int]:
        """Fields of `CostModel` that are a convolution's own."""
        own, area = self.own, conv.tile_m * conv.tile_n / SPLIT_AREA
        is_wide = max(conv.tile_m, conv.tile_n) >= WIDE_COLUMNS
        sums = {"partial_ns": own.partial_ns, "fixup_ns": round(own.fixup_ns * area)}
        return {
            "dependent_ns": own.dependent_ns,
            "poll_ns": own.poll_ns,
            "post_ns": own.post_ns,
            "grid_wait_ns": own.slot_ns * min(self.pipeline_depth(conv), self.k_blocks(conv)),
            "k_block_wait_ns": own.wide_k_block_wait_ns if is_wide else own.k_block_wait_ns,
            **(sums if conv.split_k > 1 else {}),
        }

    def pipeline_depth(self, conv: Conv2D) -> int:
        """K-blocks that fit into a block's shared memory, its epilogue's buffers taken off."""
        warpgroups = conv.block.threads // 128 - 1
        room = conv.block.dynamic_shared_bytes - CONTROL_BYTES - warpgroups * EPILOGUE_BUFFER_BYTES
        return max(1, room // self._loaded(conv))

    def _loaded(self, conv: Conv2D) -> int:
        """Bytes of a k-block of both operands."""
        return (conv.tile_m + conv.tile_n) * conv.tile_k * ELEMENT_BYTES


def convolution_costs_of(device_name: str) -> ConvolutionCosts | None:
    """Those of a device; None where its products are not known."""
    tiles, products, own = tile_costs_of(device_name), product_costs_of(device_name), _own_costs(device_name)
    return (
        None if tiles is None or products is None or own is None else ConvolutionCosts(tiles, products, own)
    )


@cache
def _own_costs(device_name: str) -> OwnCosts | None:
    constants = own_file(device_name).constants
    values: dict[str, Any] = {
        key: constants[f"{SECTION}.{key}"].value for key in UNITS[SECTION] if f"{SECTION}.{key}" in constants
    }
    return OwnCosts(**values) if values else None
