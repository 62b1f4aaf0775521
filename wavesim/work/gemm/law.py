"""How long a tile of a layer's product takes, in cycles: at whatever clock the whole layer's load leaves.

Example: on an H200 a tile of 128x256 with k = 12,288 takes 192 k-blocks of 1,027 cycles and 5,600 besides, in
whatever layer and under whatever plan; at 1.3 GHz 156 us, at 1.8 GHz 113 us. With next to no rows it takes
what loading its weights takes.

`products.py` has whole products, timed alone in persistent kernels at their own clock; this is what
recordings of a layer's blocks say of each.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from wavesim.model.stage import Stage
from wavesim.work.gemm import ELEMENT_BYTES, Gemm
from wavesim.work.law import BlockTimes, CostLaw, RunSetting, StageTimes, in_grid_order

TILE_K = 64
WIDE_COLUMNS = 256
WIDE_AREA = 128 * WIDE_COLUMNS  # of the tile that `area_cycles` is of
FEW_ROWS = 64  # of a product that is bound by reading its weights


def visibility_ns(shared: Mapping[str, int], area_ns: int, area: int) -> int:
    """From a post until another SM sees it, behind the stores of a tile of so many elements."""
    return shared["post_visibility_ns"] + round(area_ns * area / WIDE_AREA)


@dataclass(frozen=True)
class GemmCosts(CostLaw):
    """The constants of a device, as its data file has them.

    `k_block_ratio`: a k-block's cycles over those of its multiply-adds. `tile_cycles`: what a tile takes
    besides, whatever its size; `area_cycles`: storing a tile of 128x256, others by their area;
    `activation_cycles`: computing its activation. `first_cycles`: what the blocks of the
    first wave take longer where it fills all SMs: they fill their pipelines at once.
    With few rows: `few_rows_ns` before weights arrive, then they come at `memory_bytes_per_s`, shared by all
    resident blocks, and to one block at no more than `few_rows_block_bytes_per_s`, unless all of the layer
    stays in an L2 of `l2_bytes`; the last split of a tile takes `few_rows_ticket_ns` to find that it is, and
    `few_rows_fixup_ns` for the sums of each other; a look at a semaphore, of which so short k-blocks hide
    nothing, `few_rows_wait_ns`.
    `area_dependent_ns`, `area_visibility_ns`: what `CostModel.dependent_ns` and `post_visibility_ns` are more
    behind a tile of 128x256, others by their area.
    """

    section: ClassVar[str] = "tiles"
    elsewhere: ClassVar[Mapping[str, str]] = {
        "multiply_adds_per_cycle": "products.multiply_adds_per_cycle",
        "memory_bytes_per_s": "memory.dram_bytes_per_s",
        "l2_bytes": "memory.l2_bytes",
    }

    multiply_adds_per_cycle: float
    k_block_ratio: float
    tile_cycles: float
    area_cycles: float
    activation_cycles: float
    first_cycles: float
    few_rows_ns: int
    few_rows_block_bytes_per_s: int
    few_rows_ticket_ns: int
    few_rows_fixup_ns: int
    few_rows_wait_ns: int
    area_dependent_ns: int
    area_visibility_ns: int
    memory_bytes_per_s: float
    l2_bytes: int

    def times(self, stage: Stage, setting: RunSetting) -> StageTimes:
        """Each block by its wave; narrower tiles than `WIDE_COLUMNS` were not seen to lower the clock."""
        work: Any = stage.work
        in_waves = _few_rows_blocks if work.m <= FEW_ROWS else _many_rows_blocks
        issued = in_waves(work, self, setting.sms, is_in_l2=setting.is_in_l2)
        tensor = self.tensor_cycles(work) * work.grid.size if work.tile_n >= WIDE_COLUMNS else 0.0
        return StageTimes(in_grid_order(issued, work.split_k), tensor)

    def is_clocked(self, work: Gemm) -> bool:
        """Few rows take the time of their weights."""
        return work.m > FEW_ROWS

    def k_blocks(self, gemm: Gemm) -> int:
        """Of one block."""
        return -(-gemm.k // (TILE_K * gemm.split_k))

    def overheads(self, gemm: Gemm, setting: RunSetting, shared: Mapping[str, int]) -> dict[str, int]:
        """Fields of `CostModel` that are a product's own, where `shared` are a layer's."""
        if gemm.m <= FEW_ROWS:
            others = max(1, gemm.split_k - 1)
            fixup_ns = self.few_rows_fixup_ns + self.few_rows_ticket_ns // others
            return {"partial_ns": 0, "fixup_ns": fixup_ns, "wait_ns": self.few_rows_wait_ns}
        later_ns = round(self.area_dependent_ns * gemm.tile_m * gemm.tile_n / WIDE_AREA)
        return {
            "dependent_ns": shared["dependent_ns"] + later_ns,
            "post_visibility_ns": visibility_ns(shared, self.area_visibility_ns, gemm.tile_m * gemm.tile_n),
        }

    def tensor_cycles(self, gemm: Gemm) -> float:
        """In which the tensor cores work on a block."""
        adds = gemm.tile_m * gemm.tile_n * TILE_K / self.multiply_adds_per_cycle
        return self.k_blocks(gemm) * adds

    def loop_cycles(self, gemm: Gemm) -> float:
        """Of a block's k-blocks."""
        return self.tensor_cycles(gemm) * self.k_block_ratio

    def other_cycles(self, gemm: Gemm) -> float:
        """Of a block with many rows: what it does besides, its SM to itself."""
        stores = self.area_cycles + (self.activation_cycles if gemm.activation else 0.0)
        return self.tile_cycles + stores * gemm.tile_m * gemm.tile_n / WIDE_AREA

    def first_wave_cycles(self, gemm: Gemm, sm_count: int) -> float:
        """What a block of the first wave takes longer: in proportion to the SMs that start with it."""
        return self.first_cycles * min(1.0, gemm.grid.size / sm_count)

    def evicted_share(self, gemm: Gemm) -> float:
        """Of a product's weights, each of which a row of tiles reads: what the L2 has no room for."""
        return max(0.0, 1.0 - self.l2_bytes / (ELEMENT_BYTES * gemm.k * gemm.n))

    def wave_weights_ns(self, gemm: Gemm, sm_count: int) -> float:
        """How long the DRAM takes for all weights that a wave reads, in row-major order."""
        columns = min(gemm.n, sm_count * gemm.tile_n)
        return ELEMENT_BYTES * gemm.k / gemm.split_k * columns / self.memory_bytes_per_s * 1e9

    def weights_ns(self, gemm: Gemm, resident: int) -> float:
        """How long a block with few rows loads its weights from DRAM, beside as many as are resident."""
        each = ELEMENT_BYTES * gemm.k * gemm.n / gemm.grid.size
        rate = min(self.few_rows_block_bytes_per_s, self.memory_bytes_per_s / resident)
        return each / rate * 1e9

    def before_weights_ns(self, gemm: Gemm, sm_count: int) -> float:
        """Until the first arrive: blocks that follow each other have their loads overlap."""
        return self.few_rows_ns * min(1.0, sm_count / gemm.grid.size)


def _many_rows_blocks(gemm: Gemm, costs: GemmCosts, sms: int, *, is_in_l2: bool) -> list[BlockTimes]:
    """The first wave fills its pipelines at once, with weights from DRAM.

    The others find in the L2 as much of them as it holds, and read the rest again: a row of tiles has evicted
    it since the row before read it.
    """
    loop, other = costs.loop_cycles(gemm), costs.other_cycles(gemm)
    wave_ns = costs.wave_weights_ns(gemm, sms)
    first_ns, later_ns = 0.0 if is_in_l2 else wave_ns, wave_ns * costs.evicted_share(gemm)
    first = BlockTimes(loop, first_ns, other + costs.first_wave_cycles(gemm, sms))
    count = min(gemm.grid.size, sms)
    return [first] * count + [BlockTimes(loop, later_ns, other)] * (gemm.grid.size - count)


def _few_rows_blocks(gemm: Gemm, costs: GemmCosts, sms: int, *, is_in_l2: bool) -> list[BlockTimes]:
    """Bound by their weights; in the last wave each block has more of the DRAM's rate, up to its own."""
    loop, count = costs.loop_cycles(gemm), gemm.grid.size
    if is_in_l2:
        return [BlockTimes(loop, before_ns=costs.few_rows_ns)] * count
    last = count % sms if count > sms else 0
    before_ns = costs.before_weights_ns(gemm, sms)
    shared = BlockTimes(loop, costs.weights_ns(gemm, min(count, sms)), before_ns=before_ns)
    few = BlockTimes(loop, costs.weights_ns(gemm, max(1, last)), before_ns=costs.few_rows_ns)
    return [shared] * (count - last) + [few] * last
