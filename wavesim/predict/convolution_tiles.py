"""The tiles that a convolution is computed fastest in, alone, by what is known of products.

Example: on an H200 a 3 x 3 convolution of one image of 7 x 7 x 512 is cut into tiles of 64 rows and into
splits of K, so that more than a handful of SMs load its weights.
"""

from collections.abc import Sequence
from math import ceil

from wavesim.costs.convolution_costs import ConvolutionCosts, convolution_costs_of
from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.predict.product_tiles import SPLITS
from wavesim.work.convolution import Conv2D
from wavesim.workloads.conv_networks import Convolution, Tile, conv_of
from wavesim.workloads.hopper import CONVOLUTION_TILES

SHALLOWEST = 4  # k-blocks of a split: below that it is all prologue and sums


def convolution_ns(costs: ConvolutionCosts, conv: Conv2D, device: Device) -> float:
    """A convolution alone: whole waves of tiles, or what the memory allows, and its splits' sums."""
    products = costs.products
    ghz = products.clock_ghz if conv.grid.size >= device.sm_count else products.light_clock_ghz
    fill = min(1.0, conv.grid.size / device.sm_count)
    block_ns = max(costs.cycles(conv, fill) / ghz, sum(costs.traffic_ns(conv, device.sm_count)))
    sums, split_ns = costs.overheads(conv, device.sm_count), 0
    if conv.split_k > 1:
        split_ns = sums["partial_ns"] + sums["fixup_ns"] * (conv.split_k - 1) + costs.own.spread_ns
    return ceil(conv.grid.size / device.sm_count) * block_ns + split_ns


def best_convolution_tile(one: Convolution, images: int, device: Device) -> Tile:
    """(tile_m, tile_n, split_k) of the least time alone. Raises `DescriptionError` where nothing is known."""
    costs = convolution_costs_of(device.name)
    if costs is None:
        raise DescriptionError(f"nothing is known of products on {device.name}; name the tiles")
    candidates = []
    for tile in CONVOLUTION_TILES:
        whole = conv_of(one, images, (*tile, 1))
        splits = SPLITS if 2 * whole.grid.size <= device.sm_count else (1,)
        candidates += [(*tile, count) for count in splits if whole.k_block_count >= count * SHALLOWEST]
    candidates = candidates or [(*tile, 1) for tile in CONVOLUTION_TILES]
    return min(candidates, key=lambda tile: convolution_ns(costs, conv_of(one, images, tile), device))


def best_convolution_tiles(
    convolutions: Sequence[Convolution], images: int, device: Device
) -> dict[str, Tile]:
    """`best_convolution_tile` of each, by name."""
    return {one.name: best_convolution_tile(one, images, device) for one in convolutions}
