"""Costs of products that nobody timed, from constants of a device's products timed alone.

Example: on an H200 a tile of 128x256 with k = 12,288 takes 160 us, at any number of rows. Pairs are simulated
with that, and with the device's memory and clock, as they are from a stream-sync trace; no pair was used.
"""

from wavesim.costs.calibration_text import assumed_text
from wavesim.costs.cost_model import CostModel
from wavesim.costs.device_costs import costs_of
from wavesim.costs.product_costs import ProductTile, product_costs_of
from wavesim.model.device import Device
from wavesim.model.kernel import Gemm
from wavesim.model.occupancy import occupancy_of
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import StreamSync
from wavesim.predict.defaults import KnownCosts, described_costs

KIND = "products timed alone"  # in recordings/intervals.json


def costs_from_products(pipeline: Pipeline, device: Device) -> KnownCosts:
    """Tile times by the device's `[products]`; a roofline where no products were timed on it.

    Raises `DescriptionError` for a kernel whose work is not given.
    """
    products = product_costs_of(device.name)
    if products is None or not all(isinstance(stage.work, Gemm) for stage in pipeline.stages):
        return described_costs(pipeline, device, {})
    known = costs_of(device.name)
    sharing, oldest_first_bias = known.speeds(pipeline, device)
    overheads = {
        **known.overheads,
        **known.backend(pipeline, StreamSync().schedule.word).overheads,
    }
    tile_ns = {}
    for stage in pipeline.stages:
        gemm = stage.gemm
        tile = ProductTile(gemm.tile_m, gemm.tile_n, gemm.split_k)
        tile_ns[stage.name] = round(products.tile_ns(tile, gemm.m, gemm.k))
    most = max(occupancy_of(device, stage.kernel.block).blocks_per_sm for stage in pipeline.stages)
    model = CostModel(
        tile_ns,
        sharing=sharing,
        oldest_first_bias=oldest_first_bias,
        memory=known.memory,
        clock_gain=known.gain(most),
        **overheads,
    )
    assumed = known.defaults_in("overheads")
    source = (
        f"tile times from products timed alone on {device.name}, never from a pair{assumed_text(assumed)}"
    )
    return KnownCosts(model, source, defaults=tuple(map(str, assumed)), kind=KIND)
