"""L2 and tile orders: what a wave of consecutive tiles reads, to choose among plans that are equally fast.

Example: 132 consecutive tiles of a row-major order touch three rows of A and all 48 column panels of B,
157 MB per wave; grouped by eight rows they touch eight rows and 17 columns, 66 MB.

Prototype kernels on an H200 lost 11 to 30 % of a consumer tile's time to row-major order under row
semaphores; the recorded portable kernels lose nothing. So traffic decides ties and changes no time.
"""

from statistics import mean

from wavesim.model.device import Device
from wavesim.model.kernel import Gemm
from wavesim.model.occupancy import occupancy_of
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.order import Order
from wavesim.plan.plan import Plan

ELEMENT_BYTES = 2


def megabytes_per_wave(pipeline: Pipeline, plan: Plan, device: Device) -> int:
    """The sum over the GEMM stages, in megabytes; 0 where there are none."""
    gemms = [stage for stage in pipeline.stages if isinstance(stage.work, Gemm)]
    total = sum(bytes_per_wave(stage, plan.order_of(stage.name), device) for stage in gemms)
    return round(total / 1e6)


def bytes_per_wave(stage: Stage, order: Order, device: Device) -> float:
    """Operand bytes that one wave of a GEMM touches, each panel once; the mean over the grid's waves."""
    work = stage.gemm
    slots = device.sm_count * occupancy_of(device, stage.kernel.block).blocks_per_sm
    tiles = order.sequence(stage.grid)
    step = max(1, slots // work.split_k)
    depth = work.k * ELEMENT_BYTES
    waves = [tiles[i : i + step] for i in range(0, len(tiles), step)]
    if len(waves) > 1 and len(waves[-1]) < step:
        waves.pop()
    return mean(
        depth * (work.tile_m * len({y for _, y in wave}) + work.tile_n * len({x for x, _ in wave}))
        for wave in waves
    )
