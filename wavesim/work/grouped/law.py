"""How long tiles of a grouped GEMM take, by the constants of plain products.

Example: on an H200 a tile of 256 columns of weights with k = 2,048 reads 1 MB; 132 blocks that read at the
same time share 4.4 TB/s, so it takes 31 us, whether the expert has one row or 64. Of an expert with several
blocks of rows the first reads the weights from DRAM, and the others find them in the L2. Kernels are
persistent: their loaders are in the next tile while one is stored, so that neither storing a tile nor filling
the pipeline takes time. Predictions registered before the first measurement had both, as a tile per block
has, and were 25 % too long.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from wavesim.model.stage import Stage
from wavesim.work.gemm.law import TILE_K, WIDE_COLUMNS
from wavesim.work.grouped import GroupedGemm, RowBlock
from wavesim.work.law import BlockTimes, CostLaw, RunSetting, StageTimes

_TILES = ("k_block_ratio", "few_rows_block_bytes_per_s", "few_rows_wait_ns")


@dataclass(frozen=True)
class GroupedCosts(CostLaw):
    """The constants of the sections that plain products and the memory were fitted with (`GemmCosts`)."""

    elsewhere: ClassVar[Mapping[str, str]] = {name: f"tiles.{name}" for name in _TILES} | {
        "multiply_adds_per_cycle": "products.multiply_adds_per_cycle",
        "memory_bytes_per_s": "memory.dram_bytes_per_s",
    }
    times_descriptions: ClassVar[bool] = True
    scored_as: ClassVar[str] = "layer, mixture of experts"

    k_block_ratio: float
    few_rows_block_bytes_per_s: float
    few_rows_wait_ns: int
    multiply_adds_per_cycle: float
    memory_bytes_per_s: float

    def times(self, stage: Stage, setting: RunSetting) -> StageTimes:
        """Each tile's, row block by row block."""
        work: Any = stage.work
        blocks = [
            self._tile(work, block, x, setting.sms) for block in work.row_blocks for x in range(work.grid.x)
        ]
        is_wide = work.tile_n >= WIDE_COLUMNS
        return StageTimes(blocks, self._adds(work) * len(blocks) if is_wide else 0.0)

    def _adds(self, work: GroupedGemm) -> float:
        """Cycles in which the tensor cores work on a tile, whether it is full or not."""
        k_blocks = -(-work.k // TILE_K)
        return k_blocks * work.tile_m * work.tile_n * TILE_K / self.multiply_adds_per_cycle

    def _tile(self, work: GroupedGemm, block: RowBlock, x: int, sms: int) -> BlockTimes:
        resident = min(work.grid.size, sms)
        weights = work.ahead_bytes(x, 0, 0)
        alone_ns = weights / self.few_rows_block_bytes_per_s
        shared_ns = weights / block.blocks * resident / self.memory_bytes_per_s
        return BlockTimes(
            loop_cycles=self._adds(work) * self.k_block_ratio, loads_ns=1e9 * max(alone_ns, shared_ns)
        )

    def overheads(self, work: Any, setting: RunSetting, shared: Mapping[str, int]) -> dict[str, int]:
        """A look at a semaphore, of which so short k-blocks hide nothing."""
        return {"wait_ns": self.few_rows_wait_ns}
