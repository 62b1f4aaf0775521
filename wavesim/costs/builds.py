"""What the compiler makes of two builds of one kernel: time of a tile under semaphores over that without.

Example: a GEMM is compiled for every order and policy. Where 640 tokens leave nothing to overlap, stream
sync and row semaphores take the same time within half a percent, and tile semaphores 1 % less. No stream-sync
trace says so; a run of that build on semaphores that are ready would.
"""

from wavesim.costs.cost_model import CostModel
from wavesim.costs.device_costs import DeviceCosts
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan


def as_built(costs: CostModel, pipeline: Pipeline, plan: Plan, known: DeviceCosts) -> CostModel:
    """Costs calibrated on stream sync, with the tile times of the builds that a plan runs, where known."""
    if not plan.sync.has_semaphores or any(stage.grid.z > 1 for stage in pipeline.stages):
        return costs
    ratios = known.backend(pipeline, plan.schedule.word).tile_time_ratios
    for stage in (dependency.consumer.stage for dependency in pipeline.dependencies):
        tile = "x".join(map(str, stage.work.output_tile or ()))
        ratio = ratios.get(f"{tile} {plan.sync.word}")
        if ratio is not None:
            times = costs.tile_times(stage)
            each = [times] * stage.grid.size if isinstance(times, int) else times
            costs = costs.with_tile_ns(**{stage.name: [round(time * ratio) for time in each]})
    return costs
