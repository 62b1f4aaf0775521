"""What the header of a simulated trace says of pipeline, plan and device.

Example: of two H200s it says that they have 264 SMs, and of a GEMM of 24 x 16 tiles that two of its blocks of
256 threads fit on an SM.
"""

from typing import Any

from wavesim.model.device import Device
from wavesim.model.kernel import Block
from wavesim.model.occupancy import occupancy_of
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import plan_data
from wavesim.plan.plan import Plan
from wavesim.trace.header import Header, StageInfo


def header_of(pipeline: Pipeline, plan: Plan, device: Device, **more: Any) -> Header:
    """The header of a pipeline under a plan; `more` are its further fields."""
    return Header(
        source="simulated",
        device=describe_device(device),
        workload=pipeline.name,
        plan=plan.name,
        plan_label=plan.label,
        plan_data=plan_data(plan),
        orders={stage.name: plan.order_of(stage.name).name for stage in pipeline.stages},
        note=plan.caveat,
        **more,
    )


def describe_device(device: Device, count: int = 1) -> dict[str, object]:
    """So many of a device."""
    capability = ".".join(map(str, device.compute_capability))
    several = {"count": count} if count > 1 else {}
    return {
        "name": device.name,
        "sm_count": device.sm_count * count,
        **several,
        "compute_capability": capability,
    }


def describe_stage(stage: Stage, block: Block, device: Device, blocks_per_sm: int | None = None) -> StageInfo:
    """A stage whose tiles such blocks compute, as many on an SM as fit unless fewer are meant to."""
    grid, tile = stage.grid, stage.work.output_tile
    fit = blocks_per_sm or occupancy_of(device, block).blocks_per_sm
    return StageInfo(stage.name, (grid.x, grid.y, grid.z), fit, block.threads, tile, stage.backend)
