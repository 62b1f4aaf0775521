"""A cost model from the device catalogue alone, for kernels that nobody has measured.

Example: a 128x256 tile of a GEMM with K = 12288 is 0.8 GFLOP; an SM of an H200 has 7.5 TFLOP/s at its peak,
so the tile takes at least 107 us.
"""

from wavesim.costs.cost_model import CostModel
from wavesim.costs.device_costs import costs_of
from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.occupancy import occupancy_of
from wavesim.model.pipeline import Pipeline


def roofline(pipeline: Pipeline, device: Device) -> CostModel:
    """Costs from the catalogue alone: a block takes the longer of its arithmetic and its memory traffic.

    An SM has its share of the device's peak rates; n blocks on it run at 1/n of the speed. An
    upper bound on speed: real kernels reach 40 to 95 % of it. Launch and semaphore costs are
    those known of the device (`costs_of`). Raises `DescriptionError` for a kernel whose work is not given.
    """
    tile_ns = {}
    most = 1
    for stage in pipeline.stages:
        kernel = stage.kernel
        math_s = kernel.flops_per_block * device.sm_count / device.tensor_flops_per_s
        copy_s = kernel.bytes_per_block * device.sm_count / device.dram_bytes_per_s
        if kernel.flops_per_block == 0 and kernel.bytes_per_block == 0:
            raise DescriptionError(
                f"{kernel.name}: no flops_per_block or bytes_per_block; give them, or tile_ns"
            )
        tile_ns[stage.name] = max(1, round(max(math_s, copy_s) * 1e9))
        most = max(most, occupancy_of(device, kernel.block).blocks_per_sm)
    sharing = tuple(1 / n for n in range(1, most + 1))
    return CostModel(tile_ns, sharing=sharing, **costs_of(device.name).overheads)
