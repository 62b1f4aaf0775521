"""How long a tile of a layer's product takes, in cycles: at whatever clock the whole layer's load leaves.

Example: on an H200 a tile of 128x256 with k = 12,288 takes 192 k-blocks of 1,027 cycles and 5,600 besides, in
whatever layer and under whatever plan; at 1.3 GHz 156 us, at 1.8 GHz 113 us. With next to no rows it takes
what loading its weights takes.

`product_costs.py` has whole products, timed alone in persistent kernels at their own clock; this is what
recordings of a layer's blocks say of each.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from wavesim.costs.constants import UNITS
from wavesim.costs.device_costs import own_file
from wavesim.costs.product_costs import TILE_K
from wavesim.work.gemm import Gemm

SECTION = "tiles"
MULTIPLY_ADDS_PER_CYCLE = "products.multiply_adds_per_cycle"
WIDE_COLUMNS = 256
WIDE_AREA = 128 * WIDE_COLUMNS  # of the tile that `area_cycles` is of
FEW_ROWS = 64  # of a product that is bound by reading its weights
ELEMENT_BYTES = 2


@dataclass(frozen=True)
class TileCosts:
    """The constants of a device, as its data file has them.

    `k_block_ratio`: a k-block's cycles over those of its multiply-adds. `tile_cycles`: what a tile takes
    besides, whatever its size; `area_cycles`: storing a tile of 128x256, others by their area;
    `activation_cycles`: computing its activation. `bf16_bias_cycles`: of each k-block of a bf16 product with
    a bias in kernels that serialise these (`tile_costs_of`), else 0. `first_cycles`: what the blocks of the
    first wave take longer where it fills all SMs: they fill their pipelines at once.
    With few rows: `few_rows_ns` before weights arrive, then they come at `memory_bytes_per_s`, shared by all
    resident blocks, and to one block at no more than `few_rows_block_bytes_per_s`, unless all of the layer
    stays in an L2 of `l2_bytes`; the last split of a tile takes `few_rows_ticket_ns` to find that it is, and
    `few_rows_fixup_ns` for the sums of each other; a look at a semaphore, of which so short k-blocks hide
    nothing, `few_rows_wait_ns`.
    `area_dependent_ns`, `area_visibility_ns`: what `CostModel.dependent_ns` and `post_visibility_ns` are more
    behind a tile of 128x256, others by their area.
    """

    multiply_adds_per_cycle: float
    k_block_ratio: float
    tile_cycles: float
    area_cycles: float
    activation_cycles: float
    bf16_bias_cycles: float
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

    def k_blocks(self, gemm: Gemm) -> int:
        """Of one block."""
        return -(-gemm.k // (TILE_K * gemm.split_k))

    def overheads(self, gemm: Gemm, shared: Mapping[str, int]) -> dict[str, int]:
        """Fields of `CostModel` that are a product's own, where `shared` are a layer's."""
        if gemm.m <= FEW_ROWS:
            others = max(1, gemm.split_k - 1)
            fixup_ns = self.few_rows_fixup_ns + self.few_rows_ticket_ns // others
            return {"partial_ns": 0, "fixup_ns": fixup_ns, "wait_ns": self.few_rows_wait_ns}
        later_ns = round(self.area_dependent_ns * gemm.tile_m * gemm.tile_n / WIDE_AREA)
        return {
            "dependent_ns": shared["dependent_ns"] + later_ns,
            "post_visibility_ns": self.visibility_ns(gemm.tile_m * gemm.tile_n, shared),
        }

    def visibility_ns(self, area: int, shared: Mapping[str, int]) -> int:
        """From a post until another SM sees it, behind the stores of a tile of so many elements."""
        return shared["post_visibility_ns"] + round(self.area_visibility_ns * area / WIDE_AREA)

    def tensor_cycles(self, gemm: Gemm) -> float:
        """In which the tensor cores work on a block."""
        adds = gemm.tile_m * gemm.tile_n * TILE_K / self.multiply_adds_per_cycle
        return self.k_blocks(gemm) * adds

    def loop_cycles(self, gemm: Gemm) -> float:
        """Of a block's k-blocks, in older kernels longer of bf16 with a bias."""
        bias = self.bf16_bias_cycles if gemm.has_bias and gemm.dtype == "bf16" else 0.0
        return self.tensor_cycles(gemm) * self.k_block_ratio + self.k_blocks(gemm) * bias

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


@cache
def tile_costs_of(device_name: str, *, serialises_bias: bool = False) -> TileCosts | None:
    """Those of a device; None where no layer's tiles were recorded on it: nothing stands in for them.

    `serialises_bias`: of the kernels until 2026-11-23, in whose bf16 products with a bias the compiler puts a
    k-block's four wgmma one after the other, each behind a wait (WARPGROUP.ARRIVE four times in the loop
    instead of once). Recordings of layers were made with these.
    """
    constants = own_file(device_name).constants
    values: dict[str, Any] = {
        key: constants[f"{SECTION}.{key}"].value for key in UNITS[SECTION] if f"{SECTION}.{key}" in constants
    }
    if not values:
        return None
    if not serialises_bias:
        values["bf16_bias_cycles"] = 0.0
    memory = {key: constants[f"memory.{key}"].value for key in ("dram_bytes_per_s", "l2_bytes")}
    return TileCosts(
        constants[MULTIPLY_ADDS_PER_CYCLE].value,
        **values,
        memory_bytes_per_s=memory["dram_bytes_per_s"],
        l2_bytes=memory["l2_bytes"],
    )
