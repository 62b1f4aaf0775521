"""A makespan estimate before any run of the pipeline, from its kernels timed alone; needs no simpy.

Example: GPT-3's products at 1,536 tokens take 369 and 368 us alone, in two and three waves of tiles; under
row semaphores the reference simulator puts the pair at 690 us.
"""

from collections.abc import Mapping

from wavesim.costs.cost_model import CostModel
from wavesim.costs.device_costs import costs_of
from wavesim.evaluation.reference.simulator import ReferenceSimulator
from wavesim.model.device import Device
from wavesim.model.occupancy import occupancy_of
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.plan import Plan, StreamSync


def makespan_estimate_ns(
    pipeline: Pipeline, plan: Plan, device: Device, kernel_ns: Mapping[str, float], *, is_forked: bool
) -> int:
    """Of the pipeline as a CUDA graph, from launch to completion.

    `kernel_ns`: each stage's kernel as a graph of its own; `is_forked`: stages have streams of their own.
    """
    # What drawing, posting and adding up slices costs is in the kernels' times already, or hidden behind a
    # persistent block's next tile.
    costs = CostModel(
        _tile_ns(pipeline, device, kernel_ns),
        boundary_ns=_overhead(device, "boundary_ns"),
        setup_ns=_overhead(device, "setup_ns"),
        multi_stream_ns=_overhead(device, "multi_stream_ns"),
    )
    blocks = ReferenceSimulator(pipeline, plan, device, costs).run().blocks
    makespan_ns = max(block.end for block in blocks) - min(block.issue for block in blocks)
    return makespan_ns + costs.outside_ns(plan if is_forked else StreamSync())


def makespan_bound_ns(pipeline: Pipeline, device: Device, kernel_ns: Mapping[str, float]) -> float:
    """All tiles' time over what all SMs hold: no plan takes less."""
    tile_ns = _tile_ns(pipeline, device, kernel_ns)
    return sum(tile_ns[stage.name] * stage.grid.size / _wave(device, stage) for stage in pipeline.stages)


def _tile_ns(pipeline: Pipeline, device: Device, kernel_ns: Mapping[str, float]) -> dict[str, int]:
    """Such that each kernel alone, wave after wave, takes the time that it was measured to take."""
    found = {}
    for stage in pipeline.stages:
        waves = -(-stage.grid.size // _wave(device, stage))
        blocks_ns = kernel_ns[stage.name] - _overhead(device, "setup_ns")
        found[stage.name] = max(1, round(blocks_ns / waves))
    return found


def _wave(device: Device, stage: Stage) -> int:
    """Blocks resident at once."""
    return device.sm_count * occupancy_of(device, stage.kernel.block).blocks_per_sm


def _overhead(device: Device, name: str) -> int:
    return int(costs_of(device.name).overheads.get(name, 0))
