"""How long a tile of a convolution takes: its k-blocks as a product's, or their loads, or memory.

Example: a 128x64 tile multiplies a k-block of 64 channels in 256 cycles and loads 24 KB for it, 96 bytes a
cycle, where an SM of an H200 gets 64: the loads take 384. A 256x64 tile needs 80 a cycle, a 128x128 tile 64.

Tiles take the constants of products on the same kernels, whose loads of A are other pixels and no other
number of bytes. What a convolution has of its own was fitted to single convolutions and pairs (`conv_bench`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import ceil
from typing import Any, ClassVar

from wavesim.errors import DescriptionError
from wavesim.model.occupancy import occupancy_of
from wavesim.model.stage import Stage
from wavesim.work.convolution import Conv2D
from wavesim.work.gemm import ELEMENT_BYTES
from wavesim.work.gemm.law import WIDE_AREA
from wavesim.work.law import BlockTimes, CostLaw, LoadClock, RunSetting, StageTimes, bent, in_grid_order

NARROW_ROWS, NARROW_COLUMNS, WIDE_COLUMNS = 128, 64, 256
CROWDED_SPLITS, CROWDED_FILL, FEW_K_BLOCKS = 4, 0.75, 4
CONTROL_BYTES, EPILOGUE_BUFFER_BYTES = 1024, 2 * 64 * 128  # of a block, and of each of its MMA warpgroups


@dataclass(frozen=True)
class ConvolutionCosts(CostLaw):
    """What convolutions have of their own, as a device's data file has it, and how long their tiles take.

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

    section: ClassVar[str] = "convolutions"
    scored_as: ClassVar[str] = "convolutions, device constants"
    fitted_to: ClassVar[str] = "convolutions as fitted to single ones and to pairs and chains"
    elsewhere: ClassVar[Mapping[str, str]] = {
        "multiply_adds_per_cycle": "products.multiply_adds_per_cycle",
        **{name: f"tiles.{name}" for name in ("k_block_ratio", "tile_cycles", "area_cycles")},
        "memory_bytes_per_s": "memory.dram_bytes_per_s",
        "l2_bytes": "memory.l2_bytes",
    }

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
    multiply_adds_per_cycle: float
    k_block_ratio: float
    tile_cycles: float
    area_cycles: float
    memory_bytes_per_s: float
    l2_bytes: int

    @property
    def clock(self) -> LoadClock:
        """As fitted to runs of convolutions alone."""
        return LoadClock(float(self.limit_ghz), float(self.most_ghz), float(self.rest_share))

    @property
    def run_overheads(self) -> Mapping[str, int]:
        """Semaphores are reset as in `CostModel`."""
        return {"reset_ns": self.reset_ns}

    def times(self, stage: Stage, setting: RunSetting) -> StageTimes:
        """Raises `DescriptionError` for blocks that share an SM: of such kernels nothing is known."""
        conv: Any = stage.work
        if occupancy_of(setting.device, stage.kernel.block).blocks_per_sm > 1:
            raise DescriptionError(
                f"stage {stage.name}: several of its blocks share an SM of {setting.device.name}; costs of "
                "convolutions are known of blocks that fill one. Give its time (kernel_us)"
            )
        tensor = self.tensor_cycles(conv) * conv.grid.size
        sms, count = setting.sms, conv.grid.size
        first = following = _convolution_block(conv, self, sms)
        if setting.is_persistent:
            before_ns = first.before_ns + self.persistent_ns + self.later_ns(conv, sms)
            first, following = replace(first, before_ns=before_ns), _following_block(conv, self, sms)

        @cache
        def crowded(block: BlockTimes, fill: float) -> BlockTimes:
            return replace(
                block,
                loop_cycles=block.loop_cycles * self.crowd_ratio(conv, fill),
                other_cycles=block.other_cycles + self.store_cycles(conv, fill) - self.store_cycles(conv),
            )

        last = count % sms
        issued = [
            crowded(first if i < sms else following, 1.0 if i < count - last else last / sms)
            for i in range(count)
        ]
        if conv.split_k > 1:
            each_ns = self.spread_ns / conv.grid.tiles
            issued = [
                replace(entry, before_ns=entry.before_ns + each_ns * (i // conv.split_k))
                for i, entry in enumerate(issued)
            ]
        blocks = issued if len(set(issued)) > 1 else []
        return StageTimes(in_grid_order(blocks, conv.split_k) or issued[0], tensor)

    def k_blocks(self, conv: Conv2D) -> int:
        """Of the longest split."""
        return ceil(conv.k_block_count / conv.split_k)

    def tensor_cycles(self, conv: Conv2D) -> float:
        """In which the tensor cores work on a block; zeros behind the last channel are multiplied too."""
        adds = conv.tile_m * conv.tile_n * conv.tile_k / self.multiply_adds_per_cycle
        return self.k_blocks(conv) * adds

    def loop_cycles(self, conv: Conv2D) -> float:
        """Of its k-blocks: loads and multiply-adds overlap."""
        tensor = self.tensor_cycles(conv) * self.k_block_ratio
        return bent(tensor, self.k_blocks(conv) * self.load_cycles(conv))

    def store_cycles(self, conv: Conv2D, fill: float = 1.0) -> float:
        """Of storing its outputs, with blocks on a share of the SMs."""
        return (self.area_cycles + self.full_cycles * fill) * self._area(conv)

    def load_cycles(self, conv: Conv2D) -> float:
        """Of a k-block: by its bytes and pixels, or by its pixels where each has few channels."""
        loads = self._loaded(conv) / self.l2_bytes_per_cycle
        if conv.kernel_size > 1:
            loads += self.tap_cycles
        if conv.channels >= conv.tile_k:
            return loads
        return max(loads, self.short_cycles + conv.tile_m * self.short_pixel_cycles)

    def traffic_ns(self, conv: Conv2D, sm_count: int) -> tuple[float, float]:
        """(reading, writing) of a block beside as many as are resident, by DRAM: what the L2 has no room for.

        A residual is read as outputs are stored. Of taps further apart than they are wide, pixels between are
        not read.
        """
        matrices = {name: matrix.bytes for name, matrix in conv.operands.items()}
        read = matrices["a"] * min(1.0, (conv.kernel_size / conv.stride) ** 2) + matrices["b"]
        written = matrices["c"] + matrices.get("residual", 0)
        missing = max(0.0, 1.0 - self.l2_bytes / (read + written))
        share = missing * min(conv.grid.size, sm_count) / conv.grid.size
        share *= 1e9 / self.memory_bytes_per_s
        return read * share, written * share

    def crowd_ratio(self, conv: Conv2D, fill: float) -> float:
        """By what the loop's time is multiplied with blocks on a share of the SMs, `fill`."""
        if conv.split_k > 1:
            beyond = max(0.0, fill - 0.5) if conv.split_k >= CROWDED_SPLITS else 0.0
            return 1.0 + self.crowd_share * beyond
        if conv.tile_n > NARROW_COLUMNS or conv.kernel_size == 1 or conv.channels < conv.tile_k:
            return 1.0
        return 1.0 + self.narrow_share * conv.tile_m / NARROW_ROWS * fill

    def later_ns(self, conv: Conv2D, sm_count: int) -> int:
        """By how much all k-blocks of a block that waits, or stays for another tile, take longer."""
        each = self.k_block_wait_ns
        if self._is_light(conv, sm_count):
            each = self.light_k_block_wait_ns
        elif max(conv.tile_m, conv.tile_n) >= WIDE_COLUMNS:
            each = self.wide_k_block_wait_ns
        return each * self.k_blocks(conv)

    def overheads(self, conv: Conv2D, setting: RunSetting, shared: Mapping[str, int]) -> dict[str, int]:
        """Fields of `CostModel` that are a convolution's own.

        Persistent kernels fetch a tile while they compute the one before, so that what a tile takes longer
        under semaphores is with its post and its look at them, in `staying_post_ns`; k-blocks take longer
        whether they wait or not.
        """
        own, area, sm_count = self, conv.tile_m * conv.tile_n / WIDE_AREA, setting.sms
        slot_ns = own.light_slot_ns if self._is_light(conv, sm_count) else own.slot_ns
        few_ns = own.few_k_blocks_ns if conv.kernel_size == 1 and conv.k_block_count <= FEW_K_BLOCKS else 0
        sums = {"partial_ns": own.partial_ns, "fixup_ns": round(own.fixup_ns * area)}
        own_ns = {
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
        if not setting.is_persistent:
            return own_ns
        staying = {
            name: ns + own.staying_post_ns
            for name, ns in (("post_ns", own.post_ns), ("poll_ns", own.poll_ns))
        }
        return own_ns | staying | {"k_block_wait_ns": 0, "tile_fetch_ns": 0}

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


def _convolution_block(conv: Conv2D, costs: ConvolutionCosts, sms: int) -> BlockTimes:
    """Reading from DRAM, a 1x1 loads other pixels with each k-block, while it computes those before.

    Larger kernels find all taps but the first in the L2, and nothing else to compute while they load that.
    """
    read_ns, written_ns = costs.traffic_ns(conv, sms)
    before_ns, loads_ns = (read_ns, 0.0) if conv.kernel_size > 1 else (0.0, read_ns)
    other = costs.tile_cycles + costs.store_cycles(conv)
    return BlockTimes(costs.loop_cycles(conv), loads_ns, other, before_ns, written_ns)


def _following_block(conv: Conv2D, costs: ConvolutionCosts, sms: int) -> BlockTimes:
    """Of a block that goes on: pixels were loaded ahead, and the tile before is stored meanwhile."""
    loop, stores = costs.loop_cycles(conv), costs.store_cycles(conv)
    hidden = costs.overlap_share * min(stores, loop)
    before_ns = costs.next_ns + costs.later_ns(conv, sms)
    return BlockTimes(loop, sum(costs.traffic_ns(conv, sms)), costs.tile_cycles + stores - hidden, before_ns)
