"""How long a tile of a convolution takes: its k-blocks as a product's, or their loads, or memory.

Example: a 128x64 tile multiplies a k-block of 64 channels in 256 cycles and loads 24 KB for it, 96 bytes a
cycle, where an SM of an H200 gets 64: the loads take 384. A 256x64 tile needs 80 a cycle, a 128x128 tile 64.

Nothing here was fitted to convolutions: the constants are those of products on the same kernels, whose loads
of A are other pixels and no other number of bytes.
"""

from dataclasses import dataclass
from math import ceil

from wavesim.costs.product_costs import ELEMENT_BYTES, SPLIT_AREA, ProductCosts, bent, product_costs_of
from wavesim.costs.tile_costs import WIDE_AREA, TileCosts, tile_costs_of
from wavesim.model.convolution import Conv2D


@dataclass(frozen=True)
class ConvolutionCosts:
    """The constants of a device's products: of their tiles and of products timed alone."""

    tiles: TileCosts
    products: ProductCosts

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
        loads = self.k_blocks(conv) * self._loaded(conv) / self.products.l2_bytes_per_cycle
        area = conv.tile_m * conv.tile_n / WIDE_AREA
        return bent(tensor, loads) + self.tiles.tile_cycles + self.tiles.area_cycles * area

    def memory_ns(self, conv: Conv2D, sm_count: int, *, is_in_l2: bool) -> float:
        """Of a block beside as many as are resident, where all that they read and write comes from DRAM."""
        if is_in_l2:
            return 0.0
        resident = min(conv.grid.size, sm_count)
        return conv.kernel.bytes_per_block * resident / self.tiles.memory_bytes_per_s * 1e9

    def overheads(self, conv: Conv2D) -> dict[str, int]:
        """Fields of `CostModel` that are a convolution's own: storing and adding a split's sums, by size."""
        if conv.split_k == 1:
            return {}
        area = conv.tile_m * conv.tile_n / SPLIT_AREA
        products = self.products
        return {
            "partial_ns": round(products.partial_ns * area),
            "fixup_ns": round(products.fixup_ns * area),
        }

    def _loaded(self, conv: Conv2D) -> int:
        """Bytes of a k-block of both operands."""
        return (conv.tile_m + conv.tile_n) * conv.tile_k * ELEMENT_BYTES


def convolution_costs_of(device_name: str) -> ConvolutionCosts | None:
    """Those of a device; None where its products are not known."""
    tiles, products = tile_costs_of(device_name), product_costs_of(device_name)
    return None if tiles is None or products is None else ConvolutionCosts(tiles, products)
