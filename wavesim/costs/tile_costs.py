"""How long a tile of a layer's product takes, in cycles: at whatever clock the whole layer's load leaves.

Example: on an H200 a tile of 128x256 with k = 12,288 takes 192 k-blocks of 1,027 cycles and 5,600 besides, in
whatever layer and under whatever plan; at 1.3 GHz 156 us, at 1.8 GHz 113 us. With next to no rows it takes
what loading its weights takes.

`product_costs.py` has whole products, timed alone in persistent kernels at their own clock; this is what
recordings of a layer's blocks say of each.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

from wavesim.costs.constants import UNITS
from wavesim.costs.device_costs import own_file
from wavesim.costs.product_costs import TILE_K
from wavesim.model.kernel import Gemm

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
    besides, whatever its size; `area_cycles`: storing a tile of 128x256, others by their area.
    `narrow_bias_cycles`: of each k-block of a product with a bias, in tiles of fewer than 256 columns.
    With few rows: `few_rows_ns` before weights arrive, then they come at `memory_bytes_per_s`, shared by all
    resident blocks, unless all of the layer stays in an L2 of `l2_bytes`; storing a split's sums and adding
    those of one other take `few_rows_partial_ns` and `few_rows_fixup_ns`, a look at a semaphore, of which
    so short k-blocks hide nothing, `few_rows_wait_ns`.
    `wide_dependent_ns`, `wide_visibility_ns`: `CostModel.dependent_ns` and `post_visibility_ns` behind tiles
    of at least 256 columns.
    """

    multiply_adds_per_cycle: float
    k_block_ratio: float
    tile_cycles: float
    area_cycles: float
    narrow_bias_cycles: float
    few_rows_ns: int
    few_rows_partial_ns: int
    few_rows_fixup_ns: int
    few_rows_wait_ns: int
    wide_dependent_ns: int
    wide_visibility_ns: int
    memory_bytes_per_s: float
    l2_bytes: int

    def k_blocks(self, gemm: Gemm) -> int:
        """Of one block."""
        return -(-gemm.k // (TILE_K * gemm.split_k))

    def overheads(self, gemm: Gemm) -> dict[str, int]:
        """Fields of `CostModel` that are a product's own."""
        found: dict[str, int] = {}
        if gemm.tile_n >= WIDE_COLUMNS:
            found |= {"dependent_ns": self.wide_dependent_ns, "post_visibility_ns": self.wide_visibility_ns}
        if gemm.m <= FEW_ROWS:
            found |= {"partial_ns": self.few_rows_partial_ns, "fixup_ns": self.few_rows_fixup_ns}
            found |= {"wait_ns": self.few_rows_wait_ns}
        return found

    def tensor_cycles(self, gemm: Gemm) -> float:
        """In which the tensor cores work on a block."""
        adds = gemm.tile_m * gemm.tile_n * TILE_K / self.multiply_adds_per_cycle
        return self.k_blocks(gemm) * adds

    def cycles(self, gemm: Gemm) -> float:
        """Of a block with many rows, its SM to itself."""
        bias = self.narrow_bias_cycles if gemm.has_bias and gemm.tile_n < WIDE_COLUMNS else 0.0
        besides = self.tile_cycles + self.area_cycles * gemm.tile_m * gemm.tile_n / WIDE_AREA
        return self.tensor_cycles(gemm) * self.k_block_ratio + self.k_blocks(gemm) * bias + besides

    def weights_ns(self, gemm: Gemm, sm_count: int, *, is_in_l2: bool) -> float:
        """Of a block with few rows, beside as many as are resident: its weights, and what comes before.

        Blocks that follow each other have their loads overlap, so that only the first wave waits.
        """
        first_ns = self.few_rows_ns * min(1.0, sm_count / gemm.grid.size)
        if is_in_l2:
            return float(self.few_rows_ns)
        each = ELEMENT_BYTES * gemm.k * gemm.n / gemm.grid.size
        return first_ns + each * min(gemm.grid.size, sm_count) / self.memory_bytes_per_s * 1e9


@cache
def tile_costs_of(device_name: str) -> TileCosts | None:
    """Those of a device; None where no layer's tiles were recorded on it: nothing stands in for them."""
    constants = own_file(device_name).constants
    values: dict[str, Any] = {
        key: constants[f"{SECTION}.{key}"].value for key in UNITS[SECTION] if f"{SECTION}.{key}" in constants
    }
    if not values:
        return None
    memory = {key: constants[f"memory.{key}"].value for key in ("dram_bytes_per_s", "l2_bytes")}
    return TileCosts(
        constants[MULTIPLY_ADDS_PER_CYCLE].value,
        **values,
        memory_bytes_per_s=memory["dram_bytes_per_s"],
        l2_bytes=memory["l2_bytes"],
    )
