"""A situation from a pipeline and a plan: the kernels that it launches, on which streams, and their waits.

Example: a pair under row semaphores on two streams is three operations: the producer, a wait-kernel that
waits for the start of its first block, and the consumer behind it, whose blocks wait for the producer's. Both
the safety check and `why-hang` judge a plan by this one description.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from wavesim.model.device import Device
from wavesim.model.kernel import WAIT_KERNEL, Block, Carveout
from wavesim.model.occupancy import occupancy_of
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan
from wavesim.plan.resolved import ResolvedPlan, resolve
from wavesim.safety.hang.situation import BlockWait, DevicePart, Situation
from wavesim.safety.verdict import wait_kernel_of
from wavesim.sim.streams.stream_order import StreamOperation

PART = "gpu0"


def situation_of_plan(
    pipeline: Pipeline,
    plan: Plan,
    device: Device,
    *,
    blocks: Mapping[str, Block] | None = None,
    clusters: Mapping[str, int] | None = None,
    guarded: Collection[str] | None = None,
    carveout: Carveout | None = None,
    is_bound: bool = False,
) -> Situation:
    """What a plan launches. Raises `DescriptionError` for a plan that does not fit the pipeline.

    `blocks` and `clusters` of stages, and the `carveout` of all kernels, where they are not what the pipeline
    describes; `guarded`: the consumers
    behind a wait-kernel, if not all or none as the plan says. A persistent kernel has as many blocks as fit
    at once; with `is_bound` one for every tile, which is never fewer. One that computes all stages has no
    waits, as its blocks take producers' tiles first. Else a block is taken to wait for all tiles of its
    producers.
    """
    resolved = resolve(pipeline, plan)
    if guarded is None:
        consumers = {dependency.consumer.stage.name for dependency in pipeline.dependencies}
        guarded = consumers if plan.launch.wait_kernel else ()
    operations = tuple(_operations(resolved, blocks or {}, clusters or {}, guarded))
    if carveout is not None:
        operations = tuple(replace(kernel, carveout=carveout) for kernel in operations)
    if plan.schedule.fetches_tiles and not is_bound:
        operations = tuple(_resident(kernel, device) for kernel in operations)
    is_fused = plan.schedule.is_fused
    waits = () if is_fused else tuple(_waits(resolved, guarded))
    notes = (
        ("one kernel computes all stages: its blocks take the tiles of producers first",) if is_fused else ()
    )
    return Situation(
        f"{pipeline.name}, {plan.name}", (DevicePart(PART, device),), operations, waits, notes=notes
    )


def _resident(kernel: StreamOperation, device: Device) -> StreamOperation:
    slots = occupancy_of(device, kernel.block).blocks_per_sm * device.sm_count
    return replace(kernel, blocks=min(kernel.blocks, slots))


def _operations(
    resolved: ResolvedPlan, blocks: Mapping[str, Block], clusters: Mapping[str, int], guarded: Collection[str]
) -> Iterator[StreamOperation]:
    plan, turns = resolved.plan, resolved.turns
    stages = resolved.pipeline.stages[:1] if plan.schedule.is_fused else resolved.pipeline.stages
    for index, stage in enumerate(stages):
        kernel, stream = stage.kernel, stage.name if plan.launch.is_multi_stream else "plan"
        if stage.name in guarded:
            yield StreamOperation(
                wait_kernel_of(stage.name),
                PART,
                block=WAIT_KERNEL.block,
                carveout=WAIT_KERNEL.carveout,
                stream=stream,
                is_blocking=False,
            )
        is_followed = index + 1 < len(stages) and turns[index + 1].is_early
        yield StreamOperation(
            stage.name,
            PART,
            blocks=kernel.grid.size,
            block=blocks.get(stage.name, kernel.block),
            cluster=clusters.get(stage.name, 1),
            carveout=kernel.carveout,
            stream=stream,
            is_blocking=False,
            is_dependent=turns[index].is_early,
            trigger="start" if is_followed else "end",
        )


def _waits(resolved: ResolvedPlan, guarded: Collection[str]) -> Iterator[BlockWait]:
    for stage, turn in zip(resolved.pipeline.stages, resolved.turns, strict=True):
        dependency = resolved.pipeline.dependency_of(stage.name)
        for producer in dependency.producers if dependency is not None else ():
            if stage.name in guarded:
                yield BlockWait(wait_kernel_of(stage.name), producer, 1, "start")
            if resolved.plan.sync.has_semaphores or turn.is_early:
                yield BlockWait(stage.name, producer)
