"""L2 and tile orders: what an order reads from memory, and when that slows overlapped kernels.

Picture: 132 consecutive tiles of a row-major order touch three rows of A and all 48 column panels of B,
157 MB per wave; grouped by eight rows they touch eight rows and 17 columns, 66 MB. In step, 2 TB/s does no
harm; once semaphores let blocks run out of step, panels are read about twice, and 4 TB/s is all there is.

Source: prototype kernels on an H200 (4.3 TB/s): row-major under row semaphores slowed consumer tiles by at
most 1 % at a modelled 2.3 to 3.2 TB/s and by 11 to 30 % at 4.0 to 4.2; grouped orders, at 0.8 to 1.1 in
step, not at all.
"""

from collections.abc import Mapping
from dataclasses import replace
from statistics import mean

from wavesim.model.device import Device
from wavesim.model.kernel import Gemm
from wavesim.model.occupancy import occupancy_of
from wavesim.model.order import Order
from wavesim.model.pipeline import Pipeline, Stage
from wavesim.sim.cost import CostModel

REREAD = 2.0  # times a panel is read once blocks run out of step
FREE_SHARE = 0.75  # of the memory's peak rate can be asked for without a slowdown
ELEMENT_BYTES = 2


def overlapped_costs(
    pipeline: Pipeline, orders: Mapping[str, Order], device: Device, costs: CostModel
) -> CostModel:
    """The costs with the tile times of consumer GEMMs that ask the memory for too much when overlapped."""
    slowed = {}
    for dependency in pipeline.dependencies:
        stage = dependency.consumer.stage
        times = costs.tile_ns.get(stage.name)
        if not isinstance(stage.work, Gemm) or times is None:
            continue
        tile_ns = times if isinstance(times, int) else mean(times)
        factor = slowdown(stage, orders[stage.name], device, tile_ns)
        if factor > 1.0:
            scaled = round(times * factor) if isinstance(times, int) else [round(t * factor) for t in times]
            slowed[stage.name] = scaled
    return replace(costs, tile_ns={**costs.tile_ns, **slowed}) if slowed else costs


def slowdown(stage: Stage, order: Order, device: Device, tile_ns: float) -> float:
    """By how much a GEMM's tiles, `tile_ns` long in step, take longer when they run out of step; 1 if not."""
    if tile_ns <= 0:
        return 1.0
    asked = REREAD * bytes_per_wave(stage, order, device) / (tile_ns * 1e-9)
    return 1.0 + max(0.0, asked / device.dram_bytes_per_s - FREE_SHARE)


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
