"""How long a product of matrices takes alone: a tile's cycles, the clock under load, what DRAM allows.

Example: on an H200 a tile of 128x256 with k = 12,288 takes 192 k-blocks of 1,065 cycles at 1.29 GHz, 160
us. No tile is timed for it: the constants are fitted to whole products that were timed alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

from wavesim.work.gemm import ELEMENT_BYTES
from wavesim.work.gemm.law import TILE_K
from wavesim.work.law import CostLaw, bent

PANEL = 64  # columns that are loaded together: of a tile that is no multiple, more than it multiplies
LIGHT_ROWS = 64
SPLIT_AREA = 128 * 256  # of the tile that `partial_ns` and `fixup_ns` are of


@dataclass(frozen=True)
class ProductTile:
    """Rows and columns of a tile, and splits of K."""

    tile_m: int
    tile_n: int
    split_k: int = 1

    def __str__(self) -> str:
        return f"{self.tile_m}x{self.tile_n}" + (f"/{self.split_k}" if self.split_k > 1 else "")

    def count(self, m: int, n: int) -> int:
        """Blocks of a product (m, n), splits counted."""
        return -(-m // self.tile_m) * -(-n // self.tile_n) * self.split_k


@dataclass(frozen=True)
class ProductCosts(CostLaw):
    """The constants of a device, as its data file has them, and overheads in ns.

    `cycles_ratio` is a k-block's cycles over those of its multiply-adds alone. `tile_cycles` is what a tile
    takes besides its k-blocks, `block_ns` what a block adds that ends after it and does not go on with
    another tile, `start_ns` what a kernel does besides its waves. With at most 64 rows, which
    leave most of the power unused, the clock is `light_clock_ghz`. `library_ratio` is cuBLASLt's time over
    that of the same tiles of ours. `post_ns` is added to tiles of a product that others wait for, `fetch_ns`
    to those that wait.
    """

    section: ClassVar[str] = "products"
    elsewhere: ClassVar[Mapping[str, str]] = {
        **{name: f"overheads.{name}" for name in ("setup_ns", "boundary_ns", "dependent_ns", "post_ns")},
        "fetch_ns": "overheads.tile_fetch_ns",
    }

    multiply_adds_per_cycle: float
    cycles_ratio: float
    tile_cycles: float
    clock_ghz: float
    light_clock_ghz: float
    l2_bytes_per_cycle: float
    start_ns: int
    block_ns: int
    partial_ns: int
    fixup_ns: int
    dram_bytes_per_s: float
    library_dram_bytes_per_s: float
    library_ratio: float
    pass_bytes_per_s: float
    margin_points: float
    interval_points: float
    setup_ns: int
    boundary_ns: int
    dependent_ns: int
    post_ns: int
    fetch_ns: int

    def tile_ns(self, tile: ProductTile, m: int, k: int, *, adds_apart: bool = False) -> float:
        """One tile, or split of one, of m rows in all, with its SM to itself.

        `adds_apart`: the sums of a tile's parts are added up by many blocks, as cuBLASLt does, not by one.
        """
        blocks = -(-k // (TILE_K * tile.split_k))
        adds = tile.tile_m * tile.tile_n * TILE_K / self.multiply_adds_per_cycle
        loaded = -(-tile.tile_n // PANEL) * PANEL
        adds *= sqrt(loaded / tile.tile_n)
        loads = (tile.tile_m + loaded) * TILE_K * ELEMENT_BYTES / self.l2_bytes_per_cycle
        cycles = blocks * bent(adds * self.cycles_ratio, loads) + self.tile_cycles
        clock = self.light_clock_ghz if m <= LIGHT_ROWS else self.clock_ghz
        return cycles / clock + self._split_ns(tile, 0 if adds_apart else tile.split_k - 1)

    def begin_ns(self, m: int) -> float:
        """What a kernel of m rows does besides its waves; hidden behind the memory where there are few."""
        return self.start_ns if m > LIGHT_ROWS else 0

    def _split_ns(self, tile: ProductTile, others: int) -> float:
        """Storing a part's sums, and adding up those of others."""
        if tile.split_k == 1:
            return 0.0
        whole = self.partial_ns + self.fixup_ns * others
        return whole * tile.tile_m * tile.tile_n / SPLIT_AREA

    def floor_ns(self, m: int, n: int, k: int, *, is_library: bool = False) -> float:
        """What reading and writing every matrix once takes."""
        rate = self.library_dram_bytes_per_s if is_library else self.dram_bytes_per_s
        return ELEMENT_BYTES * (m * k + k * n + m * n) / rate * 1e9

    def pass_ns(self, elements: int) -> float:
        """An element-wise kernel that reads and writes so many elements in all, and its launch."""
        return ELEMENT_BYTES * elements / self.pass_bytes_per_s * 1e9 + self.boundary_ns
