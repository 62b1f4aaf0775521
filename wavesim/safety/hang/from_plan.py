"""A situation from a pipeline and a plan: the kernels that it launches, on which streams, and their waits.

Example: a pair under row semaphores on two streams is three operations: the producer, a wait-kernel that
waits for the start of its first block, and the consumer behind it, whose blocks wait for the producer's.
"""

from collections.abc import Iterator

from wavesim.model.device import Device
from wavesim.model.kernel import WAIT_KERNEL
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan
from wavesim.plan.resolved import ResolvedPlan, resolve
from wavesim.safety.hang.situation import BlockWait, DevicePart, Situation
from wavesim.sim.placement import footprint
from wavesim.streams.operation import StreamOperation

PART = "gpu0"


def situation_of_plan(pipeline: Pipeline, plan: Plan, device: Device) -> Situation:
    """What a plan launches. Raises `DescriptionError` for a plan that does not fit the pipeline.

    A persistent kernel has as many blocks as fit at once; one that computes all stages has no waits of its
    own, as its blocks take producers' tiles first. A block is taken to wait for all tiles of its producers.
    """
    resolved = resolve(pipeline, plan)
    operations = tuple(_operations(resolved, device))
    is_fused = plan.schedule.is_fused
    waits = () if is_fused else tuple(_waits(resolved))
    notes = (
        ("one kernel computes all stages: its blocks take the tiles of producers first",) if is_fused else ()
    )
    return Situation(
        f"{pipeline.name}, {plan.name}", (DevicePart(PART, device),), operations, waits, notes=notes
    )


def _operations(resolved: ResolvedPlan, device: Device) -> Iterator[StreamOperation]:
    pipeline, plan, turns = resolved.pipeline, resolved.plan, resolved.turns
    stages = pipeline.stages[:1] if plan.schedule.is_fused else pipeline.stages
    for index, stage in enumerate(stages):
        kernel, stream = stage.kernel, stage.name if plan.launch.is_multi_stream else "plan"
        guarded = plan.launch.wait_kernel and pipeline.dependency_of(stage.name) is not None
        if guarded:
            yield StreamOperation(
                f"wait-kernel of {stage.name}",
                PART,
                block=WAIT_KERNEL.block,
                carveout=WAIT_KERNEL.carveout,
                stream=stream,
                is_blocking=False,
            )
        blocks = kernel.grid.size
        if plan.schedule.fetches_tiles:
            blocks = min(blocks, footprint(device, kernel).blocks_per_sm * device.sm_count)
        is_followed = index + 1 < len(stages) and turns[index + 1].is_early
        yield StreamOperation(
            stage.name,
            PART,
            blocks=blocks,
            block=kernel.block,
            carveout=kernel.carveout,
            stream=stream,
            is_blocking=False,
            is_dependent=turns[index].is_early,
            trigger="start" if is_followed else "end",
        )


def _waits(resolved: ResolvedPlan) -> Iterator[BlockWait]:
    pipeline, plan = resolved.pipeline, resolved.plan
    for stage, turn in zip(pipeline.stages, resolved.turns, strict=True):
        dependency = pipeline.dependency_of(stage.name)
        if dependency is None:
            continue
        for producer in dependency.producers:
            if plan.launch.wait_kernel:
                yield BlockWait(f"wait-kernel of {stage.name}", producer, 1, "start")
            if plan.sync.has_semaphores or turn.is_early:
                yield BlockWait(stage.name, producer)
