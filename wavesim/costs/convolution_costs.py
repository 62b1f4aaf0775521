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
from wavesim.work.convolution import Conv2D

SECTION = "convolutions"
NARROW_ROWS, NARROW_COLUMNS, WIDE_COLUMNS = 128, 64, 256
CROWDED_SPLITS, CROWDED_FILL, FEW_K_BLOCKS = 4, 0.75, 4
CONTROL_BYTES, EPILOGUE_BUFFER_BYTES = 1024, 2 * 64 * 128  # of a block, and of each of its MMA warpgroups


@dataclass(frozen=True)
class OwnCosts:
    """What convolutions have of their own, as a device's data file has it.

    Under dependent launch a block that no semaphore holds back loads its filters for the whole pipeline
    before its first pixels: `slot_ns` a slot. One that waits on semaphores first reads which: `poll_ns`; then
    each k-block takes `k_block_wait_ns` longer, in tiles of 256 rows or columns `wide_k_block_wait_ns`.
    `dependent_ns`, `post_ns`, `post_visibility_ns`, `column_visibility_ns` and `reset_ns`: as in `CostModel`.
    `memset_ns`: between two runs in one graph, to reset what splits count with; `rearm_ns`: the same for
    semaphores, by the last block of a run. `partial_ns`: storing a split's sums, whatever their size;
    `fixup_ns`: adding those of a tile of 128x256, others by their area. `look_ns`: each semaphore that a
    block looks at. An SM loads `l2_bytes_per_cycle`; each k-block of kernels larger than 1x1, whose tile's
    pixels lie in several runs of memory, takes `tap_cycles` more. A tile of 128x256 takes `full_cycles`
    longer where there is a block on each SM, others by their area and by how many SMs have one. With fewer
    channels than a k-block has, TMA takes `short_cycles` and `short_pixel_cycles` a pixel. `limit_ghz`: the
    clock with all tensor cores at work; `most_ghz`, `rest_share`: as in `LoadClock`.

    A persistent kernel takes `persistent_ns` longer before its first tiles; its k-blocks take as much longer
    as those of blocks that wait. A block that goes on with another tile takes `next_ns` for it, not the
    `block_ns` of a new one, and `overlap_share` of its stores is hidden behind its loop over K. Under
    semaphores a tile's post and its look at them take `staying_post_ns` more each than in blocks of one tile.

    Of 1x1 and of crowded splits, whose loads wait for the L2 anyway, `light_slot_ns` and
    `light_k_block_wait_ns` stand for the two above. Splits are crowded where K is in `CROWDED_SPLITS` or more
    and blocks are on more than `CROWDED_FILL` of the SMs; on more than half of them each loop takes as much
    longer as they are more, times `crowd_share`. A tile's splits end up to `spread_ns` later than the first
    tile's. In tiles of 64 columns loops larger than 1x1 take as much longer as SMs have a block, times
    `narrow_share` for each 128 rows. Under semaphores a 1x1 of up to
    `FEW_K_BLOCKS` posts and looks `few_k_blocks_ns` later each, but in persistent kernels.
    """

    slot_ns: int
    poll_ns: int
    post_ns: int
    post_visibility_ns: int
    reset_ns: int
    memset_ns: int
    rearm_ns: int
    k_block_wait_ns: int
    wide_k_block_wait_ns: int
    dependent_ns: int
    partial_ns: int
    fixup_ns: int
    look_ns: int
    short_cycles: float
    short_pixel_cycles: float
    l2_bytes_per_cycle: float
    tap_cycles: float
    full_cycles: float
    column_visibility_ns: int
    persistent_ns: int
    next_ns: int
    staying_post_ns: int
    overlap_share: float
    limit_ghz: float
    most_ghz: float
    rest_share: float
    light_slot_ns: int
    light_k_block_wait_ns: int
    crowd_share: float
    spread_ns: int
    narrow_share: float
    few_k_blocks_ns: int


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

    def cycles(self, conv: Conv2D, fill: float = 1.0) -> float:
        """Of a block that has its SM to itself, all it reads in the L2, with blocks on a share of the SMs."""
        loop = self.loop_cycles(conv) * self.crowd_ratio(conv, fill)
        return loop + self.tiles.tile_cycles + self.store_cycles(conv, fill)

    def loop_cycles(self, conv: Conv2D) -> float:
        """Of its k-blocks: loads and multiply-adds overlap."""
        tensor = self.tensor_cycles(conv) * self.tiles.k_block_ratio
        return bent(tensor, self.k_blocks(conv) * self.load_cycles(conv))

    def store_cycles(self, conv: Conv2D, fill: float = 1.0) -> float:
        """Of storing its outputs, with blocks on a share of the SMs."""
        return (self.tiles.area_cycles + self.own.full_cycles * fill) * self._area(conv)

    def load_cycles(self, conv: Conv2D) -> float:
        """Of a k-block: by its bytes and pixels, or by its pixels where each has few channels."""
        loads = self._loaded(conv) / self.own.l2_bytes_per_cycle
        if conv.kernel_size > 1:
            loads += self.own.tap_cycles
        if conv.channels >= conv.tile_k:
            return loads
        return max(loads, self.own.short_cycles + conv.tile_m * self.own.short_pixel_cycles)

    def traffic_ns(self, conv: Conv2D, sm_count: int) -> tuple[float, float]:
        """(reading, writing) of a block beside as many as are resident, by DRAM: what the L2 has no room for.

        A residual is read as outputs are stored. Of taps further apart than they are wide, pixels between are
        not read.
        """
        matrices = {name: matrix.bytes for name, matrix in conv.operands.items()}
        read = matrices["a"] * min(1.0, (conv.kernel_size / conv.stride) ** 2) + matrices["b"]
        written = matrices["c"] + matrices.get("residual", 0)
        missing = max(0.0, 1.0 - self.tiles.l2_bytes / (read + written))
        share = missing * min(conv.grid.size, sm_count) / conv.grid.size
        share *= 1e9 / self.tiles.memory_bytes_per_s
        return read * share, written * share

    def crowd_ratio(self, conv: Conv2D, fill: float) -> float:
        """By what the loop's time is multiplied with blocks on a share of the SMs, `fill`."""
        if conv.split_k > 1:
            beyond = max(0.0, fill - 0.5) if conv.split_k >= CROWDED_SPLITS else 0.0
            return 1.0 + self.own.crowd_share * beyond
        if conv.tile_n > NARROW_COLUMNS or conv.kernel_size == 1 or conv.channels < conv.tile_k:
            return 1.0
        return 1.0 + self.own.narrow_share * conv.tile_m / NARROW_ROWS * fill

    def later_ns(self, conv: Conv2D, sm_count: int) -> int:
        """By how much all k-blocks of a block that waits, or stays for another tile, take longer."""
        each = self.own.k_block_wait_ns
        if self._is_light(conv, sm_count):
            each = self.own.light_k_block_wait_ns
        elif max(conv.tile_m, conv.tile_n) >= WIDE_COLUMNS:
            each = self.own.wide_k_block_wait_ns
        return each * self.k_blocks(conv)

    def overheads(self, conv: Conv2D, sm_count: int, *, is_persistent: bool = False) -> dict[str, int]:
        """Fields of `CostModel` that are a convolution's own.

        Persistent kernels fetch a tile while they compute the one before, so that what a tile takes longer
        under semaphores is with its post and its look at them, in `staying_post_ns`; k-blocks take longer
        whether they wait or not.
        """
        own, area = self.own, conv.tile_m * conv.tile_n / SPLIT_AREA
        slot_ns = own.light_slot_ns if self._is_light(conv, sm_count) else own.slot_ns
        few_ns = own.few_k_blocks_ns if conv.kernel_size == 1 and conv.k_block_count <= FEW_K_BLOCKS else 0
        sums = {"partial_ns": own.partial_ns, "fixup_ns": round(own.fixup_ns * area)}
        found = {
            "dependent_ns": own.dependent_ns,
            "poll_ns": own.poll_ns + few_ns,
            "wait_ns": own.look_ns,
            "column_visibility_ns": own.column_visibility_ns,
            "post_ns": own.post_ns + few_ns,
            "post_visibility_ns": own.post_visibility_ns,
            "grid_wait_ns": slot_ns * min(self.pipeline_depth(conv), self.k_blocks(conv)),
            "k_block_wait_ns": self.later_ns(conv, sm_count) // self.k_blocks(conv),
            **(sums if conv.split_k > 1 else {}),
        }
        if not is_persistent:
            return found
        staying = {
            name: ns + own.staying_post_ns
            for name, ns in (("post_ns", own.post_ns), ("poll_ns", own.poll_ns))
        }
        return found | staying | {"k_block_wait_ns": 0, "tile_fetch_ns": 0}

    def pipeline_depth(self, conv: Conv2D) -> int:
        """K-blocks that fit into a block's shared memory, its epilogue's buffers taken off."""
        warpgroups = conv.block.threads // 128 - 1
        room = conv.block.dynamic_shared_bytes - CONTROL_BYTES - warpgroups * EPILOGUE_BUFFER_BYTES
        return max(1, room // self._loaded(conv))

    def _is_light(self, conv: Conv2D, sm_count: int) -> bool:
        """Whether its loads wait for the L2 so long that a few instructions more before each cost little."""
        is_crowded = conv.split_k >= CROWDED_SPLITS and conv.grid.size > CROWDED_FILL * sm_count
        return conv.kernel_size == 1 or is_crowded

    def _area(self, conv: Conv2D) -> float:
        return conv.tile_m * conv.tile_n / WIDE_AREA

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
