"""Notebook 4: how many consumers are too many, a repair, and when no wait-kernel is needed."""

from typing import Any

from wavesim.costs.cost_model import zero_cost
from wavesim.errors import DeadlockError
from wavesim.model import device as devices
from wavesim.plan.plan import Plan, SemaphoreSync
from wavesim.plan.policy import TileSync
from wavesim.safe_io.annotated import typed
from wavesim.safety.deadlock import safety_of
from wavesim.sim.simulation import simulate
from wavesim.teaching.exercises import require
from wavesim.trace.metrics import metrics_of
from wavesim.workloads.figure_one import TILE_NS, toy


@typed
def deadlocks(head_start: int, sm_count: int) -> bool:
    """Whether so many consumers first, and no wait-kernel, stop the toy for good."""
    plan = SemaphoreSync(TileSync(), wait_kernel=False, head_start=head_start)
    device = devices.load("toy").with_sm_count(sm_count)
    try:
        simulate(toy(), plan, device, zero_cost(toy(), TILE_NS))
    except DeadlockError:
        return True
    return False


def _too_many(count: int) -> dict[str, Any]:
    return {"deadlocks": deadlocks(count, 6), "are_fewest": not count or not deadlocks(count - 1, 6)}


def _grade_repair(answer: Any) -> str:
    """A plan for the toy on 4 SMs that cannot deadlock and takes 3 waves."""
    require(isinstance(answer, Plan), "give a plan: SemaphoreSync(...).")
    device = devices.load("toy")
    verdict = safety_of(toy(), answer, device)
    require(verdict.is_safe, verdict.reason)
    waves = metrics_of(simulate(toy(), answer, device, zero_cost(toy(), TILE_NS))).waves
    require(waves == 3, f"safe, but it takes {waves:g} waves; 3 are possible.")
    require(
        answer.sync.has_semaphores and not answer.schedule.is_fused,
        "safe, and 3 waves, but no SemaphoreSync of two kernels: that is what you are asked to repair.",
    )
    return "The wait-kernel lets the consumer's launch go only when the producer's blocks are being issued."


def _without_wait_kernel(count: int) -> dict[str, Any]:
    plan, device = SemaphoreSync(TileSync(), wait_kernel=False), devices.load("toy")
    verdict = safety_of(toy(), plan, device.with_sm_count(count))
    are_fewest = count == 1 or not safety_of(toy(), plan, device.with_sm_count(count - 1)).is_safe
    reason = verdict.reason.partition(". Keep")[0] + "."
    return {"is_safe": verdict.is_safe, "reason": reason, "are_fewest": are_fewest}


GRADERS = {"4.1": _too_many, "4.2": _grade_repair, "4.3": _without_wait_kernel}
