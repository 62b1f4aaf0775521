"""Costs of products that nobody timed, from constants of a device's products timed alone.

Example: on an H200 a tile of 128x256 with k = 12,288 takes 160 us, at any number of rows. Pairs are simulated
with that, and with the device's memory and clock, as they are from a stream-sync trace.
"""

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
