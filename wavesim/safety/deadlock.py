"""Can a plan deadlock on a device, and what does the answer rest on? Waiting blocks hold their slots.

Example: by dependent launch a block waits only for blocks that have started, which CUDA promises to finish.
On streams of their own a wait-kernel spins while its producer is still to be issued: safe only if a block
is issued where there is room, and if launches' blocks come oldest first, which CUDA does not promise
(docs/safety.md). Without the wait-kernel consumers may fill the GPU before any producer: safe if they leave
room, and if other work leaves it to the plan.

It is not the paper's rule (IV-C: no wait-kernel where both kernels take less than two waves), which
accepts Figure 1 on four SMs. No order is assumed between streams, as in a CUDA graph's branches.
"""

from collections.abc import Hashable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import get_args

from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.kernel import Block, Carveout
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan, check_plan
from wavesim.plan.resolved import buffers_key, resolve
from wavesim.safe_io.annotated import require_types
from wavesim.safe_io.bounds import shown, whole
from wavesim.safety.adversary import Adversary
from wavesim.safety.hang.facts import SituationFacts
from wavesim.safety.hang.from_plan import situation_of_plan
from wavesim.safety.hang.situation import Situation
from wavesim.safety.hazards import Hazard, hazards_of
from wavesim.safety.verdict import (
    CARVEOUT_REMEDY,
    Assumption,
    SafetyVerdict,
    WorstCase,
    needs_text,
    safe_text,
    unsafe_text,
)

LARGEST_CLUSTER = 2  # larger ones don't fit on just any neighbouring SMs


def safety_of(
    pipeline: Pipeline,
    plan: Plan,
    device: Device,
    blocks: Mapping[str, Block] | None = None,
    clusters: Mapping[str, int] | None = None,
    carveout: Carveout | None = None,
) -> SafetyVerdict:
    """The verdict on a plan, by the weakest assumptions that hold. Never calls a plan safe that can deadlock.

    Nor one in which two tiles use a buffer with nothing to order them, where the stages say what they read
    and write (`hazards_of`).

    `blocks`: what the blocks of stages occupy where that is not what the pipeline describes; `clusters`: how
    many of them form a cluster, 1 (where nothing is said) or 2; `carveout`: what whoever launches makes all
    kernels ask for, as generated code does ("full"), whatever the pipeline describes.

    Raises `DescriptionError` for a plan that does not fit the pipeline, an order that is no permutation, a
    semaphore that is never reached or reached too soon, stages that there are not, and blocks that no SM can
    hold.
    """
    require_types("safety_of", pipeline=(pipeline, Pipeline), device=(device, Device))
    _check(pipeline, plan, blocks, clusters, carveout)
    launched = tuple((blocks or {}).items()), tuple((clusters or {}).items()), carveout
    try:
        hash(plan)
    except TypeError:  # of a part that somebody wrote: it need not have a hash
        return _judged(pipeline, plan, device, launched)
    return _kept_verdict(pipeline, buffers_key(pipeline), plan, device, launched)


Blocks = tuple[tuple[str, Block], ...]
Clusters = tuple[tuple[str, int], ...]
Launched = tuple[Blocks, Clusters, Carveout | None]


@lru_cache(maxsize=64)
def _kept_verdict(
    pipeline: Pipeline, _buffers: Hashable, plan: Plan, device: Device, launched: Launched
) -> SafetyVerdict:
    return _judged(pipeline, plan, device, launched)


def _judged(pipeline: Pipeline, plan: Plan, device: Device, launched: Launched) -> SafetyVerdict:
    hazard = _first_hazard(pipeline, plan)
    if hazard is not None:
        return SafetyVerdict(False, hazard.text)
    if not plan.waits_for_grids and not (plan.sync.has_semaphores and pipeline.dependencies):
        return SafetyVerdict(True, "safe: no block waits on a semaphore")
    reason = plan.schedule.why_safe or plan.launch.why_safe
    if reason:
        return SafetyVerdict(True, f"safe: {reason}")
    has_wait_kernel = plan.launch.wait_kernel
    situation = _situation(pipeline, plan, device, launched)
    facts = SituationFacts(situation)
    worst, is_exact = Adversary(facts).worst()
    asking = {kernel.name for kernel in situation.operations if kernel.carveout == "full"}
    if not worst.is_safe:
        reason = unsafe_text(worst, is_exact=is_exact)
        if len(asking) < len(situation.operations):
            full = SituationFacts(_situation(pipeline, plan, device, (*launched[:2], "full")))
            reason += f". {CARVEOUT_REMEDY}" if Adversary(full).worst()[0].is_safe else ""
        return SafetyVerdict(False, reason, worst)
    assumptions, needed = _assumptions(Adversary(facts, copies=2), worst, has_wait_kernel=has_wait_kernel)
    asking_text = "every kernel" if len(asking) == len(situation.operations) else " and ".join(sorted(asking))
    needs = needs_text(assumptions, device, needed, asking_text)
    return SafetyVerdict(True, safe_text(worst, is_exact=is_exact), worst, needs, needed)


def _situation(pipeline: Pipeline, plan: Plan, device: Device, launched: Launched) -> Situation:
    blocks, clusters, carveout = launched
    return situation_of_plan(
        pipeline, plan, device,
        blocks=dict(blocks), clusters=dict(clusters), carveout=carveout, is_bound=True,
    )  # fmt: skip


def _assumptions(
    beside_a_copy: Adversary, alone: WorstCase, *, has_wait_kernel: bool
) -> tuple[set[Assumption], int]:
    """What a plan on streams of its own rests on that is safe alone, and the SMs that it then needs.

    Waiting blocks without a wait-kernel are as many as the grids have, and more with every copy.
    """
    always = {Assumption.ROOM, Assumption.LAUNCH}
    if beside_a_copy.shares_one_sm():
        return always, 1
    if not has_wait_kernel:
        return always | {Assumption.IDLE}, alone.needed_sms
    worst, _ = beside_a_copy.worst()
    if worst.is_safe:
        return always | {Assumption.ORDER}, worst.needed_sms
    return set(Assumption), alone.needed_sms


def _first_hazard(pipeline: Pipeline, plan: Plan) -> Hazard | None:
    """The same with and without a wait-kernel, which says when blocks are issued and orders no tiles."""
    plan = replace(plan, launch=plan.launch.without_wait_kernel)
    try:
        hash(plan)
    except TypeError:  # of a part that somebody wrote: it need not have a hash
        return next(hazards_of(pipeline, plan), None)
    return _known_hazard(pipeline, buffers_key(pipeline), plan)


@lru_cache(maxsize=4)
def _known_hazard(pipeline: Pipeline, _buffers: Hashable, plan: Plan) -> Hazard | None:
    return next(hazards_of(pipeline, plan), None)


def _check(
    pipeline: Pipeline,
    plan: Plan,
    blocks: Mapping[str, Block] | None,
    clusters: Mapping[str, int] | None,
    carveout: Carveout | None,
) -> None:
    """What the verdict takes for granted. Raises `DescriptionError` where it does not hold."""
    check_plan(pipeline, plan)
    for stage in pipeline.stages:
        plan.order_of(stage.name).sequence(stage.grid)
    _ = resolve(pipeline, plan).arrays  # raises for a policy that does not fit
    for what, given in (("blocks", blocks), ("clusters", clusters)):
        if given is not None and not isinstance(given, Mapping):
            raise DescriptionError(f"{what} is {shown(given)}; give a mapping from stage names")
        for name in given or ():
            pipeline.stage(name)
    for name, block in (blocks or {}).items():
        if not isinstance(block, Block):
            raise DescriptionError(f"blocks: {name} is {shown(block)}; give a Block")
    for name, cluster in (clusters or {}).items():
        whole(f"clusters: {name}", cluster, 1, LARGEST_CLUSTER)
    if carveout not in (None, *get_args(Carveout)):
        raise DescriptionError(f"carveout is {shown(carveout)}; it must be 'full', 'default' or None")
