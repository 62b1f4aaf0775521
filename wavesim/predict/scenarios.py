"""What could be the case of kernels whose author has not said how they wait: a cost model for each.

Example: of a GEMM's blocks nothing is said but what they occupy. It is predicted as one that waits at a
barrier of its block; waits that a producer warp hides, waits before the main loop and a persistent kernel are
simulated too, and the interval covers them all. Where everything is said there is one scenario.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from wavesim.costs.cost_model import CostModel
from wavesim.model.device import Device
from wavesim.model.kernel import MainLoop, WaitPlace
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage

SHALLOW, USUAL_DEPTH, DEEP = 2, 4, 6  # k-blocks
SPECIALISED_THREADS = 384  # two warpgroups that multiply and one that loads
SPECIALISED_SINCE = (9, 0)  # compute capability with TMA, and registers that warps can hand on
TEXTS: Mapping[WaitPlace, str] = {
    "producer-warp": "a producer warp waits",
    "block-barrier": "all warps wait at a block barrier",
    "before-main-loop": "blocks wait before the main loop",
    "prefetched": "semaphores are prefetched",
}
DEPTH, TESTS, PERSISTENT = "k-blocks in flight", "waits tested at each k-block", "persistent kernels"
# What a description calls the fact that a label leaves open.
FIELDS: Mapping[str, str] = {
    **dict.fromkeys(TEXTS.values(), "wait"),
    DEPTH: "pipeline_depth",
    TESTS: "tests_each_k_block",
    PERSISTENT: "persistent",
}


@dataclass(frozen=True)
class WaitScenario:
    """What is assumed, in words, and the costs if it is so; `unknown` is the field of `MainLoop` it is about.

    "" where it is what is predicted with.
    """

    label: str
    costs: CostModel
    unknown: str = ""


def usual_loop(stage: Stage, device: Device) -> MainLoop:
    """The most common main loop of kernels like a stage's, where its author has said nothing.

    Kernels of wavesim prefetch their semaphores. Others on Hopper and later with three warpgroups or more are
    warp-specialised, as CUTLASS builds them: one loads, and waits. In all others every warp loads, and the
    simplest way to wait is a barrier of the block, between one of the producer's tiles and the next. A launch
    of as many blocks as tiles is not persistent.
    """
    if stage.backend:
        return MainLoop(USUAL_DEPTH, "prefetched", is_persistent=False, tests_each_k_block=False)
    is_new = device.compute_capability >= SPECIALISED_SINCE
    is_specialised = is_new and stage.kernel.block.threads >= SPECIALISED_THREADS
    place: WaitPlace = "producer-warp" if is_specialised else "block-barrier"
    return MainLoop(USUAL_DEPTH, place, is_persistent=False, tests_each_k_block=False)


def usual_loops(pipeline: Pipeline, device: Device) -> dict[str, MainLoop]:
    """What is assumed of each stage whose author left something out, by name."""
    return {
        stage.name: stage.main_loop.filled(usual_loop(stage, device))
        for stage in pipeline.stages
        if stage.main_loop.unknown
    }


def scenarios_of(pipeline: Pipeline, device: Device, costs: CostModel) -> list[WaitScenario]:
    """At most five; the first is the one to predict with."""
    usual = {**usual_loops(pipeline, device), **costs.main_loops}
    loops = {
        stage.name: stage.main_loop.filled(usual.get(stage.name, MainLoop())) for stage in pipeline.stages
    }
    central = replace(costs, main_loops=usual)
    others = [
        WaitScenario(label, replace(costs, main_loops=_with(pipeline, loops, instead)), unknown)
        for label, unknown, instead in _alternatives(pipeline, loops)
    ]
    return [WaitScenario(_label(pipeline, loops), central), *others]


def _label(pipeline: Pipeline, loops: Mapping[str, MainLoop]) -> str:
    places = {loops[stage.name].wait_place: None for stage in _waiting(pipeline)}
    return ", ".join(TEXTS[place] for place in places if place is not None) or "nothing waits"


def _alternatives(
    pipeline: Pipeline, loops: Mapping[str, MainLoop]
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(label, unknown field, what could be instead): the extremes of each field that was not said."""
    unknown = [stage for stage in _waiting(pipeline) if stage.main_loop.wait_place is None]
    assumed = {loops[stage.name].wait_place for stage in unknown}
    if unknown and assumed != {"prefetched"}:
        for place in ("producer-warp", "block-barrier", "before-main-loop"):
            if assumed != {place}:
                yield TEXTS[place], "wait_place", {"wait_place": place, "pipeline_depth": DEEP}
    is_depth_open = any(
        stage.main_loop.pipeline_depth is None and stage.main_loop.wait_place == "producer-warp"
        for stage in _waiting(pipeline)
    )
    if is_depth_open:
        for depth in (SHALLOW, DEEP):
            yield f"{depth} {DEPTH}", "pipeline_depth", {"pipeline_depth": depth}
    if any(
        stage.main_loop.tests_each_k_block is None and loops[stage.name].wait_place == "block-barrier"
        for stage in _waiting(pipeline)
    ):
        yield TESTS, "tests_each_k_block", {"tests_each_k_block": True}
    if any(_may_be_persistent(stage) and not loops[stage.name].is_persistent for stage in pipeline.stages):
        yield PERSISTENT, "is_persistent", {"is_persistent": True}


def _waiting(pipeline: Pipeline) -> list[Stage]:
    return [stage for stage in pipeline.stages if pipeline.dependency_of(stage.name) is not None]


def _may_be_persistent(stage: Stage) -> bool:
    """Not said, and not seen: of a bare kernel the grid is what was launched, a block per tile."""
    is_ours = bool(stage.backend)
    return stage.main_loop.is_persistent is None and not stage.work.is_bare and not is_ours


def _with(
    pipeline: Pipeline, loops: Mapping[str, MainLoop], instead: Mapping[str, Any]
) -> dict[str, MainLoop]:
    """What is assumed of every stage, with these fields instead where its author left them out."""
    found = {}
    for stage in pipeline.stages:
        is_open = {
            name: getattr(stage.main_loop, name) is None
            and (name != "is_persistent" or _may_be_persistent(stage))
            for name in instead
        }
        found[stage.name] = replace(
            loops[stage.name], **{name: value for name, value in instead.items() if is_open[name]}
        )
    return found
