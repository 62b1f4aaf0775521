"""The tiles that a product is computed fastest in, alone, by the device's products timed alone.

Example: on an H200 Llama-3-8B's output product of one decode step, (1, 4096) x (4096, 4096), is cut into
tiles of 64 x 64 with two splits of K, so that all SMs read weights.
"""

from collections.abc import Sequence

from wavesim.costs.device_costs import law_of
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.products import ProductCosts, ProductTile

SPLITS = (1, 2, 3, 4, 6, 8, 12, 16)
SHALLOWEST = 256  # of a split's K: below that a split is all prologue and sums
MOST_SPLIT_ROWS = 128  # with more rows tiles are many enough


def alone_ns(products: ProductCosts, gemm: Gemm, tile: ProductTile, sm_count: int) -> float:
    """A product alone: whole waves of tiles, or what the memory allows."""
    waves = -(-tile.count(gemm.m, gemm.n) // sm_count)
    computed = waves * products.tile_ns(tile, gemm.m, gemm.k) + products.begin_ns(gemm.m)
    return max(computed, products.floor_ns(gemm.m, gemm.n, gemm.k))


def best_tile(gemm: Gemm, device: Device, tiles: Sequence[tuple[int, int]]) -> tuple[int, int, int]:
    """(tile_m, tile_n, split_k) of the least time alone; the first tile where no products were timed."""
    products = law_of(ProductCosts, device.name)
    if products is None:
        return (*tiles[0], 1)
    splits = [
        count
        for count in SPLITS
        if count == 1 or (gemm.m <= MOST_SPLIT_ROWS and gemm.k // count >= SHALLOWEST)
    ]
    candidates = [ProductTile(*tile, count) for tile in tiles for count in splits]
    best = min(candidates, key=lambda one: alone_ns(products, gemm, one, device.sm_count))
    return best.tile_m, best.tile_n, best.split_k


def best_tiles(
    pipeline: Pipeline, device: Device, tiles: Sequence[tuple[int, int]]
) -> dict[str, tuple[int, int, int]]:
    """`best_tile` of each product of a pipeline, by stage."""
    return {
        stage.name: best_tile(stage.gemm, device, tiles) for stage in pipeline.stages if stage.work.is_product
    }
