"""How long each block of a layer's stages takes: what depends on the clock, and what does not.

Example: the first 132 tiles of a product fill their pipelines at once and read all of its weights from DRAM;
those behind them find weights that fit the L2 there, and take their k-blocks' cycles and their stores'.
"""

from dataclasses import dataclass, replace
from functools import cache
from heapq import heapreplace
from math import ceil

from wavesim.costs.attention_costs import attention_costs_of
from wavesim.costs.convolution_costs import ConvolutionCosts, convolution_costs_of
from wavesim.costs.product_costs import bent
from wavesim.costs.streaming_costs import SHARPNESS, streaming_costs_of
from wavesim.costs.tile_costs import FEW_ROWS, WIDE_COLUMNS, TileCosts, tile_costs_of
from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.occupancy import occupancy_of
from wavesim.model.stage import Stage
from wavesim.work.attention import Attention, AttentionDecode
from wavesim.work.convolution import Conv2D
from wavesim.work.gemm import Gemm
from wavesim.work.rows import Copy, Norm, Softmax


@dataclass(frozen=True)
class BlockTimes:
    """Of a block: `before_ns`, then a main loop, then `other_cycles` at the load's clock.

    The main loop computes for `loop_cycles` and loads for `loads_ns`, whatever the clock, at the same time;
    so does what comes after it, which stores for `stores_ns`.
    """

    loop_cycles: float = 0.0
    loads_ns: float = 0.0
    other_cycles: float = 0.0
    before_ns: float = 0.0
    stores_ns: float = 0.0

    def ns(self, ghz: float) -> int:
        """At a clock."""
        loop_ns = bent(self.loop_cycles / ghz, self.loads_ns, SHARPNESS)
        other_ns = self.other_cycles / ghz
        after_ns = bent(other_ns, self.stores_ns, SHARPNESS) if self.stores_ns else other_ns
        return round(self.before_ns + loop_ns + after_ns)


@dataclass(frozen=True)
class StageTimes:
    """Of a stage: the times of each block or of all alike, and in how many cycles tensor cores draw power.

    Of a layer only products in tiles of `WIDE_COLUMNS` columns have such cycles: neither narrower tiles nor
    attention were seen to lower the clock.
    """

    blocks: BlockTimes | list[BlockTimes]
    tensor_cycles: float = 0.0

    def tile_ns(self, ghz: float) -> int | list[int]:
        """Of each block, or of all alike."""
        if isinstance(self.blocks, BlockTimes):
            return self.blocks.ns(ghz)
        known = {one: one.ns(ghz) for one in set(self.blocks)}
        return [known[one] for one in self.blocks]

    def span_ns(self, ghz: float, blocks: int, slots: int) -> float:
        """From the first block's start to the last one's end, as blocks fill the slots."""
        times = self.tile_ns(ghz)
        if isinstance(times, int):
            return float(ceil(blocks / slots) * times)
        ends = [0] * slots
        for time in times:
            heapreplace(ends, ends[0] + time)
        return float(max(ends))


def stage_times(
    stage: Stage,
    device: Device,
    *,
    is_in_l2: bool,
    serialises_bias: bool = False,
    is_persistent: bool = False,
) -> StageTimes:
    """By what a stage computes. `is_in_l2`: whether the L2 keeps all weights from one run to the next;
    `serialises_bias`: of older kernels, as `tile_costs_of` says; `is_persistent`: blocks of a convolution go
    on with another tile.

    Raises `DescriptionError` for work of which no constants are known.
    """
    work, name = stage.work, device.name
    tiles = tile_costs_of(name, serialises_bias=serialises_bias)
    attention = attention_costs_of(name)
    if isinstance(work, Gemm) and tiles is not None:
        return _product_times(work, tiles, device, is_in_l2=is_in_l2)
    if isinstance(work, Attention) and attention is not None:
        return StageTimes([BlockTimes(cycles) for cycles in attention.cycles(work)])
    if isinstance(work, Conv2D) and (convolution := convolution_costs_of(name)) is not None:
        return _convolution_times(stage, work, convolution, device, is_persistent=is_persistent)
    streaming = streaming_costs_of(name, section) if (section := streaming_section(stage)) else None
    if streaming is not None:
        return StageTimes(BlockTimes(loads_ns=streaming.tile_ns(stage.kernel, device)))
    raise DescriptionError(
        f"stage {stage.name} is a {type(work).__name__}, of which no costs are known on {name}; give its "
        "time (kernel_us), or use a device whose file has them"
    )


def _convolution_times(
    stage: Stage, conv: Conv2D, costs: ConvolutionCosts, device: Device, *, is_persistent: bool
) -> StageTimes:
    """Raises `DescriptionError` for blocks that share an SM: of such kernels nothing is known."""
    if occupancy_of(device, stage.kernel.block).blocks_per_sm > 1:
        raise DescriptionError(
            f"stage {stage.name}: several of its blocks share an SM of {device.name}; costs of convolutions "
            "are known of blocks that fill one. Give its time (kernel_us)"
        )
    tensor = costs.tensor_cycles(conv) * conv.grid.size
    sms, count = device.sm_count, conv.grid.size
    first = following = _convolution_block(conv, costs, sms)
    if is_persistent:
        before_ns = first.before_ns + costs.own.persistent_ns + costs.later_ns(conv, sms)
        first, following = replace(first, before_ns=before_ns), _following_block(conv, costs, sms)

    @cache
    def crowded(block: BlockTimes, fill: float) -> BlockTimes:
        return replace(
            block,
            loop_cycles=block.loop_cycles * costs.crowd_ratio(conv, fill),
            other_cycles=block.other_cycles + costs.store_cycles(conv, fill) - costs.store_cycles(conv),
        )

    last = count % sms
    issued = [
        crowded(first if i < sms else following, 1.0 if i < count - last else last / sms)
        for i in range(count)
    ]
    if conv.split_k > 1:
        each_ns = costs.own.spread_ns / conv.grid.tiles
        issued = [
            replace(one, before_ns=one.before_ns + each_ns * (i // conv.split_k))
            for i, one in enumerate(issued)
        ]
    blocks = issued if len(set(issued)) > 1 else []
    return StageTimes(_in_grid_order(blocks, conv.split_k) or issued[0], tensor)


def _convolution_block(conv: Conv2D, costs: ConvolutionCosts, sms: int) -> BlockTimes:
    """Reading from DRAM, a 1x1 loads other pixels with each k-block, while it computes those before.

    Larger kernels find all taps but the first in the L2, and nothing else to compute while they load that.
    """
    read_ns, written_ns = costs.traffic_ns(conv, sms)
    before_ns, loads_ns = (read_ns, 0.0) if conv.kernel_size > 1 else (0.0, read_ns)
    other = costs.tiles.tile_cycles + costs.store_cycles(conv)
    return BlockTimes(costs.loop_cycles(conv), loads_ns, other, before_ns, written_ns)


def _following_block(conv: Conv2D, costs: ConvolutionCosts, sms: int) -> BlockTimes:
    """Of a block that goes on: pixels were loaded ahead, and the tile before is stored meanwhile."""
    loop, stores = costs.loop_cycles(conv), costs.store_cycles(conv)
    hidden = costs.own.overlap_share * min(stores, loop)
    before_ns = costs.own.next_ns + costs.later_ns(conv, sms)
    return BlockTimes(
        loop, sum(costs.traffic_ns(conv, sms)), costs.tiles.tile_cycles + stores - hidden, before_ns
    )


def _in_grid_order(issued: list[BlockTimes], split_k: int) -> list[BlockTimes]:
    """From the order in which blocks are issued, a tile's splits one after the other, to the grid's."""
    return [one for split in range(split_k) for one in issued[split::split_k]]


def _product_times(gemm: Gemm, tiles: TileCosts, device: Device, *, is_in_l2: bool) -> StageTimes:
    in_waves = _few_rows_blocks if gemm.m <= FEW_ROWS else _many_rows_blocks
    issued = in_waves(gemm, tiles, device.sm_count, is_in_l2=is_in_l2)
    blocks = _in_grid_order(issued, gemm.split_k)
    is_wide = gemm.tile_n >= WIDE_COLUMNS
    return StageTimes(blocks, tiles.tensor_cycles(gemm) * gemm.grid.size if is_wide else 0.0)


def _many_rows_blocks(gemm: Gemm, tiles: TileCosts, sms: int, *, is_in_l2: bool) -> list[BlockTimes]:
    """The first wave fills its pipelines at once, with weights from DRAM.

    The others find in the L2 as much of them as it holds, and read the rest again: a row of tiles has evicted
    it since the row before read it.
    """
    loop, other = tiles.loop_cycles(gemm), tiles.other_cycles(gemm)
    wave_ns = tiles.wave_weights_ns(gemm, sms)
    first_ns, later_ns = 0.0 if is_in_l2 else wave_ns, wave_ns * tiles.evicted_share(gemm)
    first = BlockTimes(loop, first_ns, other + tiles.first_wave_cycles(gemm, sms))
    count = min(gemm.grid.size, sms)
    return [first] * count + [BlockTimes(loop, later_ns, other)] * (gemm.grid.size - count)


def _few_rows_blocks(gemm: Gemm, tiles: TileCosts, sms: int, *, is_in_l2: bool) -> list[BlockTimes]:
    """Bound by their weights; in the last wave each block has more of the DRAM's rate, up to its own."""
    loop, count = tiles.loop_cycles(gemm), gemm.grid.size
    if is_in_l2:
        return [BlockTimes(loop, before_ns=tiles.few_rows_ns)] * count
    last = count % sms if count > sms else 0
    before_ns = tiles.before_weights_ns(gemm, sms)
    shared = BlockTimes(loop, tiles.weights_ns(gemm, min(count, sms)), before_ns=before_ns)
    few = BlockTimes(loop, tiles.weights_ns(gemm, max(1, last)), before_ns=tiles.few_rows_ns)
    return [shared] * (count - last) + [few] * last


def is_clocked(stage: Stage) -> bool:
    """Whether blocks take cycles of tensor cores, not the time that their bytes take."""
    work = stage.work
    return isinstance(work, Attention | Conv2D) or (isinstance(work, Gemm) and work.m > FEW_ROWS)


def streaming_section(stage: Stage) -> str:
    """The section of a device's file with the constants of work that moves bytes; "" of other work."""
    if isinstance(stage.work, AttentionDecode):
        return "decode"
    return "rows" if isinstance(stage.work, Norm | Softmax | Copy) else ""
