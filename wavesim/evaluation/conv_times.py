"""How long convolutions one after the other take under each way of synchronising, simulated.

Example: ResNet-34's eight convolutions of 28 x 28 images at batch 8 take what their tiles' waves take under
stream sync, each in the tiles that suit it alone; dependent launch hides the kernel boundaries, and
semaphores fill the tail of a kernel's last wave too, in whatever tiles that pays most.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from wavesim.costs.product_costs import ProductTile, product_costs_of
from wavesim.model.device import Device
from wavesim.model.kernel import Gemm
from wavesim.plan.parsing import parse_plan
from wavesim.predict.convolution_tiles import best_convolution_tiles
from wavesim.predict.defaults import find_costs
from wavesim.predict.product_tiles import alone_ns, best_tile
from wavesim.workloads.conv_networks import Convolution, Network, Tile, chain_of_convolutions
from wavesim.workloads.hopper import TILES
from wavesim.workloads.layer_backends import with_chained_products

STREAM, PDL, SEMAPHORES = "stream", "pdl", "pdl+tile"
SAME, HIGH, NARROW = (128, 128), (256, 128), (128, 64)
LEAST_FILTERS = 64
PAIR = 2  # of longer chains blocks leave their SMs to the kernels behind as they end


@dataclass(frozen=True)
class ConvolutionTimes:
    """Nanoseconds of the whole chain; `tiles` are those of semaphores, in words."""

    stream_ns: float
    pdl_ns: float
    semaphores_ns: float
    tiles: str

    @property
    def best_ns(self) -> float:
        """Of the fastest."""
        return min(self.stream_ns, self.pdl_ns, self.semaphores_ns)

    @property
    def saves(self) -> float:
        """The fastest over stream sync, in percent of it."""
        return 100 * (1 - self.best_ns / self.stream_ns)

    @property
    def boundary(self) -> float:
        """Of that, what hiding the kernel boundaries saves."""
        return max(0.0, 100 * (1 - self.pdl_ns / self.stream_ns))

    @property
    def tail(self) -> float:
        """Of that, what waiting for tiles saves on top."""
        return self.saves - self.boundary


def times_of_convolutions(
    name: str, convolutions: Sequence[Convolution], images: int, device: Device
) -> ConvolutionTimes:
    """Stream sync and dependent launch in the tiles that suit each alone; semaphores in the best tried."""
    alone = best_convolution_tiles(convolutions, images, device)
    times = {word: _simulated_ns(name, convolutions, images, alone, word, device) for word in (STREAM, PDL)}
    if len(convolutions) == 1:
        return ConvolutionTimes(times[STREAM], times[PDL], times[PDL], "-")
    tried = {"each its own": alone, **dict(_tiles_in_common(convolutions))}
    found = {
        words: _simulated_ns(name, convolutions, images, tiles, SEMAPHORES, device)
        for words, tiles in tried.items()
    }
    words = min(found, key=lambda one: found[one])
    return ConvolutionTimes(times[STREAM], times[PDL], found[words], words)


def _tiles_in_common(convolutions: Sequence[Convolution]) -> Iterator[tuple[str, dict[str, Tile]]]:
    """The same tile for all, narrower where there are fewer filters."""
    for tile_m, tile_n in (SAME, HIGH, NARROW):
        tiles = {
            one.name: (tile_m, tile_n if one.filters >= tile_n else LEAST_FILTERS, 1) for one in convolutions
        }
        yield f"{tile_m}x{tile_n}", tiles


def _simulated_ns(
    name: str,
    convolutions: Sequence[Convolution],
    images: int,
    tiles: dict[str, Tile],
    word: str,
    device: Device,
) -> int:
    pipeline = chain_of_convolutions(name, convolutions, images, tiles)
    if word == SEMAPHORES and len(convolutions) > PAIR:
        pipeline = with_chained_products(pipeline)
    return find_costs(pipeline, device).simulated(pipeline, parse_plan(word), device).time_ns


def rest_ns(network: Network, images: int, device: Device) -> float:
    """Poolings at the rate of an element-wise pass, products as timed alone; nothing overlaps. ns."""
    products = product_costs_of(device.name)
    assert products is not None, device.name
    found = 0.0
    for one in network.rest:
        found += products.pass_ns(images * one.elements) if one.elements else 0.0
        if one.product is not None:
            n, k = one.product
            padded = 8 * ceil(n / 8)
            gemm = Gemm(one.name, images, padded, k, 64, 64, 64)
            tile_m, tile_n, split_k = best_tile(gemm, device, TILES)
            found += alone_ns(products, gemm, ProductTile(tile_m, tile_n, split_k), device.sm_count)
            found += products.boundary_ns
    return found
