"""Costs of products that nobody timed, from constants of a device's products timed alone.

Example: on an H200 a tile of 128x256 with k = 12,288 takes 160 us, at any number of rows. Pairs are simulated
with that, and with the device's memory and clock, as they are from a stream-sync trace.
"""

from collections.abc import Sequence
from dataclasses import replace

from wavesim.costs.calibration_text import assumed_text
from wavesim.costs.cost_model import CostModel
from wavesim.costs.device_costs import costs_of, law_of
from wavesim.model.device import Device
from wavesim.model.occupancy import occupancy_of
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import StreamSync
from wavesim.predict.defaults import described_costs
from wavesim.predict.known_costs import KnownCosts
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.products import ProductCosts, ProductTile

KIND = "products timed alone"  # in recordings/intervals.json
# Schedules, by their words, whose blocks go on with another tile: fetched, or from a list of their own.
GOING_ON = ("persistent", "fused")
CUTTING = ("stream-k", "stream-k-in-order")


def costs_from_products(pipeline: Pipeline, device: Device) -> KnownCosts:
    """Tile times by the device's `[products]`; a roofline where no products were timed on it.

    Raises `DescriptionError` for a kernel whose work is not given.
    """
    products = law_of(ProductCosts, device.name)
    if products is None or not all(stage.work.is_product for stage in pipeline.stages):
        return described_costs(pipeline, device, {})
    known = costs_of(device.name)
    sharing, oldest_first_bias = known.speeds(pipeline, device)
    most = max(occupancy_of(device, stage.kernel.block).blocks_per_sm for stage in pipeline.stages)

    def costs(schedule: str, lone_ns: int) -> CostModel:
        tile_ns = {stage.name: lone_ns + _tile_ns(products, stage.gemm) for stage in pipeline.stages}
        return CostModel(
            tile_ns,
            sharing=sharing,
            oldest_first_bias=oldest_first_bias,
            memory=known.memory,
            clock_gain=known.gain(most),
            **{**known.overheads, **known.backend(pipeline, schedule).overheads},
        )

    plain = StreamSync().schedule.word
    by_schedule = {word: costs(word, 0) for word in GOING_ON} | {word: costs(plain, 0) for word in CUTTING}
    # The last tile of a block has no other to hide behind.
    by_schedule = {
        word: replace(model, setup_ns=model.setup_ns + products.block_ns)
        for word, model in by_schedule.items()
    }
    assumed = known.defaults_in("overheads")
    source = f"tile times from products timed alone on {device.name}{assumed_text(assumed)}"
    return KnownCosts(
        costs(plain, products.block_ns),
        source,
        defaults=tuple(map(str, assumed)),
        kind=KIND,
        by_schedule=by_schedule,
    )


def _tile_ns(products: ProductCosts, gemm: Gemm) -> int:
    """Of a block that goes on with another tile, as those did that were timed."""
    return round(products.tile_ns(ProductTile(gemm.tile_m, gemm.tile_n, gemm.split_k), gemm.m, gemm.k))


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
